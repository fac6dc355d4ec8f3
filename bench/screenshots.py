"""`python -m bench.screenshots`: the admin's main pages as pictures, of a real service at work, into docs/figures.

What runs in them is generated while the pictures are taken. The day before is made up: nobody waits a day for a plot.
"""

import http.client
import json
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from bench.service import REPOSITORY, Service, in_django
from lmsp_site.bootstrap import demo_model

_FIGURES = REPOSITORY / "docs" / "figures"
_MODEL = "smollm2-135m-instruct"
_DESK: ViewportSize = {"width": 1280, "height": 1060}
_PHONE: ViewportSize = {"width": 390, "height": 844}
# A list is the same all the way down.
_TALLEST = {"admin_tasks": 800, "admin_audit": 520, "admin_pairings_dark": 420, "admin_model": 850, "admin_client": 900}
_MOST_BYTES = 200_000
_PATIENCE_SECONDS = 60.0
_MODEL_PAGE = f"/admin/models_app/languagemodel/{_MODEL}/change/"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_CLIENTS = ("notes-app", "mail-digest", "code-helper")
_PROMPTS = (
    "Write a long letter to a friend about a walk through the mountains.",
    "Explain in detail how bread is baked, step by step.",
    "Tell me a long story about a lighthouse keeper and the sea.",
    "Write an essay of ten paragraphs about a day in a busy harbour.",
)


def main() -> None:
    """Take every picture."""
    model = demo_model.path(REPOSITORY / ".cache")
    with tempfile.TemporaryDirectory(prefix="lmsp-screenshots-") as directory:
        service = Service(Path(directory) / "data", model, _MODEL)
        with service, _browser() as browser:
            in_django(service.data_dir, "screenshots", "make_up_a_day()")
            session = in_django(service.data_dir, "many_tasks", "sign_in('admin')")["session"]
            _take_trial(browser, service, session)
            task_id = _put_to_work(service)
            in_django(service.data_dir, "screenshots", "make_up_a_month()")
            _take(browser, service, session, task_id)


def _take_trial(browser: Browser, service: Service, session: str) -> None:
    """Take the page of a model while nobody else has it say anything."""
    with _page(browser, service, session, _DESK, "light") as page:
        _shoot(page, service, _MODEL_PAGE, "admin_model", "#try", _try_it)
    with _page(browser, service, session, _PHONE, "dark") as page:
        _shoot(page, service, _MODEL_PAGE, "admin_model_phone", "#try", _try_it)


def _take(browser: Browser, service: Service, session: str, task_id: str) -> None:
    task = f"/admin/tasks_app/task/{task_id}/change/"
    (owner,) = [client for client in service.manage("list_clients")["clients"] if client["name"] == _CLIENTS[0]]
    client = f"/admin/clients_app/client/{owner['id']}/change/"
    with _page(browser, service, session, _DESK, "light") as page:
        _shoot(page, service, task, "admin_task", "#text")
        _shoot(page, service, "/admin/", "admin_dashboard", ".card .number")
        _shoot(page, service, "/admin/tasks_app/task/", "admin_tasks", "[data-row]")
        _shoot(page, service, client, "admin_client", "#plot-usage")
        _shoot(page, service, "/admin/lmsp_site/auditentry/", "admin_audit", "#result_list")
    with _page(browser, service, session, _PHONE, "dark") as page:
        _shoot(page, service, task, "admin_task_phone", "#text")
    with _page(browser, service, session, _PHONE, "light") as page:
        _shoot(page, service, "/admin/", "admin_dashboard_phone", ".card .number")
    with _page(browser, service, session, _DESK, "dark") as page:
        _shoot(page, service, "/admin/", "admin_dashboard_dark", ".card .number")
        _shoot(page, service, "/admin/clients_app/pairing/", "admin_pairings_dark", "#result_list")


def _try_it(page: Page) -> None:
    """Have a model say something, to the end."""
    page.fill("#try-most", "90")
    page.click("#try-go")
    page.locator("#try-state", has_text="completed").wait_for()


def _shoot(
    page: Page,
    service: Service,
    path: str,
    name: str,
    awaited: str,
    prepare: Callable[[Page], None] = lambda _page: None,
) -> None:
    host, port = service.address
    page.goto(f"http://{host}:{port}{path}")
    page.wait_for_selector(awaited)
    prepare(page)
    page.evaluate("document.fonts.ready")
    # So that rates are measured and figures have come.
    page.wait_for_timeout(3500)
    picture = _FIGURES / f"{name}.png"
    viewport = page.viewport_size or _DESK
    width, height = viewport["width"], viewport["height"]
    page.screenshot(
        path=picture, clip={"x": 0, "y": 0, "width": width, "height": min(height, _TALLEST.get(name, height))}
    )
    size = picture.stat().st_size
    print(f"{picture.relative_to(REPOSITORY)}  {size // 1000} kB")
    if size > _MOST_BYTES:
        sys.exit(f"{picture} has {size} bytes: more than {_MOST_BYTES} are too many for the repository")


@contextmanager
def _page(browser: Browser, service: Service, session: str, viewport: ViewportSize, scheme: Any) -> Iterator[Page]:
    context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    host, _ = service.address
    context.add_cookies([{"name": "sessionid", "value": session, "domain": host, "path": "/"}])
    try:
        yield context.new_page()
    finally:
        context.close()


@contextmanager
def _browser() -> Iterator[Browser]:
    executable = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if executable is None:
        sys.exit("There is no Chromium: install it (Debian: apt-get install chromium).")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        try:
            yield browser
        finally:
            browser.close()


def _put_to_work(service: Service) -> str:
    """Have some clients ask for more than runs at once; return the id of a task once it says something."""
    tokens = [service.manage("create_client", name)["token"] for name in _CLIENTS]
    accepted = []
    for number in range(16):
        body = {
            "model": _MODEL,
            "input": _PROMPTS[number % len(_PROMPTS)],
            "max_output_tokens": 40 if number < 4 else 1200,
            "temperature": 0,
            "seed": number,
            "priority": ("interactive", "normal", "batch")[number % 3] if number >= 4 else "interactive",
            "metadata": {"project": ("atlas", "birch")[number % 2]},
        }
        if number == 15:
            body["expires_at"] = int(time.time()) + 3
        accepted.append(_call(service, "/v1/tasks", body, tokens[number % len(tokens)])["id"])
    _call(service, "/v1/pairing", {"client_name": "Editor plugin", "scopes": ["tasks:read", "tasks:write"]})
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for task_id, token in zip(accepted[4:], tokens[4 % 3 :] + tokens * 4, strict=False):
            task = _call(service, f"/v1/tasks/{task_id}", None, token)
            if task["status"] == "running" and task["usage"]["output_tokens"] > 60:
                return str(task_id)
        time.sleep(0.5)
    sys.exit("No task came to say anything.")


def _call(service: Service, path: str, body: dict[str, Any] | None, token: str | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with closing(http.client.HTTPConnection(*service.address, timeout=30)) as connection:
        connection.request("GET" if body is None else "POST", path, json.dumps(body) if body else None, headers)
        told: dict[str, Any] = json.load(connection.getresponse())
        return told


def make_up_a_day() -> None:
    """Write a day of minutes as a service leaves them that is busy in the daytime."""
    from tasks_app.models import Minute

    # The same day in each picture.
    now, chance = int(time.time() // 60), random.Random(7)  # nosec B311
    counted: list[dict[str, Any]] = []
    tokens = finished = expired = died = 0.0
    for minute in range(now - 1440, now):
        busy = max(0.05, math.sin((minute - now + 1500) / 2200 * math.pi)) * chance.uniform(0.7, 1.1)
        tokens += 60 * 42 * busy
        finished += chance.choice((0, 1, 2, 4, 6)) * busy
        expired += chance.random() < 0.004
        died += chance.random() < 0.0015
        counted.append({"minute": minute, "tokens": tokens, "finished": finished, "expired": expired, "died": died})
    # Up to nothing: what the service counts itself goes on from there.
    rows = [
        Minute(
            minute=row["minute"],
            output_tokens=row["tokens"] - tokens,
            finished=row["finished"] - finished,
            failed={"expired": row["expired"] - expired, "engine_died": row["died"] - died},
            waiting=0,
            running=0,
        )
        for row in counted
    ]
    Minute.objects.bulk_create(rows, ignore_conflicts=True)
    print(json.dumps({"minutes": len(rows)}))


def make_up_a_month() -> None:
    """Write what a client has had in the days before this one, and give it some limits."""
    from clients_app.models import Client
    from tasks_app import usage
    from tasks_app.models import Usage

    chance = random.Random(7)  # nosec B311
    client = Client.objects.get(name=_CLIENTS[0])
    today = usage.today()
    rows = []
    for ago in range(1, 30):
        day = today - timedelta(days=ago)
        tasks = int(chance.uniform(20, 60) * (0.25 if day.weekday() > 4 else 1.0))
        tokens = {"input_tokens": tasks * 240, "output_tokens": int(tasks * chance.uniform(300, 500))}
        rows.append(Usage(client_id=client.pk, day=day, model=_MODEL, tasks=tasks, run_ms=tasks * 9000, **tokens))
    Usage.objects.bulk_create(rows)
    Client.objects.filter(pk=client.pk).update(max_queued=8, max_tokens_per_day=10_000)
    print(json.dumps({"days": len(rows)}))


if __name__ == "__main__":
    main()
