"""The shared service as a person sees it, in a real browser that reaches nothing else."""

import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.security.browser import Complaints, chromium
from tests.service import REPOSITORY, Service

PASSWORD = "to look and operate 17"
PEOPLE = {"boss": None, "operator": "operator", "observer": "observer"}
PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture(scope="package")
def people(service: Service) -> Iterator[None]:
    """A superuser, an operator and an observer, named after what they are."""
    imports = "from django.contrib.auth.models import Group, User\n"
    run_python(
        service,
        f"{imports}for name, role in {PEOPLE!r}.items():\n"
        f"    user = User.objects.create_user(name, password={PASSWORD!r}, is_staff=True, is_superuser=role is None)\n"
        "    user.groups.set(Group.objects.filter(name=role))\n",
    )
    yield
    # To others it is a service that nobody has signed in to: `quickstart` makes the first user.
    run_python(service, f"{imports}User.objects.filter(username__in={list(PEOPLE)!r}).delete()")


def run_python(service: Service, code: str) -> None:
    command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "--command", code]
    subprocess.run(command, cwd=REPOSITORY, env=service.environment, check=True, timeout=60)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


class Desk:
    """Somebody signed in, what the browser complains about meanwhile, and where it has asked for something."""

    def __init__(self, context: BrowserContext, service: Service, name: str) -> None:
        self.page: Page = context.new_page()
        self.service = service
        self.complaints = Complaints(self.page)
        self.asked: set[str] = set()
        self.page.on("request", lambda request: self.asked.add(urlsplit(request.url).netloc))
        self.page.on("websocket", lambda socket: self.asked.add(urlsplit(socket.url).netloc))
        self.open("/admin/login/?next=/admin/")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", PASSWORD)
        self.page.click("button[type=submit]")
        self.page.wait_for_selector("#dashboard")
        self.settle()

    def open(self, path: str) -> Page:
        """Go somewhere, and wait until the page is whole."""
        self.page.goto(f"{self.service.url}{path}")
        self.settle()
        return self.page

    def settle(self) -> None:
        # A font that is still on its way when the page is left counts as a request that failed.
        self.page.evaluate("document.fonts.ready")
        self.page.wait_for_load_state("networkidle")

    def check(self) -> None:
        """See that nothing was complained about, and nobody else asked for anything."""
        assert self.complaints.lines == []
        assert self.asked == {f"127.0.0.1:{self.service.port}"}
