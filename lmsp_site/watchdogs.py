"""When a process that lives is taken to hang: it has not answered for longer than a busy machine explains."""

import time
from collections.abc import Callable


class Unanswered:
    """Asks again and again, and loses its patience with whoever does not answer.

    Args:
        answers: asks once, and waits a moment at most.
        patience: seconds from the first question without an answer; a start has to fit into them.
    """

    def __init__(self, answers: Callable[[], bool], patience: float) -> None:
        self._answers = answers
        self._patience = patience
        self._since: float | None = None

    def __call__(self) -> bool:
        """Ask, and tell whether the patience is over. Afterwards it begins anew, with a new process."""
        now = time.monotonic()
        if self._answers():
            self._since = None
            return False
        self._since = self._since or now
        if now - self._since < self._patience:
            return False
        self._since = None
        return True
