"""TABLES tasks, task_events, responses and idempotency_keys, a task's snapshot, statistics, minutes and usage."""

from datetime import datetime

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from clients_app.models import Client
from lmsp_site.ids import new_id
from lmsp_site.models import RestartPolicy
from tasks_app import claim_order
from tasks_app.states import CLAIMED, FINISHED, UNFINISHED, Status

_STATUS_CHOICES = [(status.value, status.value) for status in Status]
_ID_LENGTH = 40


def _task_id() -> str:
    return new_id("task")


class Priority(models.IntegerChoices):
    """Which task is claimed first; the API names them in lower case."""

    INTERACTIVE = 0
    NORMAL = 1
    BATCH = 2


def _due() -> Q:
    now = timezone.now()
    in_time = Q(expires_at=None) | Q(expires_at__gt=now)
    due = Q(claimable_at=None) | Q(claimable_at__lte=now) | Q(claimable_at__gt=now + claim_order.LONGEST_DELAY)
    return due & in_time


class TaskQuerySet(models.QuerySet["Task"]):
    """Tasks by what they are to the service."""

    def unfinished(self) -> "TaskQuerySet":
        """Tasks that retention must never touch (R5)."""
        return self.filter(status__in=UNFINISHED, finished_at=None)

    def waiting(self) -> "TaskQuerySet":
        """Queued tasks that are due; in which order they are claimed is ``claim_order``'s."""
        return self.filter(status=Status.QUEUED, finished_at=None).filter(_due()).order_by("priority", "id")

    def to_resume(self) -> "TaskQuerySet":
        """Running tasks that a restart, or a worker's death, has left to be claimed again."""
        return (
            self.filter(status=Status.RUNNING, finished_at=None, owner=None).filter(_due()).order_by("priority", "id")
        )

    def next_claimable(self) -> "Task | None":
        """The task that a free worker should take; a few walks along indexes, however long the queue.

        What was begun is gone on with first, whatever its client may run.
        """
        if begun := self.to_resume().first():
            return begun
        while waiting := claim_order.next_id():
            # Between the two looks it may have been cancelled, or another worker's.
            if candidate := self.filter(pk=waiting, status=Status.QUEUED, finished_at=None).first():
                return candidate
        return None

    def count_claimable(self, most: int) -> int:
        """How many tasks free workers would find, counted up to `most`."""
        found = self.to_resume()[:most].count()
        return found if found == most else found + claim_order.count(most - found)

    def has_waited_since(self, moment: datetime) -> bool:
        """Tell whether something to claim was accepted, and due, by then already."""
        due_by_then = (Q(claimable_at=None) | Q(claimable_at__lte=moment)) & Q(created_at__lte=moment)
        waiting = self.waiting().exclude(client__in=claim_order.held_back())
        return any(tasks.filter(due_by_then).exists() for tasks in (self.to_resume(), waiting))

    def expired(self) -> "TaskQuerySet":
        """Unfinished tasks whose deadline has passed."""
        return self.unfinished().filter(expires_at__lte=timezone.now())

    def claimed(self) -> "TaskQuerySet":
        """Tasks that some worker holds or held."""
        return self.filter(status__in=CLAIMED, finished_at=None)

    def walks(self, status: str) -> "list[TaskQuerySet]":
        """Return the tasks of one state in parts, each of which an index has in the order of their ids."""
        if status in FINISHED:
            return [self.filter(status=status, finished_at__isnull=False)]
        return [self.filter(status=status, finished_at=None, priority=priority) for priority in Priority]

    def kept(self) -> "TaskQuerySet":
        """Tasks that are not being removed: of the others a part may be gone already."""
        return self.filter(purged_at=None)

    def of(self, client: Client) -> "TaskQuerySet":
        """Tasks that `client` may know of."""
        return self.kept().filter(client=client)


class Task(models.Model):
    """One accepted request. ``lifecycle`` alone changes its state."""

    id = models.CharField(primary_key=True, max_length=_ID_LENGTH, default=_task_id, editable=False)
    # Without an index of its own: ``tasks_of_client`` begins with the client.
    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="tasks", db_index=False)
    status = models.CharField(max_length=10, choices=_STATUS_CHOICES, default=Status.QUEUED, db_default=Status.QUEUED)
    on_restart = models.CharField(
        max_length=6, choices=RestartPolicy, default=RestartPolicy.RESUME, db_default=RestartPolicy.RESUME
    )
    attempt = models.PositiveIntegerField(default=0, db_default=0, help_text="Claims so far.")
    priority = models.PositiveSmallIntegerField(choices=Priority, default=Priority.NORMAL, db_default=Priority.NORMAL)
    model = models.CharField(max_length=200, help_text="Id of the model that was asked for.")
    metadata = models.JSONField(default=dict, db_default={})
    last_sequence_number = models.IntegerField(default=-1, db_default=-1, validators=[MinValueValidator(-1)])

    owner = models.CharField(max_length=80, null=True, blank=True, help_text="The worker that holds the task.")  # noqa: DJ001
    job_id = models.CharField(max_length=40, blank=True, default="", db_default="", help_text="The job that ran it.")
    claimable_at = models.DateTimeField(null=True, blank=True, help_text="Not to be claimed before; empty: at once.")
    claims_without_progress = models.PositiveIntegerField(default=0, db_default=0)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Unfinished by then, it fails.")
    ends_with_caller = models.BooleanField(
        default=False, db_default=False, help_text="A foreground caller that hangs up cancels this task."
    )

    input_tokens = models.PositiveIntegerField(default=0, db_default=0)
    output_tokens = models.PositiveIntegerField(default=0, db_default=0)
    progress = models.JSONField(null=True, blank=True, help_text="How far loading, prefill or replay has come.")
    error_code = models.CharField(max_length=60, blank=True, default="", db_default="")
    error_message = models.TextField(blank=True, default="", db_default="")
    incomplete_reason = models.CharField(  # noqa: DJ001
        max_length=60, null=True, blank=True, help_text="Why a completed task's response is incomplete."
    )

    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True, help_text="Hidden since then, and being removed.")
    stored_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="Of its input and response; empty where it is older than this count."
    )

    objects = TaskQuerySet.as_manager()

    class Meta:
        db_table = "tasks"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["client", "-id"], name="tasks_of_client"),
            # Of unfinished tasks alone: queries that want it say ``finished_at=None``.
            models.Index(
                fields=["status", "priority", "id"],
                condition=Q(finished_at__isnull=True),
                name="unfinished_by_claim_order",
            ),
            models.Index(
                fields=["client", "priority", "id"],
                condition=Q(status=Status.QUEUED.value, finished_at__isnull=True),
                name="waiting_tasks_of_client",
            ),
            models.Index(fields=["finished_at"], condition=Q(finished_at__isnull=False), name="finished_tasks"),
            models.Index(
                fields=["client", "status", "-id"],
                condition=Q(finished_at__isnull=False),
                name="finished_tasks_of_client",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False, finished_at__isnull=True),
                name="tasks_by_deadline",
            ),
            models.Index(fields=["purged_at"], condition=Q(purged_at__isnull=False), name="purged_tasks"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(status__in=list(Status)), name="task_status_is_known"),
            models.CheckConstraint(
                condition=Q(on_restart__in=RestartPolicy.values), name="task_restart_policy_is_known"
            ),
            models.CheckConstraint(condition=Q(last_sequence_number__gte=-1), name="sequence_numbers_start_at_zero"),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def finished(self) -> bool:
        """Whether nothing can change any more."""
        return self.status in FINISHED


class TaskEvent(models.Model):
    """One entry of a task's log. ``event_log`` alone writes it; nothing changes it."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="events", db_index=False)
    sequence_number = models.PositiveIntegerField()
    type = models.CharField(max_length=60)
    # Text, not JSON: what is stored is what goes on the wire, and is not parsed on its way.
    data = models.TextField(help_text="JSON object of the event's own fields, without type and sequence number.")
    created_ms = models.BigIntegerField(default=0, db_default=0, help_text="Milliseconds since 1970, UTC.")

    class Meta:
        db_table = "task_events"
        ordering = ["task", "sequence_number"]
        constraints = [
            models.UniqueConstraint(fields=["task", "sequence_number"], name="one_event_per_sequence_number"),
        ]

    def __str__(self) -> str:
        return f"{self.sequence_number} {self.type}"


class Response(models.Model):
    """What was asked. What was answered is in the task's log: its terminal event holds the whole response object."""

    id = models.CharField(primary_key=True, max_length=_ID_LENGTH, editable=False)
    task = models.OneToOneField(Task, on_delete=models.CASCADE, related_name="response")
    request = models.JSONField(help_text="The request, with its defaults filled in.")
    store = models.BooleanField(default=True, db_default=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "responses"
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.id


class IdempotencyKey(models.Model):
    """A client's key for one request: the same key finds the same task."""

    # Without an index of its own: ``one_request_per_idempotency_key`` begins with the client.
    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="idempotency_keys", db_index=False)
    endpoint = models.CharField(max_length=100)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64, help_text="SHA-256 of the canonical JSON, hexadecimal.")
    task = models.ForeignKey(Task, on_delete=models.SET_NULL, null=True, blank=True, related_name="idempotency_keys")
    result_status = models.PositiveSmallIntegerField(null=True, blank=True)
    result_body = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "idempotency_keys"
        constraints = [
            models.UniqueConstraint(fields=["client", "endpoint", "key"], name="one_request_per_idempotency_key"),
        ]
        indexes = [models.Index(fields=["expires_at"], name="idempotency_keys_by_expiry")]

    def __str__(self) -> str:
        return f"{self.endpoint} {self.key}"


class TaskInput(models.Model):
    """All that came before a task's answer: the items of its request, after those of the turns before it."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="input")
    items = models.TextField(help_text="JSON list of items, each with its id.")

    class Meta:
        db_table = "task_inputs"

    def __str__(self) -> str:
        return f"input of {self.task_id}"


class Snapshot(models.Model):
    """What a generation needs to go on exactly: the prompt, the seed, where it was decoded."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="snapshot")
    prompt = models.BinaryField(help_text="Token ids, 32 bits each, little-endian.")
    seed = models.BigIntegerField()
    slot = models.PositiveSmallIntegerField(null=True, blank=True, help_text="The engine's slot of this run.")
    fingerprint = models.CharField(max_length=100, blank=True, default="", help_text="How the tokens were decoded.")

    class Meta:
        db_table = "task_snapshots"

    def __str__(self) -> str:
        return f"snapshot of {self.task_id}"


class JournalEntry(models.Model):
    """The tokens of one commit, written in the transaction of the events made from them."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="journal", db_index=False)
    position = models.PositiveIntegerField(help_text="Index of the first token among the generated ones.")
    tokens = models.BinaryField(help_text="Pairs of token id (32 bits) and rows of its decode (16 bits).")

    class Meta:
        db_table = "task_journal"
        verbose_name_plural = "journal entries"
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "position"], name="one_journal_entry_per_position"),
        ]

    def __str__(self) -> str:
        return f"{self.snapshot_id} from {self.position}"


class Statistic(models.Model):
    """One sum of what the service has counted since its first start. ``statistics`` alone writes it."""

    name = models.CharField(max_length=100)
    labels = models.CharField(max_length=500, help_text="JSON array of the values of its labels.")
    value = models.FloatField()

    class Meta:
        db_table = "statistics"
        constraints = [models.UniqueConstraint(fields=["name", "labels"], name="one_sum_per_series")]

    def __str__(self) -> str:
        return f"{self.name} {self.labels}"


class Minute(models.Model):
    """What the service had counted, and what waited, at the beginning of one minute. ``board.history`` writes it."""

    minute = models.PositiveIntegerField(primary_key=True, help_text="Minutes since 1970, UTC.")
    output_tokens = models.FloatField(help_text="Generated since the service's first start.")
    finished = models.FloatField(help_text="Tasks finished since then.")
    failed = models.JSONField(default=dict, help_text="Of these the failed ones, by error code.")
    waiting = models.PositiveIntegerField()
    running = models.PositiveIntegerField()

    class Meta:
        db_table = "minutes"

    def __str__(self) -> str:
        return str(self.minute)


class Usage(models.Model):
    """What one client has had of one model on one day. ``usage`` alone writes it; it outlives client and tasks."""

    client_id = models.CharField(max_length=40)
    day = models.DateField(help_text="In UTC, when the task has ended.")
    model = models.CharField(max_length=200)
    tasks = models.PositiveBigIntegerField(default=0, db_default=0, help_text="That have ended.")
    input_tokens = models.PositiveBigIntegerField(default=0, db_default=0)
    output_tokens = models.PositiveBigIntegerField(default=0, db_default=0)
    run_ms = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Milliseconds from the first claim of each task to its end."
    )

    class Meta:
        db_table = "usage"
        ordering = ["-day", "client_id", "model"]
        verbose_name_plural = "usage"
        constraints = [
            models.UniqueConstraint(fields=["client_id", "day", "model"], name="one_sum_per_client_day_and_model")
        ]
        indexes = [models.Index(fields=["day"], name="usage_by_day")]

    def __str__(self) -> str:
        return f"{self.client_id} {self.day} {self.model}"


class ClientStorage(models.Model):
    """How many bytes are stored for a client. The triggers of ``stored_sizes`` alone write it."""

    client_id = models.CharField(primary_key=True, max_length=40)
    bytes = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "client_storage"

    def __str__(self) -> str:
        return f"{self.client_id}: {self.bytes} bytes"
