"""Daphne's own endpoint for TLS, as docs/howto/tls.md has it."""

import datetime
import ipaddress
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.sync.client import connect

from tests.security.plain import head
from tests.service import REPOSITORY, Service, eventually, free_port
from tests.stream import by_hand

READERS_PATIENCE_SECONDS = 2.0
EVENTS = 30_000


def certificate(directory: Path) -> tuple[Path, Path]:
    """Make a key and a certificate of 127.0.0.1 that signs itself; return their files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lmsp tests")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    (directory / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
    (directory / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return directory / "key.pem", directory / "certificate.pem"


@pytest.fixture(scope="module")
def encrypted(guarded: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, ssl.SSLContext]]:
    """The port of a second web server of the service, which speaks TLS, and what to check it with."""
    key, chain = certificate(tmp_path_factory.mktemp("tls"))
    port = free_port()
    endpoint = f"ssl:{port}:interface=127.0.0.1:privateKey={key}:certKey={chain}"
    trust = ssl.create_default_context(cafile=str(chain))
    command = [sys.executable, "-m", "lmsp_site.daphne_server", "--verbosity", "0", "--no-server-name"]
    environment = {**guarded.environment, "LMSP_SLOW_READER_SECONDS": str(READERS_PATIENCE_SECONDS)}
    with subprocess.Popen(
        [*command, "--endpoint", endpoint, "lmsp_site.asgi:application"], cwd=REPOSITORY, env=environment
    ) as server:

        def answers() -> bool:
            assert server.poll() is None
            try:
                return httpx.get(f"https://127.0.0.1:{port}/healthz", verify=trust).status_code == 200
            except httpx.TransportError:
                return False

        try:
            eventually(answers, 30, "it answers")
            yield port, trust
        finally:
            server.terminate()


def test_calls_and_streams_are_encrypted_and_cookies_are_secure(
    guarded: Service, encrypted: tuple[int, ssl.SSLContext]
) -> None:
    port, trust = encrypted
    headers = {"Authorization": f"Bearer {guarded.token}"}
    task = guarded.finished(guarded.create("Hi", max_output_tokens=3)["id"])["id"]
    with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trust, headers=headers, timeout=30) as http:
        page = http.get("/admin/login/")
        assert "Secure" in page.headers["set-cookie"].split("; ")
        form = {"csrfmiddlewaretoken": page.cookies["csrftoken"], "username": "nobody", "password": "nothing"}
        sent = http.post("/admin/login/", data=form, headers={"Referer": f"https://127.0.0.1:{port}/admin/login/"})
        assert sent.status_code == 200
        stream = http.get(f"/v1/tasks/{task}/events", headers={"Accept": "text/event-stream"})
        assert stream.text.endswith("data: [DONE]\n\n")
        assert http.get("/healthz", headers={"Host": "evil.example"}).status_code == 400
        large = http.post("/v1/tasks", content=b"x" * ((1 << 20) + 1))
        assert large.status_code == 413


def test_a_socket_is_encrypted(guarded: Service, encrypted: tuple[int, ssl.SSLContext]) -> None:
    port, trust = encrypted
    task = guarded.finished(guarded.create("Hi", max_output_tokens=3)["id"])["id"]
    headers = {"Authorization": f"Bearer {guarded.token}"}
    with connect(f"wss://127.0.0.1:{port}/v1/tasks/{task}/events", ssl=trust, additional_headers=headers) as opened:
        assert '"response.incomplete"' in list(opened)[-1]


def test_a_reader_that_takes_nothing_is_closed(guarded: Service, encrypted: tuple[int, ssl.SSLContext]) -> None:
    port, trust = encrypted
    task = by_hand.finished(guarded, "encrypted", EVENTS)
    plain = socket.socket()
    # Little fits into the way: most of the log has to wait.
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    plain.connect(("127.0.0.1", port))
    with trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        token = f"Authorization: Bearer {guarded.token}"
        connection.sendall(head("GET", f"/v1/tasks/{task}/events", "Accept: text/event-stream", token))
        connection.settimeout(30)
        assert connection.recv(12) == b"HTTP/1.1 200"
        began = time.monotonic()
        hung_up = select.poll()
        hung_up.register(connection, select.POLLHUP | select.POLLERR)
        assert hung_up.poll(30_000), "it is not closed"
        assert time.monotonic() - began > READERS_PATIENCE_SECONDS * 0.9
