"""What pages can do in a real browser: those of others nothing, those that are allowed all, and our own work."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.security.arranged import ALLOWED_ORIGIN, PAGE_PORT
from tests.security.browser import Complaints, chromium, web_server
from tests.service import Service

EVIL = "evil.example"
REBOUND = "rebound.example"
ALLOWED = "app.example"

# Whatever is tried ends with what the page came to know, and "nothing" if it is nothing.
TRY = """
async ({base, path, options}) => {
    try {
        const answer = await fetch(base + path, {...options, signal: AbortSignal.timeout(10000)});
        return `${answer.type} ${answer.status} ${await answer.text()}`;
    } catch { return "nothing"; }
}"""
EVENT_SOURCE = """
url => new Promise(tell => {
    const source = new EventSource(url, {withCredentials: true});
    source.onopen = source.onmessage = () => { source.close(); tell("opened"); };
    source.onerror = () => { source.close(); tell("nothing"); };
})"""
WEBSOCKET = """
({url, protocols}) => new Promise(tell => {
    const socket = new WebSocket(url, protocols);
    socket.onopen = () => { socket.close(); tell("opened"); };
    socket.onerror = () => tell("nothing");
})"""
EMBED = """
({tag, attribute, url}) => new Promise(tell => {
    const element = document.createElement(tag);
    element.onload = () => tell("loaded");
    element.onerror = () => tell("nothing");
    element[attribute] = url;
    document.head.append(element);
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(EVIL, REBOUND, ALLOWED) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def _pages() -> Iterator[None]:
    with web_server(PAGE_PORT):
        yield


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def sign_in(page: Page, service: Service, password: str) -> None:
    page.goto(f"{service.url}/admin/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", password)
    page.click("button[type=submit]")
    page.wait_for_selector("#content-main", state="attached")


def attempts(service: Service) -> list[tuple[str, dict[str, Any]]]:
    token = {"Authorization": f"Bearer {service.token}"}
    task = '{"model": "smollm2-135m-instruct", "input": "planted"}'
    return [
        *[
            (path, {"credentials": "include"})
            for path in ("/healthz", "/metrics", "/admin/", "/v1/tasks", "/v1/openapi.json")
        ],
        *[
            (path, {"credentials": "include", "mode": "no-cors"})
            for path in ("/healthz", "/metrics", "/admin/", "/v1/docs")
        ],
        ("/v1/tasks", {"headers": token}),
        ("/v1/tasks", {"headers": {**token, "Accept": "text/event-stream"}}),
        ("/v1/tasks", {"method": "POST", "headers": {**token, "Content-Type": "application/json"}, "body": task}),
        ("/v1/tasks", {"method": "POST", "mode": "no-cors", "credentials": "include", "body": task}),
        ("/admin/logout/", {"method": "POST", "mode": "no-cors", "credentials": "include", "body": "a=b"}),
        ("/v1/tasks/task_x", {"method": "DELETE", "headers": token}),
    ]


def planted(service: Service) -> int:
    (count,) = service.sql("SELECT count(*) FROM tasks")[0]
    return int(count)


@pytest.mark.parametrize("host", [EVIL, "127.0.0.1"])
def test_a_page_of_another_origin_gets_nothing(guarded: Service, password: str, page: Page, host: str) -> None:
    sign_in(page, guarded, password)
    before = planted(guarded)
    page.goto(f"http://{host}:{PAGE_PORT}/")
    for path, options in attempts(guarded):
        assert page.evaluate(TRY, {"base": guarded.url, "path": path, "options": options}) == "nothing", (path, options)
    for path in ("/v1/tasks/task_x/events", "/healthz"):
        assert page.evaluate(EVENT_SOURCE, f"{guarded.url}{path}") == "nothing"
    for protocols in ([], ["lmsp.v1", f"lmsp.token.{guarded.token}"]):
        for path in ("/v1/events", "/v1/responses"):
            url = f"ws://127.0.0.1:{guarded.port}{path}"
            assert page.evaluate(WEBSOCKET, {"url": url, "protocols": protocols}) == "nothing"
    for tag, attribute, path in (("script", "src", "/v1/openapi.json"), ("img", "src", "/static/admin/img/search.svg")):
        arguments = {"tag": tag, "attribute": attribute, "url": f"{guarded.url}{path}"}
        assert page.evaluate(EMBED, arguments) == "nothing"
    assert planted(guarded) == before
    # The session of the person who has such a page open is as it was.
    page.goto(f"{guarded.url}/admin/")
    assert page.query_selector("#content-main")


def test_the_admin_cannot_be_framed(guarded: Service, page: Page) -> None:
    page.goto(f"http://{EVIL}:{PAGE_PORT}/")
    page.set_content(f'<iframe src="{guarded.url}/admin/login/"></iframe>')
    frame = page.frames[1]
    frame.wait_for_load_state()
    assert frame.query_selector("#id_username") is None


def test_a_page_whose_name_was_made_to_point_here_gets_nothing(guarded: Service, page: Page) -> None:
    here = f"http://{REBOUND}:{guarded.port}"
    # The page itself came from elsewhere, before its name was rebound; all that it asks for now is of its own origin.
    page.route(f"{here}/evil", lambda route: route.fulfill(content_type="text/html", body="<!doctype html><p>evil"))
    page.goto(f"{here}/evil")
    before = planted(guarded)
    for path, options in attempts(guarded):
        told = page.evaluate(TRY, {"base": "", "path": path, "options": options})
        assert told.startswith("basic 400 "), (path, options, told)
        assert '"code":"invalid_host"' in told
    assert page.evaluate(EVENT_SOURCE, "/v1/tasks/task_x/events") == "nothing"
    protocols = ["lmsp.v1", f"lmsp.token.{guarded.token}"]
    url = f"ws://{REBOUND}:{guarded.port}/v1/events"
    assert page.evaluate(WEBSOCKET, {"url": url, "protocols": protocols}) == "nothing"
    assert planted(guarded) == before


def test_a_page_of_the_allowed_origin_may_use_its_token(guarded: Service, page: Page) -> None:
    """The same attempts succeed where they are meant to, so that the others do not fail for another reason."""
    page.goto(f"{ALLOWED_ORIGIN}/")
    token = {"Authorization": f"Bearer {guarded.token}"}
    told = page.evaluate(TRY, {"base": guarded.url, "path": "/v1/tasks", "options": {"headers": token}})
    assert told.startswith("cors 200 {")
    task = guarded.finished(guarded.create("Hi", max_output_tokens=2)["id"])["id"]
    options = {"headers": {**token, "Accept": "text/event-stream"}}
    stream = page.evaluate(TRY, {"base": guarded.url, "path": f"/v1/tasks/{task}/events", "options": options})
    assert stream.endswith("data: [DONE]\n\n")
    url = f"ws://127.0.0.1:{guarded.port}/v1/events"
    protocols = ["lmsp.v1", f"lmsp.token.{guarded.token}"]
    assert page.evaluate(WEBSOCKET, {"url": url, "protocols": protocols}) == "opened"
    # No cookie goes along, and the admin is no part of it.
    cookies = {"credentials": "include", "headers": token}
    assert page.evaluate(TRY, {"base": guarded.url, "path": "/v1/tasks", "options": cookies}) == "nothing"
    assert page.evaluate(TRY, {"base": guarded.url, "path": "/admin/", "options": {}}) == "nothing"


def test_our_own_pages_work_under_their_policy(guarded: Service, password: str, page: Page) -> None:
    complaints = Complaints(page)
    page.goto(f"{guarded.url}/admin/login/")
    button = "getComputedStyle(document.querySelector('button[type=submit]')).backgroundColor"
    assert page.evaluate(button) != "rgba(0, 0, 0, 0)"
    sign_in(page, guarded, password)
    for path in ("tasks_app/task/", "clients_app/client/", "lmsp_site/serviceconfig/1/change/", "auth/user/add/"):
        page.goto(f"{guarded.url}/admin/{path}", wait_until="networkidle")
    page.goto(f"{guarded.url}/v1/docs")
    page.click("#operations-Service-describe button >> nth=0")
    page.wait_for_selector("#operations-Service-describe .opblock-body")
    assert complaints.lines == []
