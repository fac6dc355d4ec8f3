"""TABLES service_config: who this service is and how it is set; login_attempts: who fails to sign in to the admin.

Django looks for the audit log's table here, too.
"""

import uuid
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from lmsp_site import rows
from lmsp_site.audit_log import AuditEntry

__all__ = ["AuditEntry", "RestartPolicy", "ServiceConfig"]

# The moment of each is kept for a minute.
MOST_REQUESTS_PER_MINUTE = 100_000

KEEP_ALIVE_BOUNDS = (MinValueValidator(-1), MaxValueValidator(366 * 86400))
"""Seconds that a model stays loaded, for all models or for one; -1 is for ever."""


class RestartPolicy(models.TextChoices):
    """What becomes of a task that a restart finds unfinished."""

    FAIL = "fail"
    RETRY = "retry"
    RESUME = "resume"


class ServiceConfig(models.Model):
    """One row, made by the first migration."""

    service_id = models.UUIDField(default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100, default="LMSP service")
    default_on_restart = models.CharField(
        max_length=6,
        choices=RestartPolicy,
        default=RestartPolicy.RESUME,
        help_text="For requests that do not say: fail, retry from the start, or resume from the snapshot.",
    )
    max_attempts = models.PositiveIntegerField(
        default=5,
        help_text="A task fails when it is claimed more often than this without progress; 0 means no limit.",
    )
    retention_days = models.PositiveIntegerField(
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(36500)],
        help_text="Finished tasks, with their events and responses, are kept this long.",
    )
    idempotency_hours = models.PositiveIntegerField(
        default=24,
        validators=[MinValueValidator(1), MaxValueValidator(24 * 365)],
        help_text="A repeated Idempotency-Key finds its first request for this long.",
    )
    keep_alive = models.IntegerField(
        default=3600,
        validators=KEEP_ALIVE_BOUNDS,
        help_text="Seconds that a model stays loaded after its last use; 0 unloads it at once, -1 never.",
    )
    max_loaded = models.PositiveIntegerField(
        default=0,
        validators=[MaxValueValidator(1000)],
        help_text="Models that are loaded at once, at most; the one idle longest makes room. 0 means no limit.",
    )
    engine_memory_mb = models.PositiveIntegerField(
        default=0,
        help_text="Megabytes that all loaded models may need together, at most; 0 means what the machine has.",
    )
    preload = models.TextField(
        blank=True,
        default="",
        help_text="Ids of models that are loaded when the service starts, one a line.",
    )
    # Of each client, unless it has a limit of its own.
    max_running = models.PositiveIntegerField(
        default=0,
        db_default=0,
        verbose_name="running tasks per client",
        help_text="How many tasks of a client run at once; its others wait and hold up nobody. 0: no limit.",
    )
    max_queued = models.PositiveIntegerField(
        default=0,
        db_default=0,
        verbose_name="queued tasks per client",
        help_text="How many tasks of a client wait; more are refused. 0: no limit.",
    )
    max_requests_per_minute = models.PositiveIntegerField(
        default=0,
        db_default=0,
        verbose_name="requests per minute and client",
        help_text="Calls of any kind, in any 60 seconds; more are refused. 0: no limit.",
        validators=[MaxValueValidator(MOST_REQUESTS_PER_MINUTE)],
    )
    max_tokens_per_day = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        verbose_name="tokens per day and client",
        help_text="Of prompts and outputs together, from midnight to midnight in UTC. 0: no limit.",
    )
    max_stored_bytes = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        verbose_name="stored bytes per client",
        help_text="Of the inputs and responses of its tasks; beyond it no new task is taken. 0: no limit.",
    )

    class Meta:
        db_table = "service_config"
        verbose_name = "service configuration"
        verbose_name_plural = "service configuration"
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="only_one_service_config")]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def current(cls) -> "ServiceConfig":
        """Return the configuration as it is now; an edit is in force at the next call."""
        (only,) = rows.select(cls, "id = %s", (1,))
        return only

    @classmethod
    def setting(cls, name: str) -> Any:
        """Return one field of it as it is now."""
        return rows.value(cls, name, "id = %s", (1,))


class LoginAttempt(models.Model):
    """An attempt to sign in to the admin that did not succeed, or has not yet."""

    user_digest = models.CharField(max_length=64)
    at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "login_attempts"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S}"
