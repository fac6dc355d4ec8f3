"""What changes of state count: gathered while they are planned, a few sums for thousands of tasks."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from tasks_app import statistics, usage
from tasks_app.models import Priority
from tasks_app.states import FINISHED, Status
from tasks_app.statistics import Counts
from tasks_app.usage import Used

_PRIORITIES = {priority.value: priority.name.lower() for priority in Priority}


class _Record(Protocol):
    """What counts of a task as it was; see ``transitions.Record``."""

    @property
    def status(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def on_restart(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def created_at(self) -> str: ...
    @property
    def started_at(self) -> str | None: ...
    @property
    def client_id(self) -> str: ...


class Tally:
    """The sums of one plan. A recovery notes 100,000 changes, nearly all of them alike."""

    def __init__(self) -> None:
        self._alike: defaultdict[tuple[str, str, str, str | None, str, str | None, str | None], int] = defaultdict(int)
        self._output_tokens: defaultdict[str, int] = defaultdict(int)
        self._rest: Counts = {}
        self.used: usage.Sums = {}
        """What clients have had, to be added to the table of it."""

    def note(
        self,
        record: _Record,
        columns: Mapping[str, Any],
        fields: Mapping[str, Any] | None,
        cause: str,
        observed: Counts | None,
    ) -> None:
        """Take in a change that will be written; see ``transitions.Change``."""
        status = columns.get("status")
        self._alike[
            cause,
            record.status,
            record.on_restart,
            status,
            record.model,
            columns.get("error_code"),
            columns.get("incomplete_reason"),
        ] += 1
        # Until then they are read from the task: what is counted and what is not make up all that was generated.
        if record.output_tokens and (status in FINISHED or "output_tokens" in columns):
            self._output_tokens[record.model] += record.output_tokens
            usage.count(self.used, record.client_id, record.model, Used(output_tokens=record.output_tokens))
        if status in FINISHED:
            self._ended(record, columns)
        if "attempt" in columns:
            self._claimed(record, fields or {})
        if observed:
            for series, by in observed.items():
                self._rest[series] = self._rest.get(series, 0) + by

    def counts(self) -> Counts:
        """Return what to add to the statistics."""
        counts = dict(self._rest)
        for (cause, was, policy, status, model, code, reason), times in self._alike.items():
            if cause:
                statistics.count(counts, statistics.TASKS_RECOVERED, cause, was, policy, status or was, by=times)
            if status and status in FINISHED:
                statistics.count(counts, statistics.TASKS_FINISHED, model, status, code or reason or "", by=times)
        for model, tokens in self._output_tokens.items():
            statistics.count(counts, statistics.OUTPUT_TOKENS, model, by=tokens)
        return counts

    def _ended(self, record: _Record, columns: Mapping[str, Any]) -> None:
        # What was never claimed has cost no prompt and no time.
        used = Used(tasks=1)
        if record.started_at:
            ran = _moment(columns["finished_at"]) - _moment(record.started_at)
            used = Used(1, record.input_tokens, 0, round(1000 * ran.total_seconds()))
        usage.count(self.used, record.client_id, record.model, used)

    def _claimed(self, record: _Record, fields: Mapping[str, Any]) -> None:
        if record.attempt == 0:
            waited = datetime.now(UTC) - _moment(record.created_at)
            # The clock may have been set back.
            seconds = max(0.0, waited.total_seconds())
            statistics.observe(self._rest, statistics.TASK_WAIT, seconds, _PRIORITIES[record.priority])
            statistics.count(self._rest, statistics.INPUT_TOKENS, record.model, by=record.input_tokens)
        if record.status == Status.RUNNING:
            statistics.count(self._rest, statistics.RESUMES, "true" if fields.get("exact") else "false")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")
