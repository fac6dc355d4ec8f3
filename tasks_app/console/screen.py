"""The state of the service as one screen; see ``overview`` for what it shows."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management.color import Style

from tasks_app.console import colours, figures, tables
from tasks_app.console.tables import Column

_LABEL = 10

State = dict[str, Any]


def lines(state: State, style: Style, width: int) -> Iterator[str]:
    """Yield the lines of one screen."""
    service, kept = state["service"], state["retention"]
    title = f"{tables.tame(service['name'])}  {service['version']}, LMSP {service['protocol_version']}"
    yield style.MIGRATE_LABEL(tables.cut(title, width))
    yield from _row("identity", [service["id"]], width)
    yield from _row("data", [service["data_dir"]], width)
    yield from _row("served by", _served(state), width)
    yield from _ready(state["ready"], state["remarks"], style, width)
    yield ""
    yield from _row("tasks", _counts(state["tasks"], style), width)
    yield from _row("last hour", [f"{count:,} {status}" for status, count in state["last_hour"].items()], width)
    yield from _row("queue", _queue(state["queue"]), width)
    if state["running"]:
        yield ""
        yield from _running(state["running"], style, width)
    if state["models"]:
        yield ""
        yield from _models(state["models"], style, width)
    yield ""
    yield from _row("storage", _storage(state["storage"], style), width)
    yield from _row(
        "kept", [f"finished tasks {kept['days']} d", f"idempotency keys {kept['idempotency_hours']} h"], width
    )


def _row(label: str, parts: Iterable[str], width: int) -> Iterator[str]:
    """Yield parts behind their label, going on in the next line where one is full; colours take no room."""
    line, taken = f"{label:<{_LABEL}}", _LABEL
    for part in parts:
        room = tables.columns_of(tables.uncoloured(part)) + len(", ")
        if taken > _LABEL and taken + room > width:
            yield f"{line},"
            line, taken = " " * _LABEL, _LABEL
        line += f", {part}" if taken > _LABEL else part
        taken += room
    yield line


def _served(state: State) -> Iterator[str]:
    holder = state["served_by"]
    running = {role: found for role, found in state["processes"].items() if found["pids"]}
    if holder:
        yield f"process {holder['pid']} for {figures.span(holder['seconds'])}"
    else:
        yield "no `serve`" if running else "nobody"
    for role, found in running.items():
        if role == "workers":
            yield f"workers {found['pids'][0]} ({state['workers']} alive)"
        elif role != "supervisor":
            yield f"{role.replace('_', ' ')} {' '.join(map(str, found['pids']))}"
    if running:
        yield f"{figures.size(sum(found['memory_bytes'] for found in running.values()))} of memory"


def _ready(checks: dict[str, str | None], remarks: dict[str, str], style: Style, width: int) -> Iterator[str]:
    shown = [f"{name} {style.SUCCESS('ok') if fault is None else style.ERROR('no')}" for name, fault in checks.items()]
    yield from _row("ready", shown, width)
    for fault in filter(None, (*checks.values(), *remarks.values())):
        for line in textwrap.wrap(tables.tame(fault), max(20, width - _LABEL)):
            yield " " * _LABEL + line


def _counts(tasks: dict[str, int], style: Style) -> Iterator[str]:
    for status, count in tasks.items():
        text = f"{count:,} {status}"
        yield colours.of_status(style, status)(text) if count else text


def _queue(queue: State) -> Iterator[str]:
    for name, waiting in queue.items():
        if isinstance(waiting, dict):
            oldest = f" (oldest {figures.span(waiting['oldest_seconds'])})" if waiting["tasks"] else ""
            yield f"{waiting['tasks']:,} {name}{oldest}"
    if queue["due_later"]:
        yield f"{queue['due_later']:,} tried again in {figures.span(queue['due_in_seconds'])} or later"


def _running(running: list[State], style: Style, width: int) -> Iterator[str]:
    paints = [colours.of_status(style, task["status"]) for task in running]

    def column(title: str, cells: list[str], **options: Any) -> Column:
        return Column(title, list(map(tables.tame, cells)), **options)

    table = [
        column("RUNNING NOW", [task["id"] for task in running], least=9, keeps_end=True),
        column("STATUS", [task["status"] for task in running], paints=paints, rank=5),
        column("CLIENT", [task["client"] for task in running], least=6, rank=2),
        column("MODEL", [task["model"] for task in running], least=8, rank=3),
        column("ATT", [str(task["attempt"]) for task in running], right=True, rank=4),
        column("TOKENS", [str(task["output_tokens"]) for task in running], right=True),
        column("PER S", [f"{task['tokens_per_second']:.1f}" for task in running], right=True),
        column("FOR", [figures.span(task["seconds"]) for task in running], right=True, rank=1),
        column("NOTE", [task["note"] for task in running], least=10),
    ]
    yield from tables.lines(table, width, style.MIGRATE_LABEL)


def _models(models: list[State], style: Style, width: int) -> Iterator[str]:
    busy = [f"{m['busy_slots']}/{m['slots']}" if m.get("slots") else "" for m in models]
    table = [
        Column("MODEL", [model["id"] for model in models], least=8),
        Column("STATE", [_state_of(model) for model in models]),
        Column("FILE", [figures.size(model["size_bytes"]) for model in models], right=True),
        Column("MEMORY", [figures.size(m["memory_bytes"]) if "memory_bytes" in m else "" for m in models], right=True),
        Column("SLOTS", busy, right=True),
        Column("CONTEXT", [f"{m['context_length']:,}" if "context_length" in m else "" for m in models], right=True),
        Column("TOKENS SO FAR", [_generated(m) for m in models], right=True, rank=1),
    ]
    yield from tables.lines(table, width, style.MIGRATE_LABEL)


def _state_of(model: State) -> str:
    progress = model.get("progress")
    return f"{model['state']} {100 * progress:.0f} %" if progress else str(model["state"])


def _generated(model: State) -> str:
    return f"{model['tokens_generated']:,}" if model.get("tokens_generated") is not None else ""


def _storage(storage: dict[str, int], style: Style) -> Iterator[str]:
    size = {name.removesuffix("_bytes"): figures.size(count) for name, count in storage.items()}
    yield f"database {size['database']} + {size['wal']} log"
    yield f"models {size['models']}"
    yield f"checkpoints {size['checkpoints']}"
    free = f"{size['free']} free (reserve {size['reserve']})"
    yield style.ERROR(free) if storage["free_bytes"] < 2 * storage["reserve_bytes"] else free
