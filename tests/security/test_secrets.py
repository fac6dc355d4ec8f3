"""No token and no password is in any log, error, page or file, whatever a caller has done with it."""

import json
import re
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from clients_app import tokens
from clients_app.models import Client
from lmsp_site import data_dir
from tests.security.plain import ask, head, upgrade
from tests.service import Service, eventually

WRONG_PASSWORD = "Wr0ng-horse-battery-staple"
TYPED_AS_NAME = "Typ3d-into-the-wrong-field"


@dataclass(frozen=True)
class Secrets:
    """What must be nowhere: a token that is known, one that is well made and unknown, and passwords."""

    known: str
    unknown: str
    password: str

    @property
    def tokens(self) -> tuple[str, str]:
        return self.known, self.unknown

    def in_text(self, text: str) -> list[str]:
        """Return those that stand in a text, whole or with their last characters cut off."""
        secrets = (*self.tokens, self.password, WRONG_PASSWORD, TYPED_AS_NAME)
        return [secret for secret in secrets if secret[:16] in text]


@pytest.fixture(scope="module")
def told(guarded: Service, password: str) -> tuple[Secrets, list[str]]:
    """Secrets, and all that was answered to those who put them wherever a caller can put something."""
    secrets = Secrets(guarded.token, tokens.generate(), password)
    answers = [*over_http(guarded, secrets), *over_sockets(guarded, secrets), *signing_in(guarded, secrets)]
    # What is logged last is written before this line.
    guarded.request("GET", "/marker-of-the-last-line")
    eventually(lambda: "/marker-of-the-last-line" in guarded.log.read_text(), 10, "the log is written")
    return secrets, answers


def over_http(service: Service, secrets: Secrets) -> list[str]:
    answers = []
    with httpx.Client(base_url=service.url, timeout=60, verify=False) as http:
        for token in secrets.tokens:
            for method, path in (("GET", "/v1/models"), ("POST", "/v1/tasks"), ("GET", "/admin/"), ("GET", "/nothing")):
                for headers in (
                    {"Authorization": f"Bearer {token}"},
                    {"Authorization": token},
                    {"Authorization": f"Basic {token}"},
                    {"X-Api-Key": token, "Cookie": f"token={token}", "Idempotency-Key": token},
                    {"Origin": f"https://{token}", "Referer": f"{service.url}/?{token}"},
                    {"Host": token},
                    {"Authorization": f"Bearer {token}", "Content-Type": token, "Accept": token},
                    {"Authorization": f"Bearer {token}", "Last-Event-ID": token},
                ):
                    # A body that names no model makes no task.
                    body = json.dumps({"model": token, "input": "Hi", "token": token}) if method == "POST" else None
                    answers.append(http.request(method, path, headers=headers, content=body).text)
                query = {"token": token, "access_token": token, "after": token, "stream": "true"}
                answers.append(http.request(method, path, params=query).text)
            # What the path holds is no secret any more, and is masked all the same.
            http.get(f"/v1/tasks/{token}/events", params={"password": secrets.password})
            http.get(f"/{token}", params={"password": secrets.password})
            answers += [
                ask(service, head("GET", f"/healthz?{token}", f"A\x0bB: {token}")).body.decode(),
                ask(service, head("GET", "/healthz", f"X-Long: {token}{'x' * 20000}")).body.decode(),
                ask(service, head("GET", f"/v1/responses/x?stream=true&token={token}", f"Host: {token}")).body.decode(),
                ask(service, head("GET", "/healthz", f"Daphne-Root-Path: {token}\xff")).body.decode(),
            ]
    return answers


def over_sockets(service: Service, secrets: Secrets) -> list[str]:
    answers = []
    address = f"ws://127.0.0.1:{service.port}"
    for token in secrets.tokens:
        for path in ("/v1/events", "/v1/responses", "/v1/tasks/task_x/events", "/nothing"):
            for subprotocols in (["lmsp.v1", f"lmsp.token.{token}"], [token], []):
                with suppress(ConnectionClosed, InvalidHandshake, TimeoutError):
                    offered = [Subprotocol(name) for name in subprotocols]
                    with connect(
                        f"{address}{path}?token={token}", subprotocols=offered or None, close_timeout=1
                    ) as opened:
                        assert opened.response is not None
                        answers.append(str(opened.response.headers))
                        opened.send(json.dumps({"type": token, "token": token}))
                        opened.send(f"{{{token}")
                        for _ in range(2):
                            message = opened.recv(timeout=1)
                            # A frame of an unknown type is told back to its sender.
                            answers.append(str(message).replace(token, "", 1) if subprotocols else str(message))
        ask(service, upgrade(f"/v1/events?{token}", f"Sec-WebSocket-Protocol: lmsp.token.{token}\xff"))
    return answers


def signing_in(service: Service, secrets: Secrets) -> list[str]:
    answers = []
    with httpx.Client(base_url=service.url, timeout=60, verify=False) as browser:
        for username, password in (
            ("admin", WRONG_PASSWORD),
            (TYPED_AS_NAME, WRONG_PASSWORD),
            *[("somebody", WRONG_PASSWORD)] * 7,
            ("admin", secrets.password),
        ):
            browser.get("/admin/login/")
            form = {
                "username": username,
                "password": password,
                "csrfmiddlewaretoken": browser.cookies["csrftoken"],
            }
            query = {"next": "/admin/", "password": password}
            answer = browser.post("/admin/login/", data=form, params=query)
            # The form shows the name again, and where it was sent to.
            answers.append(re.sub(r'<input type="(text|hidden)"[^>]*>|<form [^>]*>', "", answer.text))
            browser.post("/admin/login/", data=form | {"csrfmiddlewaretoken": "forged"}, params=query)
        assert answer.headers["location"] == "/admin/"
        client = f"clients_app/client/{service.client_id}/change/"
        pages = ("", "clients_app/client/", client, "auth/user/", "auth/user/1/change/")
        answers += [browser.get(f"/admin/{page}").text for page in pages]
        browser.post("/admin/logout/", data={"csrfmiddlewaretoken": browser.cookies["csrftoken"]})
    return answers


def test_no_line_of_a_log_has_one(guarded: Service, told: tuple[Secrets, list[str]]) -> None:
    secrets, _ = told
    logs = [guarded.log, *(guarded.data_dir / "logs").iterdir()]
    lines = [line for log in logs for line in log.read_text().splitlines()]
    # It is the right log, and said what happened.
    assert any("/nothing" in line for line in lines)
    assert any("sign-in refused" in line for line in lines)
    assert any("lmsp_[token]" in line for line in lines)
    assert [line for line in lines if secrets.in_text(line)] == []


def test_no_answer_has_one(told: tuple[Secrets, list[str]]) -> None:
    secrets, answers = told
    assert len(answers) > 100
    shown = [answer for answer in answers if secrets.in_text(answer)]
    # Who names a model that there is none of is told which.
    assert [answer for answer in shown if '"code":"model_not_found"' not in answer] == []


def test_no_file_of_the_service_has_one(guarded: Service, told: tuple[Secrets, list[str]]) -> None:
    secrets, _ = told
    for path in sorted(guarded.data_dir.rglob("*")):
        if path.is_file() and path.parent.name != "models":
            assert not secrets.in_text(path.read_bytes().decode("latin-1")), path


def test_no_object_shows_one(database: Path) -> None:
    client, token = Client.pair("shown", [])
    for text in (repr(client), str(client), repr(vars(client))):
        assert token not in text
    assert data_dir.secret_key(database.parent) not in repr(client)


def test_no_process_has_one_on_its_command_line(guarded: Service, told: tuple[Secrets, list[str]]) -> None:
    secrets, _ = told
    (key,) = [(guarded.data_dir / "secret_key").read_text()]
    for pid in guarded.processes():
        with suppress(FileNotFoundError), closing((Path("/proc") / str(pid) / "cmdline").open()) as arguments:
            written = arguments.read()
            assert key not in written
            assert not secrets.in_text(written)
