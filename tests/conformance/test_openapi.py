"""The description at /v1/openapi.json says what the service does, and the service does what it says."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from inspect import getmembers, isclass
from typing import Any

import httpx
import pytest
import schemathesis
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import HealthCheck, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import checks

from clients_app.scopes import ALL
from lmsp_site import errors
from tests.api.clients import paired
from tests.conformance.described import DOCUMENT, answers, check, closed, loaded, operations
from tests.service import MODEL, Service

OPENAPI, DOCS = "/v1/openapi.json", "/v1/docs"
CHAT = "/v1/chat/completions"
# For people; what they are sent is no JSON.
PAGES = (DOCS, "/pair")
CLOSED = closed()
STRICT, SCHEMA = loaded(CLOSED), loaded(DOCUMENT)
CREATING = {"createTask", "createResponse", "createChatCompletion"}
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


@pytest.fixture(scope="module")
def token(service: Service) -> str:
    return service.pair("described")


@pytest.fixture(scope="module")
def http(service: Service, token: str) -> Iterator[httpx.Client]:
    with service.http(token=token) as client:
        yield client
    service.settle()


def body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": "Say hello.", "temperature": 0, "max_output_tokens": 2, **fields}


# --- The document. ---


def test_it_is_valid() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_it_is_there_for_everybody_and_need_not_be_read_twice(service: Service) -> None:
    answer = httpx.get(f"{service.url}{OPENAPI}")
    assert answer.json() == DOCUMENT
    assert answer.headers["content-type"] == "application/json"
    assert "max-age" in answer.headers["cache-control"]
    assert not answer.cookies
    again = httpx.get(f"{service.url}{OPENAPI}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def views(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        address = f"{prefix}{pattern.pattern}"
        if isinstance(pattern, URLPattern):
            yield re.sub(r"<\w+:(\w+)>", r"{\1}", address), getattr(pattern.callback, "cls", None)
        elif not address.startswith("/admin/"):
            yield from views(pattern.url_patterns, address)


def test_every_call_there_is_is_in_it_and_no_other() -> None:
    found = {
        (address, method)
        for address, view in views(get_resolver().url_patterns)
        if address not in PAGES
        for method in set(view().allowed_methods) - {"OPTIONS", "HEAD"}
    }
    assert operations().keys() == found


def test_every_call_has_a_name_a_summary_and_described_answers() -> None:
    found = operations().values()
    assert len({operation["operationId"] for operation in found}) == len(found)
    for operation in found:
        assert operation["summary"]
        assert operation["tags"]
        for answer in operation["responses"].values():
            assert "$ref" in answer or answer["description"]


def test_every_error_there_is_is_described() -> None:
    kinds = {kind for _, kind in getmembers(errors, isclass) if issubclass(kind, errors.ProtocolError)}
    used: set[str] = set()
    for (path, method), operation in operations().items():
        statuses = set(operation["responses"])
        used |= statuses
        assert {"400", "431", "500"} <= statuses
        assert ("security" in operation) == ({"401", "403", "429", "503"} <= statuses)
        assert ("{" in path) <= ("404" in statuses)
        assert (method == "POST") == ("413" in statuses)
        assert ("requestBody" in operation) == ({"408", "415"} <= statuses)
        assert (operation["operationId"] in CREATING) == ("422" in statuses)
        assert (method == "DELETE" and "{" in path) <= ({"409", "507"} <= statuses)
    # Of a call that there is, no verb is wrong.
    assert {str(kind.status) for kind in kinds - {errors.MethodNotAllowed}} <= used
    assert {kind.__name__ for kind in kinds - {errors.ProtocolError}} == DOCUMENT["components"]["responses"].keys()


def test_every_scope_there_is_is_described() -> None:
    needed = [entry["bearer"] for operation in operations().values() for entry in operation.get("security", ())]
    assert all(len(named) <= 1 for named in needed)
    assert {scope for named in needed for scope in named} == set(ALL)
    assert all(f"`{scope}`" in DOCUMENT["components"]["securitySchemes"]["bearer"]["description"] for scope in ALL)


# --- The service. ---


class Asked:
    """Calls that must be answered as they are described; what was answered is kept."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.answers: set[tuple[str, str, int, str]] = set()

    def __call__(self, method: str, path: str, *, of: str = "", **options: Any) -> httpx.Response:
        answer = self._http.request(method, re.sub(r"{\w+}", of, path), **options)
        STRICT[path][method].validate_response(answer)
        media_type = answer.headers.get("content-type", "").partition(";")[0]
        self.answers.add((path, method, answer.status_code, media_type))
        return answer


def ask_for_completions(ask: Asked) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    told = {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": "What is the weather?", "name": None},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
            {"role": "assistant", "refusal": "No."},
            {"role": "user", "content": "And now?"},
        ],
        "temperature": 0,
        "max_completion_tokens": 2,
        "n": 1,
        "modalities": ["text"],
        "logit_bias": {},
        "response_format": {"type": "text"},
        "verbosity": "medium",
        "reasoning_effort": "none",
        "input": None,
    }
    check("ChatRequest", told, DOCUMENT)
    ask("POST", CHAT, json=told | {"metadata": {"a": "b"}}, headers={"Idempotency-Key": "described"})
    chunked = ask("POST", CHAT, json=told | {"stream": True, "stream_options": {"include_usage": True}})
    chunks = [line.removeprefix("data: ") for line in chunked.text.splitlines() if line.startswith("data: {")]
    assert len(chunks) > 2
    for chunk in chunks:
        check("ChatCompletionChunk", json.loads(chunk), CLOSED)


def ask_for_a_token(ask: Asked, service: Service) -> None:
    codes = ask("POST", "/v1/pairing", json={"client_name": "described", "scopes": ["models:read"]}).json()
    assert httpx.get(codes["verification_uri_complete"], follow_redirects=True).url.path == "/admin/login/"
    assert httpx.get(f"{service.url}/static/clients_app/pair.css").headers["content-type"].startswith("text/css")
    polled = {"device_code": codes["device_code"]}
    assert ask("POST", "/v1/pairing/token", json=polled).json()["error"]["code"] == "authorization_pending"
    service.manage("approve_client", codes["user_code"])
    token = ask("POST", "/v1/pairing/token", json=polled).json()["access_token"]
    with service.http(token=token) as paired:
        assert paired.get("/v1/models").status_code == 200
        assert paired.get("/v1/tasks").status_code == 403
    ask.answers.discard(("/v1/pairing/token", "POST", 400, "application/json"))


def ask_for_what_a_client_knows_of_itself(ask: Asked, service: Service) -> None:
    ask("GET", "/v1/clients/me")
    for group_by in ("day", "model"):
        assert ask("GET", "/v1/clients/me/usage", params={"group_by": group_by}).json()["data"]
    with service.http(token=paired(service, "short-lived", *ALL).token) as http:
        own = Asked(http)
        token = own("POST", "/v1/clients/me/rotate", json={"overlap_seconds": 5}).json()["access_token"]
        http.headers["Authorization"] = f"Bearer {token}"
        assert own("DELETE", "/v1/clients/me").status_code == 204
        assert own("GET", "/v1/clients/me").status_code == 401
    ask.answers |= {answer for answer in own.answers if answer[2] < 300}


def test_every_answer_there_is_is_as_described(http: httpx.Client, service: Service) -> None:
    ask = Asked(http)
    for path in ("/.well-known/lmsp", "/healthz", "/readyz", "/metrics", OPENAPI, "/v1/models"):
        ask("GET", path)
    ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    ask("GET", OPENAPI, headers={"If-None-Match": http.get(OPENAPI).headers["etag"]})
    ask("GET", "/v1/models/{model_id}", of=MODEL)

    task = ask("POST", "/v1/tasks", json=body(metadata={"a": "b"}), headers={"Idempotency-Key": "described"}).json()
    stream = {"Accept": "text/event-stream"}
    followed = ask("GET", "/v1/tasks/{task_id}/events", of=task["id"], headers=stream)
    for line in followed.text.splitlines():
        if line.startswith("data: {"):
            check("Event", json.loads(line.removeprefix("data: ")), CLOSED)
    ask("GET", "/v1/tasks/{task_id}/events", of=task["id"], params={"limit": 1000})
    ask("GET", "/v1/tasks", params={"status": "completed", "metadata[a]": "b", "order": "asc", "created_after": 0})
    ask("GET", "/v1/tasks/{task_id}", of=task["id"])
    ask("POST", "/v1/tasks/{task_id}/cancel", of=task["id"])
    assert ask("DELETE", "/v1/tasks/{task_id}", of=task["id"]).status_code == 204

    said = [
        {"role": "user", "content": "What is the weather?", "phase": None},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain."},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Rain."}], "encrypted_content": "x"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "phase": "final_answer"},
        {"role": "user", "content": "And now?"},
    ]
    check("ResponseRequest", body(input=said), DOCUMENT)
    response = ask("POST", "/v1/responses", json=body(input=said, text={"verbosity": "medium"})).json()
    ask("POST", "/v1/responses", json=body(stream=True))
    born = ask("POST", "/v1/responses", json=body(background=True, reasoning={"effort": "none"})).json()
    ask("POST", "/v1/responses/{response_id}/cancel", of=born["id"])
    ask("GET", "/v1/responses/{response_id}", of=response["id"])
    ask("GET", "/v1/responses/{response_id}", of=response["id"], params={"stream": "true", "starting_after": 1})
    items = ask("GET", "/v1/responses/{response_id}/input_items", of=response["id"], params={"limit": 100}).json()
    assert len(items["data"]) == len(said)
    asked = {"model": MODEL, "input": said}
    ask("POST", "/v1/responses/input_tokens", json=asked)
    compacted = ask("POST", "/v1/responses/compact", json=asked).json()
    check("CountRequest", {"model": MODEL, "input": compacted["output"]}, DOCUMENT)
    ask("DELETE", "/v1/responses/{response_id}", of=response["id"])

    ask_for_completions(ask)
    ask_for_what_a_client_knows_of_itself(ask, service)
    ask_for_a_token(ask, service)
    assert ask.answers == answers()


def test_without_a_token_every_call_that_asks_for_one_is_refused_as_described(service: Service) -> None:
    with httpx.Client(base_url=service.url) as nobody:
        for (path, method), operation in operations().items():
            if "security" in operation:
                assert Asked(nobody)(method, path, of="none").status_code == 401


def adapted(case: schemathesis.Case, task: dict[str, Any]) -> None:
    """Keep a generated call from starting what takes long, and lead some to a task that there is."""
    if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
        most = "max_completion_tokens" if case.path == CHAT else "max_output_tokens"
        case.body = {**case.body, "model": MODEL, most: 1}
        if isinstance(case.body.get("expires_at"), int):
            del case.body["expires_at"]
        if "input" in case.body:
            case.body.pop("previous_response_id", None)
    known = {"task_id": task["id"], "response_id": task["response_id"], "model_id": MODEL}
    if case.method != "DELETE":
        case.path_parameters = {
            name: known.get(name, value) if len(str(value)) % 2 else value
            for name, value in (case.path_parameters or {}).items()
        }


@pytest.fixture(scope="module")
def finished(service: Service, http: httpx.Client) -> dict[str, Any]:
    task: dict[str, Any] = http.post("/v1/tasks", json=body()).json()
    service.settle()
    return task


@SCHEMA.parametrize()
@settings(max_examples=15, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_whatever_is_asked_is_answered_as_described(
    case: schemathesis.Case, service: Service, token: str, finished: dict[str, Any]
) -> None:
    adapted(case, finished)
    if case.path.startswith("/v1/clients/me") and case.method != "GET":
        # It would not be the others' token any more.
        token = paired(service, "short-lived", *ALL).token
    case.call_and_validate(base_url=service.url, headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)


# --- The page. ---


class Page(HTMLParser):
    """What a page loads, and what stands in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline: list[str] = []
        self.title = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.loaded += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(data)
        if self._inside == "title":
            self.title += data.strip()

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def test_the_page_has_all_it_needs_from_this_service_and_nothing_inline(service: Service) -> None:
    with httpx.Client(base_url=service.url, headers={"Accept": "text/html,*/*;q=0.8"}) as browser:
        answer = browser.get(DOCS)
        assert answer.headers["content-type"].startswith("text/html")
        page = Page(answer.text)
        assert page.title == "LMSP service: API"
        assert len(page.loaded) >= 4
        assert page.inline == []
        for address in page.loaded:
            assert address.startswith("/")
            assert not address.startswith("//")
            found = browser.get(address)
            assert (found.status_code, address) == (200, address)
            kind = found.headers["content-type"]
            assert ".js" not in address or "javascript" in kind, "a browser runs nothing else"
        script = next(address for address in page.loaded if address.startswith(DOCS))
        assert OPENAPI in browser.get(script).text or "./openapi.json" in browser.get(script).text
        assert "javascript" in browser.get(script).headers["content-type"]
        assert not browser.cookies
        assert browser.post(DOCS).json()["error"]["code"] == "method_not_allowed"


def test_discovery_leads_to_both(service: Service) -> None:
    endpoints = httpx.get(f"{service.url}/.well-known/lmsp").json()["endpoints"]
    assert (endpoints["openapi"], endpoints["documentation"]) == (OPENAPI, DOCS)
