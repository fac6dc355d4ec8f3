"""A person at the admin steers the service: verifies a model and tries it, and looks after clients."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests import tiny_models
from tests.console.conftest import PHONE, Desk
from tests.service import MODEL, Service

MODEL_PAGE = f"/admin/models_app/languagemodel/{MODEL}/change/"

pytestmark = pytest.mark.usefixtures("people")


@pytest.fixture
def desk(browser: Browser, service: Service) -> Iterator[Desk]:
    context = browser.new_context()
    yield Desk(context, service, "operator")
    context.close()


def test_a_person_verifies_a_model_and_tries_it(desk: Desk, service: Service) -> None:
    page = desk.open("/admin/models_app/languagemodel/")
    state = page.locator(f'[data-model="{MODEL}"] [data-cell=state]')
    expect(state).to_have_text(re.compile("ready|unloaded|loading"))
    page.locator("#result_list a", has_text=MODEL).first.click()
    desk.settle()
    checked = page.locator("[data-cell=checked]")
    before = checked.get_attribute("data-at") or ""
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text("are being read")).to_be_visible()
    # The page says by itself that they have been.
    expect(checked).not_to_have_attribute("data-at", before, timeout=30_000)
    expect(page.locator("#model [data-cell=state]")).to_have_text(re.compile("ready|unloaded"), timeout=30_000)

    page.fill("#try-text", "Tell me a long story about the sea.")
    page.fill("#try-most", "2000")
    page.get_by_role("button", name="Send").click()
    answer, told = page.locator("#try-answer"), page.locator("#try-figures")
    expect(answer).to_have_text(re.compile(r"\w+ \w+"), timeout=60_000)
    first = answer.inner_text()
    expect(answer).not_to_have_text(first)
    expect(told).to_have_text(re.compile(r"tokens, [\d.]+ tokens/s"))
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#try-state")).to_have_text("cancelled", timeout=30_000)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    task_id = (page.locator("#try-page").get_attribute("href") or "").split("/")[-3]
    # An ordinary task, of the console's own client, and somebody has been written down for it.
    assert service.sql("SELECT client_id, status, model FROM tasks WHERE id = ?", task_id) == [
        ("client_admin_console", "cancelled", MODEL)
    ]
    assert service.text_on_disk(task_id).startswith(first.strip()[:40])
    done = service.sql("SELECT action FROM audit_log WHERE subject_id = ? AND actor = 'operator' ORDER BY id", task_id)
    assert done == [("created",), ("cancelled",)]
    desk.settle()
    desk.check()

    # Once its client is revoked a trial is refused, and says where it is allowed again.
    service.manage("revoke_client", "client_admin_console")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#try-state")).to_contain_text("is revoked. Its page has a button that allows trials again.")
    page.get_by_role("link", name="Its page").click()
    page.get_by_role("button", name="Allow trials again").click()
    expect(page.locator("#client .task-title")).to_contain_text("active")
    desk.settle()


def test_a_person_adds_a_model_and_verifies_it(desk: Desk, service: Service) -> None:
    models = service.data_dir / "models"
    (file,) = tiny_models.write_gguf(models / "put here.gguf")
    (models / "no model.gguf").write_bytes(b"<html>not found</html>")
    try:
        desk.open("/admin/models_app/languagemodel/")
        page = desk.open("/admin/models_app/languagemodel/add/")
        page.get_by_role("button", name="Add no model.gguf").click()
        refused = page.locator("#additions .row", has_text="no model.gguf")
        expect(refused.locator(".state")).to_have_text("failed", timeout=60_000)
        expect(refused).to_contain_text("does not begin as a GGUF file does")
        row = page.locator("#found .row", has_text="put here.gguf")
        expect(row.locator("[name=model_id]")).to_have_value("put-here")
        row.locator("[name=model_id]").fill("tests/put-here")
        row.get_by_role("button").click()
        added = page.locator("#additions .row", has_text="put here.gguf")
        expect(added.locator(".state")).to_have_text("completed", timeout=60_000)
        expect(page.locator("#found")).not_to_contain_text("put here.gguf")
        added.get_by_role("link").click()
        desk.settle()
        expect(page.locator("#model [data-cell=state]")).to_have_text(re.compile("ready|unloaded"), timeout=30_000)
        checked = page.locator("[data-cell=checked]")
        before = checked.get_attribute("data-at") or ""
        page.get_by_role("button", name="Verify").click()
        expect(checked).not_to_have_attribute("data-at", before, timeout=60_000)
        expect(page.locator("#model [data-cell=state]")).to_have_text(re.compile("ready|unloaded"), timeout=30_000)
        assert file.is_file(), "it is where it was"
        written = "SELECT action, actor FROM audit_log WHERE subject_id = 'tests/put-here' ORDER BY id"
        assert service.sql(written) == [("created", "operator"), ("changed", "operator")]
        desk.settle()
        desk.check()
    finally:
        (models / "no model.gguf").unlink()
        if service.sql("SELECT 1 FROM models WHERE id = 'tests/put-here'"):
            service.manage("remove_model", "tests/put-here")
        file.unlink(missing_ok=True)


def test_a_person_looks_at_a_client_and_revokes_it(desk: Desk, service: Service) -> None:
    service.finished(service.create("Hi", max_output_tokens=3)["id"])
    page = desk.open(f"/admin/clients_app/client/{service.client_id}/change/")
    expect(page.locator("#client .task-title")).to_contain_text("active")
    # The plot is drawn: something of it is not transparent.
    drawn = (
        "[...document.getElementById('plot-usage').getContext('2d').getImageData(0, 0, 300, 300).data].some(Boolean)"
    )
    assert page.evaluate(drawn)
    other = service.manage("create_client", "to be revoked")["client_id"]
    page = desk.open(f"/admin/clients_app/client/{other}/change/")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked to be revoked.")).to_be_visible()
    expect(page.locator("#client .task-title")).to_contain_text("revoked")
    desk.settle()
    desk.check()


@pytest.fixture
def present(service: Service) -> None:
    """No task is newer than those that come: other tests write some by hand that are."""
    for table, column in (("task_events", "task_id"), ("responses", "task_id"), ("tasks", "id")):
        service.sql(f"DELETE FROM {table} WHERE {column} LIKE 'task_zzz%'")


def test_the_list_of_tasks_tells_of_new_ones(desk: Desk, service: Service, present: None) -> None:
    service.finished(service.create("Hi", max_output_tokens=3)["id"])
    page = desk.open("/admin/tasks_app/task/")
    newer = page.locator("#newer")
    expect(newer).to_be_hidden()
    created = [service.finished(service.create("Hi", max_output_tokens=3)["id"])["id"] for _ in range(2)]
    expect(newer).to_have_text("2 new tasks", timeout=30_000)
    newer.click()
    for task_id in created:
        expect(page.locator(f'[data-row="{task_id}"]')).to_be_visible()
    desk.settle()
    desk.check()


def test_its_pages_fit_a_phone(browser: Browser, service: Service) -> None:
    context = browser.new_context(viewport=PHONE, color_scheme="dark", has_touch=True, is_mobile=True)
    phone = Desk(context, service, "operator")
    for path in (
        MODEL_PAGE,
        "/admin/models_app/languagemodel/add/",
        f"/admin/clients_app/client/{service.client_id}/change/",
    ):
        page = phone.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
    phone.check()
    context.close()
