"""Tasks: durable work."""

from django.apps import AppConfig


class TasksConfig(AppConfig):
    """Tasks, their event logs, responses and idempotency keys."""

    name = "tasks_app"
    verbose_name = "Work"
