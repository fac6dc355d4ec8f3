"""Something that is done again and again beside the load."""

import threading
from collections.abc import Callable
from typing import Self


class Repeated(threading.Thread):
    """Does `act` at once and then `pause` seconds after each end, until the context is left; keeps what went wrong."""

    def __init__(self, name: str, act: Callable[[], None], pause: float) -> None:
        super().__init__(name=name, daemon=True)
        self.faults: list[str] = []
        self._act = act
        self._pause = pause
        self._over = threading.Event()

    def run(self) -> None:
        """Act and wait; a failure does not keep the next from being tried."""
        while True:
            try:
                self._act()
            except Exception as error:  # noqa: BLE001 - told with the findings of the soak
                self.faults.append(f"{self.name}: {type(error).__name__}: {error}")
            if self._over.wait(self._pause):
                return

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
