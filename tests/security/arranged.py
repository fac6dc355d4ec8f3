"""What the service of these tests is told."""

from tests.service import free_port

PAGE_PORT = free_port()
"""Where `test_browser` serves pages from."""

ALLOWED_ORIGIN = f"http://app.example:{PAGE_PORT}"
ALLOWED_HOST = "lmsp.example"
PROXY = "127.0.0.2"
"""An address of this machine that the service trusts, unlike 127.0.0.1, from which everybody else calls."""

MOST_BYTES = 1 << 20
PATIENCE_SECONDS = 1.5
MOST_HEADERS = 40
