"""The audit log in the admin."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString

from lmsp_site.admin_tables import ReadOnlyAdmin
from lmsp_site.audit_log import AuditEntry

# Characters of an entry's detail in the list.
_LINE = 160


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """What was done, newest first."""

    list_display = ("at", "who", "deed", "subject_name", "what", "address")
    list_filter = ("action", "actor_kind", "subject_kind", "at")
    search_fields = ("actor", "subject", "subject_id", "address")
    search_help_text = "A name, an id or an address"
    date_hierarchy = "at"
    fields = ("at", "who", "deed", "subject_name", "subject_id", "address", "detail")
    readonly_fields = fields
    nothing_yet = "Nothing has been done by hand yet. Whatever is, here or by a command, is written down for good."

    @admin.display(description="who", ordering="actor")
    def who(self, entry: AuditEntry) -> str:
        """Name and door; nobody, where somebody was not let in."""
        return f"{entry.actor}, {entry.get_actor_kind_display()}" if entry.actor else "nobody known"

    @admin.display(description="did", ordering="action")
    def deed(self, entry: AuditEntry) -> str:
        """What was done."""
        return str(entry.get_action_display()).lower()

    @admin.display(description="to what", ordering="subject")
    def subject_name(self, entry: AuditEntry) -> SafeString:
        """What it was done to, by the name that it had."""
        name = entry.subject or entry.subject_id
        return format_html('<span class="cut" title="{}">{} {}</span>', name, entry.subject_kind, name)

    @admin.display(description="detail")
    def what(self, entry: AuditEntry) -> SafeString:
        """What has changed, in a line; the page has all of it."""
        return format_html('<span class="cut">{}</span>', _in_a_line(entry.detail))


def _in_a_line(detail: dict[str, Any]) -> str:
    told = dict(detail)
    changes: dict[str, dict[str, Any]] = told.pop("changes", {})
    said = [f"{name}: {' '.join(_change(change))}" for name, change in changes.items()]
    said += [f"{name}: {_plain(value)}" for name, value in told.items() if value not in (None, "", [], {})]
    text = "; ".join(said)
    return text if len(text) <= _LINE else f"{text[:_LINE]}…"


def _change(change: dict[str, Any]) -> Iterator[str]:
    if "from" in change:
        yield f"{_plain(change['from'])} → {_plain(change['to'])}"
    for name, sign in (("added", "+"), ("removed", "-")):
        if change.get(name):
            yield f"{sign} {_plain(change[name])}"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)
