"""Who may watch the service in the admin."""

from typing import Any


def may_watch(user: Any) -> bool:
    """Tell whether somebody, signed in or not, may see tasks and what is made from them."""
    return bool(user.is_active and user.is_staff and user.has_perm("tasks_app.view_task"))
