"""Who the service is and how it is."""

import uuid

import httpx

from models_app.engines import exllamav2_presence
from tests.service import Service


def test_the_service_says_who_it_is(service: Service) -> None:
    found = httpx.get(f"{service.url}/.well-known/lmsp").json()
    assert found["protocol"] == "lmsp"
    assert found["protocol_version"].startswith("1.0")
    (stored,) = service.sql("SELECT service_id FROM service_config")[0]
    assert uuid.UUID(found["service_id"]) == uuid.UUID(stored)
    assert found["name"] == "LMSP service"
    assert found["software"]["version"]
    assert found["capabilities"]["restart_policies"] == ["fail", "retry", "resume"]
    assert found["capabilities"]["default_on_restart"] == "resume"


def test_the_endpoints_it_names_are_there(service: Service) -> None:
    endpoints = httpx.get(f"{service.url}/.well-known/lmsp").json()["endpoints"]
    assert {
        "tasks",
        "task_events",
        "responses",
        "chat_completions",
        "models",
        "health",
        "readiness",
    } <= endpoints.keys()
    task = service.finished(service.create("Hi", max_output_tokens=1)["id"])["id"]
    for path in endpoints.values():
        # The page for people leads to the sign-in first.
        assert service.request("GET", path.format(task_id=task)).status_code in (200, 302, 405)


def test_it_lives(service: Service) -> None:
    answer = httpx.get(f"{service.url}/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_it_is_ready_and_says_of_what(service: Service) -> None:
    answer = httpx.get(f"{service.url}/readyz")
    well = {"ok": True, "detail": None}
    assert answer.status_code == 200
    checks = answer.json()["checks"]
    engines = checks.pop("engines")
    assert (answer.json()["status"], checks) == ("ready", {"database": well, "runner": well, "disk": well})
    assert engines["ok"]
    missing = exllamav2_presence.why_unavailable()
    assert engines["detail"] == missing
    if missing:
        assert "exllamav2" in missing
