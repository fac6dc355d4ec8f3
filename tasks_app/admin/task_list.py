"""The list of tasks: filters, search, and pages that are found in bounded time at a million rows."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from clients_app.models import Client
from lmsp_site.ids import first_id_at
from lmsp_site.models import RestartPolicy
from models_app.models import LanguageModel
from tasks_app.admin.counting import ByRows
from tasks_app.board import search
from tasks_app.board.search import Found, Wanted
from tasks_app.models import Task
from tasks_app.states import Status

if TYPE_CHECKING:  # The theme has no types of its own.
    from django.contrib.admin.views.main import ChangeList
else:
    from unfold.views import ChangeList

_MOST_CHOICES = 50
_AGES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
OLDER = "older_than"


class _Choice(admin.SimpleListFilter):
    """A filter that only says what is wanted; `TaskChangeList` finds it."""

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Leave the finding to the list."""


class StatusFilter(_Choice):
    """By state."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the states in the order of a task's life."""
        return [(status.value, status.value) for status in Status]


class ClientFilter(_Choice):
    """By client."""

    title = "client"
    parameter_name = "client"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the clients that have been there last."""
        return list(Client.objects.order_by("-last_used_at").values_list("id", "name")[:_MOST_CHOICES])


class ModelFilter(_Choice):
    """By model."""

    title = "model"
    parameter_name = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the registered models."""
        return [(name, name) for name in LanguageModel.objects.values_list("id", flat=True)[:_MOST_CHOICES]]


class PolicyFilter(_Choice):
    """By restart policy."""

    title = "restart policy"
    parameter_name = "policy"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the policies."""
        return [(policy.value, policy.value) for policy in RestartPolicy]


class AgeFilter(_Choice):
    """By age."""

    title = "age"
    parameter_name = "age"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return some spans."""
        return [(name, f"the last {name}") for name in _AGES]


FILTERS = (StatusFilter, ClientFilter, ModelFilter, PolicyFilter, AgeFilter)


class TaskChangeList(ChangeList):
    """One page of tasks; which ones, is `search`'s to find."""

    found: Found
    wanted: Wanted

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet:
        """Return the tasks of the page; of an action those that were selected, wherever the list is by now."""
        self.filter_specs, self.has_filters, rest, _, self.has_active_filters = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(new_params=rest, remove=self.get_filters_params())
        tasks = self.root_queryset.select_related("client")
        if request.method == "POST":
            # "All" that a forged form asks for is what it names.
            return tasks.filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME)[: search.PAGE * 4])
        self.wanted = _wanted(request, self.query)
        self.found = search.find(self.wanted)
        return tasks.filter(pk__in=self.found.ids).order_by("-id")

    def get_results(self, request: HttpRequest) -> None:
        """Take the page as it is: there is nothing to count."""
        self.result_list = list(self.queryset)
        self.paginator = ByRows(self.result_list, search.PAGE)
        self.result_count = self.full_result_count = len(self.result_list)
        self.show_full_result_count = self.multi_page = self.can_show_all = False
        self.show_admin_actions = True

    def chips(self) -> Iterator[dict[str, Any]]:
        """Yield the unfinished states, how many tasks are in each, and where they are listed."""
        for status, count in search.unfinished().items():
            selected = self.wanted.status == status
            yield {
                "status": status,
                "count": f"{count:,}" if count < search.MOST_COUNTED else f"{count:,}+",
                "selected": selected,
                "query": self.get_query_string({} if selected else {"status": status}, ["status", OLDER]),
            }

    def about(self) -> str:
        """Say how many tasks there are, roughly."""
        count = search.about_how_many()
        return f"{count:,}" if count < 1000 else f"about {round(count, -3):,}"

    def newest_query(self) -> str | None:
        """Return where the list begins; ``None`` at its beginning."""
        return self.get_query_string(remove=[OLDER]) if self.wanted.before else None

    def older_query(self) -> str | None:
        """Return where the list goes on; ``None`` at its end."""
        return self.get_query_string({OLDER: self.found.older}) if self.found.older else None


def _wanted(request: HttpRequest, said: str) -> Wanted:
    given = request.GET.get
    age = _AGES.get(given("age", ""))
    return Wanted.said(
        said,
        status=given("status", ""),
        client=given("client", ""),
        model=given("model", ""),
        policy=given("policy", ""),
        since=first_id_at("task", (timezone.now() - age).timestamp()) if age else "",
        before=given(OLDER, ""),
    )


def of_selected(tasks: QuerySet) -> list[Task]:
    """Return the selected tasks, the oldest first."""
    return list(tasks.order_by("id"))
