"""Addresses and methods that are not there."""

import pytest

from tests.api.bodies import error
from tests.service import Service

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ALLOWED = {
    "/.well-known/lmsp": {"GET"},
    "/healthz": {"GET"},
    "/readyz": {"GET"},
    "/v1/openapi.json": {"GET"},
    "/v1/docs": {"GET"},
    "/v1/models": {"GET"},
    "/v1/models/some/model": {"GET"},
    "/v1/tasks": {"GET", "POST"},
    "/v1/tasks/task_x": {"GET", "DELETE"},
    "/v1/tasks/task_x/events": {"GET"},
    "/v1/tasks/task_x/cancel": {"POST"},
    "/v1/responses": {"POST"},
    "/v1/chat/completions": {"POST"},
    "/v1/responses/resp_x": {"GET", "DELETE"},
    "/v1/responses/resp_x/input_items": {"GET"},
    "/v1/responses/input_tokens": {"POST"},
    "/v1/responses/compact": {"POST"},
    "/v1/responses/resp_x/cancel": {"POST"},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/tasks/",
        "/v1/responses/",
        "/v1/chat",
        "/v1/task",
        "/v2/tasks",
        "/v1/tasks/a/b/c",
        "//v1/tasks",
    ],
)
def test_an_unknown_address_is_404_in_the_envelope(service: Service, method: str, path: str) -> None:
    # A path that begins with // would be read as a host by the client.
    with service.http() as http:
        answer = http.request(method, f"{service.url}{path}")
    assert error(answer, 404)["code"] == "not_found"


@pytest.mark.parametrize("path", ALLOWED)
def test_a_wrong_method_is_405_in_the_envelope_and_names_the_right_ones(service: Service, path: str) -> None:
    for method in {*METHODS} - ALLOWED[path]:
        answer = service.request(method, path)
        found = error(answer, 405)
        assert (found["type"], found["code"]) == ("invalid_request_error", "method_not_allowed")
        named = {name.strip() for name in answer.headers["allow"].split(",")}
        assert named - {"HEAD", "OPTIONS"} == ALLOWED[path]


def test_what_cannot_be_accepted_is_refused_in_the_envelope(service: Service) -> None:
    answer = service.request("GET", "/v1/models", headers={"Accept": "application/xml"})
    assert error(answer, 400)["code"] == "not_acceptable"
    assert error(service.request("GET", "/v1/models", params={"format": "xml"}), 404)
