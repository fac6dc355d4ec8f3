"""A person at the admin: watches a task as it is generated, ends it, on a desk and on a phone, by eye and by reader."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.bodies import STORY
from tests.clients.installing import npm_modules
from tests.console.conftest import PHONE, Desk
from tests.service import MODEL, REPOSITORY, Service, eventually

HERE = Path(__file__).resolve().parent
PAGES = (
    "/admin/",
    "/admin/tasks_app/task/",
    "/admin/clients_app/client/",
    "/admin/clients_app/pairing/",
    "/admin/models_app/languagemodel/",
    "/admin/lmsp_site/serviceconfig/1/change/",
    "/admin/lmsp_site/auditentry/",
    "/admin/models_app/modelpull/",
    "/admin/tasks_app/usage/",
    "/admin/django_q/success/",
)

pytestmark = pytest.mark.usefixtures("people")


@pytest.fixture
def desk(browser: Browser, service: Service) -> Iterator[Desk]:
    context = browser.new_context()
    yield Desk(context, service, "operator")
    context.close()


@pytest.fixture
def phone(browser: Browser, service: Service) -> Iterator[Desk]:
    context = browser.new_context(viewport=PHONE, color_scheme="dark", has_touch=True, is_mobile=True)
    yield Desk(context, service, "operator")
    context.close()


def long_task(service: Service) -> str:
    task_id: str = service.create(STORY, max_output_tokens=1500, metadata={"shown": "in the admin"})["id"]
    return task_id


def number_in(page: Page, selector: str) -> int:
    return int(re.sub(r"\D", "", page.inner_text(selector)) or 0)


def test_a_person_watches_a_task_and_cancels_it(desk: Desk, service: Service) -> None:
    page = desk.page
    expect(page.locator("#ready")).to_have_text(re.compile("^ready"))
    task_id = long_task(service)
    # It shows by itself, with its text, and more of it comes.
    card = page.locator(".card", has=page.locator(f'a[href*="{task_id}"]'))
    expect(card.locator(".state")).to_have_text("running", timeout=60_000)
    text = card.locator(".tail")
    expect(text).to_have_text(re.compile(r"\w+ \w+"))
    before = text.inner_text()
    expect(text).not_to_have_text(before)

    page = desk.open(f"/admin/tasks_app/task/?q={task_id}")
    row = page.locator("tr", has=page.locator(f'[data-row="{task_id}"]'))
    shown = number_in(page, "[data-cell=output_tokens]")
    eventually(lambda: number_in(page, "[data-cell=output_tokens]") > shown, 30, "the list counts on")
    row.locator("a").first.click()

    expect(page.locator("h2 [data-cell=status]")).to_have_text("running")
    desk.settle()
    length = len(page.inner_text("#text"))
    eventually(lambda: len(page.inner_text("#text")) > length, 30, "the text grows")
    assert service.text_on_disk(task_id).startswith(page.inner_text("#text")[:40])
    page.click("form[data-unfinished] button")
    expect(page.locator("h2 [data-cell=status]")).to_have_text("cancelled", timeout=30_000)
    # The page of the finished task, whether the button led there or the end of the stream.
    expect(page.locator("form[data-unfinished]")).to_have_count(0, timeout=30_000)
    desk.settle()
    assert service.finished(task_id)["status"] == "cancelled"
    (action,) = service.sql("SELECT action FROM audit_log WHERE subject_id = ? AND actor = 'operator'", task_id)
    assert action == ("cancelled",)
    desk.check()


def test_every_page_fits_a_phone(phone: Desk, service: Service) -> None:
    task_id = service.create("Hi", max_output_tokens=3)["id"]
    service.finished(task_id)
    for path in (*PAGES, f"/admin/tasks_app/task/{task_id}/change/"):
        page = phone.open(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], f"{path} is {width} wide"
    page = phone.open("/admin/")
    menu = page.locator("#nav-sidebar")
    expect(menu).to_be_hidden()
    page.locator("#main .material-symbols-outlined:visible").first.click()
    expect(menu.locator("a", has_text="Tasks").first).to_be_visible()
    menu.locator("a", has_text="Tasks").first.click()
    page.wait_for_selector("#changelist")
    phone.settle()
    phone.check()


def test_a_person_approves_a_program_and_changes_the_retention(desk: Desk, service: Service) -> None:
    asked = service.request("POST", "/v1/pairing", json={"client_name": "Editor", "scopes": ["tasks:read"]}).json()
    page = desk.open("/admin/")
    page.locator("#nav-sidebar a", has_text=re.compile(r"Pairing requests\s*1")).click()
    page.locator("tr", has_text=asked["user_code"]).locator("a").first.click()
    desk.settle()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Editor was approved")).to_be_visible()
    desk.settle()
    answer = service.request("POST", "/v1/pairing/token", json={"device_code": asked["device_code"]})
    assert answer.json()["scope"] == "tasks:read"
    for days in ("31", "30"):
        page = desk.open("/admin/lmsp_site/serviceconfig/1/change/")
        page.fill("#id_retention_days", days)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("was changed successfully")).to_be_visible()
        assert service.sql("SELECT retention_days FROM service_config") == [(int(days),)]
        desk.settle()
    # What was done, with its detail.
    page = desk.open("/admin/lmsp_site/auditentry/")
    page.locator("#result_list .field-at a").first.click()
    expect(page.locator(".json")).to_contain_text('"to": 30')
    desk.settle()
    desk.check()


def test_a_superuser_gets_around_by_keyboard_menu_and_filter(browser: Browser, service: Service) -> None:
    task_id = service.create("Hi", max_output_tokens=3)["id"]
    service.finished(task_id)
    context = browser.new_context()
    desk = Desk(context, service, "boss")
    page = desk.page
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox", name="Type to search")).to_be_focused()
    page.keyboard.type(task_id)
    found = page.locator("#command-results a", has_text=task_id)
    expect(found).to_have_attribute("href", re.compile(task_id))
    page.keyboard.press("Escape")
    ((own_id,),) = service.sql("SELECT id FROM auth_user WHERE username = 'boss'")
    for path in ("/admin/auth/user/add/", f"/admin/auth/user/{own_id}/change/", "/admin/tasks_app/taskevent/"):
        page = desk.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, path
    page = desk.open("/admin/tasks_app/task/")
    page.locator("a", has_text="Filters").first.click()
    page.locator("#changelist-filter a", has_text="completed").click()
    expect(page.locator(f'[data-row="{task_id}"]')).to_be_visible()
    assert set(page.locator("[data-cell=status]").all_inner_texts()) == {"completed"}
    desk.settle()
    desk.check()
    context.close()


def test_no_page_has_a_serious_fault_of_accessibility(browser: Browser, service: Service) -> None:
    place = npm_modules(HERE / "axe", REPOSITORY / ".cache" / "console")
    axe = (place / "node_modules/axe-core/axe.min.js").read_text()
    task_id = service.finished(service.create("Hi", max_output_tokens=3)["id"])["id"]
    context = browser.new_context()
    page = Desk(context, service, "operator").page
    shown = ("/admin/", "/admin/tasks_app/task/", f"/admin/tasks_app/task/{task_id}/change/", PAGES[5])
    looked_after = (
        "/admin/models_app/languagemodel/add/",
        f"/admin/models_app/languagemodel/{MODEL}/change/",
        f"/admin/clients_app/client/{service.client_id}/change/",
        *PAGES[6:8],
    )
    for scheme, paths in (("light", (*shown, *looked_after)), ("dark", (*shown[:3], *looked_after))):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for path in paths:
            page.goto(f"{service.url}{path}")
            page.wait_for_selector("#content-main")
            assert serious_faults(page, axe) == {}, (scheme, path)
    # What looks for faults finds one.
    page.evaluate("document.querySelector('#content-main').insertAdjacentHTML('beforeend', '<button></button>')")
    assert serious_faults(page, axe).keys() == {"button-name"}
    context.close()


def serious_faults(page: Page, axe: str) -> dict[str, list[str]]:
    """Return the rules that a page breaks gravely, each with some of the places."""
    if not page.evaluate("window.axe !== undefined"):
        page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)")
    grave = [fault for fault in found if fault["impact"] in ("serious", "critical")]
    return {fault["id"]: [node["html"][:300] for node in fault["nodes"][:3]] for fault in grave}
