"""Tasks, what the service keeps beneath them, and the runner's jobs in the admin."""

from tasks_app.admin import client_page, jobs, model_page, tables, task_admin, usage

__all__ = ["client_page", "jobs", "model_page", "tables", "task_admin", "usage"]
