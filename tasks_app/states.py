"""The state machine of a task, as data."""

from enum import StrEnum

from lmsp_site.models import RestartPolicy


class Status(StrEnum):
    """Where a task is in its life."""

    QUEUED = "queued"
    LOADING = "loading"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
UNFINISHED = frozenset(Status) - FINISHED
# Some worker holds, or held, the task.
CLAIMED = frozenset({Status.LOADING, Status.RUNNING, Status.CANCELLING})

# The only changes of state there are. QUEUED is entered again by a retry.
ENTERED_FROM: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.LOADING, Status.RUNNING}),
    Status.LOADING: frozenset({Status.QUEUED}),
    Status.RUNNING: frozenset({Status.QUEUED, Status.LOADING}),
    Status.CANCELLING: frozenset({Status.LOADING, Status.RUNNING}),
    Status.COMPLETED: frozenset({Status.RUNNING}),
    Status.FAILED: frozenset({Status.QUEUED, Status.LOADING, Status.RUNNING}),
    Status.CANCELLED: frozenset({Status.QUEUED, Status.CANCELLING}),
}

# Chapter 11.3: where a task goes that a start of the service finds unfinished.
# By plain text too, as the database has it: the members of these enumerations are strings.
RECOVERY: dict[str, dict[str, Status]] = {
    Status.QUEUED: {
        RestartPolicy.FAIL: Status.FAILED,
        RestartPolicy.RETRY: Status.QUEUED,
        RestartPolicy.RESUME: Status.QUEUED,
    },
    Status.LOADING: {
        RestartPolicy.FAIL: Status.FAILED,
        RestartPolicy.RETRY: Status.QUEUED,
        RestartPolicy.RESUME: Status.QUEUED,
    },
    Status.RUNNING: {
        RestartPolicy.FAIL: Status.FAILED,
        RestartPolicy.RETRY: Status.QUEUED,
        RestartPolicy.RESUME: Status.RUNNING,
    },
    Status.CANCELLING: {
        RestartPolicy.FAIL: Status.CANCELLED,
        RestartPolicy.RETRY: Status.CANCELLED,
        RestartPolicy.RESUME: Status.CANCELLED,
    },
}

# What a response is called while its task is in a state; `completed` may also be `incomplete`.
RESPONSE_STATUS: dict[str, str] = {
    Status.QUEUED: "queued",
    Status.LOADING: "queued",
    Status.RUNNING: "in_progress",
    Status.CANCELLING: "in_progress",
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
}


class EventType(StrEnum):
    """The types of events in a task's log."""

    CREATED = "response.created"
    QUEUED = "response.queued"
    LOADING = "response.loading"
    IN_PROGRESS = "response.in_progress"
    CANCELLING = "response.cancelling"
    COMPLETED = "response.completed"
    INCOMPLETE = "response.incomplete"
    FAILED = "response.failed"
    CANCELLED = "response.cancelled"
    OUTPUT_ITEM_ADDED = "response.output_item.added"
    OUTPUT_ITEM_DONE = "response.output_item.done"
    CONTENT_PART_ADDED = "response.content_part.added"
    CONTENT_PART_DONE = "response.content_part.done"
    OUTPUT_TEXT_DELTA = "response.output_text.delta"
    OUTPUT_TEXT_DONE = "response.output_text.done"
    REASONING_SUMMARY_PART_ADDED = "response.reasoning_summary_part.added"
    REASONING_SUMMARY_PART_DONE = "response.reasoning_summary_part.done"
    REASONING_SUMMARY_TEXT_DELTA = "response.reasoning_summary_text.delta"
    REASONING_SUMMARY_TEXT_DONE = "response.reasoning_summary_text.done"
    FUNCTION_CALL_ARGUMENTS_DELTA = "response.function_call_arguments.delta"
    FUNCTION_CALL_ARGUMENTS_DONE = "response.function_call_arguments.done"


# Which state an event announces.
STATE_ANNOUNCED_BY: dict[EventType, Status] = {
    EventType.QUEUED: Status.QUEUED,
    EventType.LOADING: Status.LOADING,
    EventType.IN_PROGRESS: Status.RUNNING,
    EventType.CANCELLING: Status.CANCELLING,
    EventType.COMPLETED: Status.COMPLETED,
    EventType.INCOMPLETE: Status.COMPLETED,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELLED: Status.CANCELLED,
}

TERMINAL_EVENTS = frozenset(kind for kind, status in STATE_ANNOUNCED_BY.items() if status in FINISHED)

# Chapter 11 has these states, Open Responses does not know their events: they show on the task stream only.
TASK_STREAM_ONLY = frozenset({EventType.LOADING, EventType.CANCELLING})


def may_enter(new: Status, old: Status) -> bool:
    """Tell whether a task may go from `old` to `new`."""
    return old in ENTERED_FROM[new]
