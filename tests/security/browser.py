"""A real browser, and a web server of somebody else for it."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str:
    """Return the system's Chromium; without one tests are skipped, where `CI` is set they fail."""
    found = os.environ.get("LMSP_TEST_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        missing = (
            "There is no Chromium: install it (Debian: apt-get install chromium), or name it by LMSP_TEST_BROWSER."
        )
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return found


@contextmanager
def chromium(*elsewhere: str) -> Iterator[Browser]:
    """Run Chromium, for which the names `elsewhere` lead to this machine, and nothing else leads anywhere."""
    rules = ", ".join([*(f"MAP {name} 127.0.0.1" for name in elsewhere), "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1"])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(),
            args=[
                f"--host-resolver-rules={rules}",
                "--disable-background-networking",
                "--disable-component-update",
                # Newer browsers keep pages of the internet from this machine by themselves; older ones do not.
                "--disable-features=LocalNetworkAccessChecks",
            ],
        )
        try:
            yield browser
        finally:
            browser.close()


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with an empty page, whatever is asked for."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Somebody else's page</title>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library names it
        """Say nothing."""


@contextmanager
def web_server(port: int) -> Iterator[None]:
    """Serve empty pages at a port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", port), partial(_Blank)) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join()


class Complaints:
    """What a browser finds fault with on a page: errors on its console, exceptions, violations of its policy."""

    def __init__(self, page: Page) -> None:
        self.lines: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.lines.append(f"exception: {error}"))
        page.on("requestfailed", lambda request: self.lines.append(f"failed: {request.url} {request.failure}"))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.lines.append(f"{kind}: {text}")
