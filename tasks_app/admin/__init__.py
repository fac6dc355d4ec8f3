"""Tasks, what the service keeps beneath them, and the runner's jobs in the admin."""

from tasks_app.admin import jobs, tables, task_admin, usage

__all__ = ["jobs", "tables", "task_admin", "usage"]
