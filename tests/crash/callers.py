"""Callers of the service under fire: each orders one task, perhaps reads it, perhaps cancels it."""

import random
import threading
from dataclasses import dataclass

import httpx

from tests.crash.catalogue import REQUESTS
from tests.crash.readers import WAYS, Reader
from tests.service import MODEL, Service

_POLICIES = ("resume", "retry", "resume", "fail")


@dataclass(frozen=True)
class Order:
    """What one caller is going to do; times in seconds from the start of its round.

    Attributes:
        mark: unique; it travels in the task's metadata, so that a task can be told by it.
        request: its name in the catalogue.
        policy: the task's ``on_restart``.
        at: when it is sent.
        keyed: whether it has an Idempotency-Key, and is sent until it is answered, and then once more.
        way: how its log is read, if it is.
        cancel_after: how long after its 202 it is cancelled, if it is.
        cancellers: how many cancel it at once.
    """

    mark: str
    request: str
    policy: str
    at: float
    keyed: bool
    way: str | None
    cancel_after: float | None
    cancellers: int


def orders(rng: random.Random, prefix: str, count: int, span: float) -> list[Order]:
    """Return `count` orders over `span` seconds, of all policies; most of them to be resumed, which can go wrong."""
    names = list(REQUESTS)
    return [
        Order(
            mark=f"{prefix}-{number}",
            request=rng.choice(names),
            policy=_POLICIES[number % len(_POLICIES)],
            at=rng.uniform(0, span / 2),
            keyed=rng.random() < 0.4,
            way=rng.choice([None, *WAYS]),
            cancel_after=rng.uniform(0, span) if rng.random() < 0.15 else None,
            cancellers=rng.choice([1, 1, 3]),
        )
        for number in range(count)
    ]


class Caller(threading.Thread):
    """Carries out one order against a service that may be gone at any moment."""

    def __init__(self, service: Service, http: httpx.Client, order: Order, abort: threading.Event) -> None:
        super().__init__(name=order.mark, daemon=True)
        self.order = order
        self.task_id: str | None = None
        """Known from the 202 on: from then on the task must never be lost."""

        self.cancel_answers: list[str] = []
        self.faults: list[str] = []
        self.reader: Reader | None = None
        self._service = service
        self._http = http
        self._abort = abort

    def run(self) -> None:
        """Do what was ordered, and note what should not have happened."""
        try:
            self._abort.wait(self.order.at)
            self.task_id = self._submit()
            if self.task_id is None:
                return
            if self.order.way:
                self.reader = Reader(self._service, self._http, self.task_id, self.order.way, self._abort)
                self.reader.start()
            if self.order.cancel_after is not None and not self._abort.wait(self.order.cancel_after):
                cancellers = [threading.Thread(target=self._cancel) for _ in range(self.order.cancellers)]
                for canceller in cancellers:
                    canceller.start()
                for canceller in cancellers:
                    canceller.join()
            if self.order.keyed and (again := self._submit()) != self.task_id:
                self.faults.append(f"the same key brought {again} after {self.task_id}")
        except Exception as error:  # noqa: BLE001 - told with the round's findings
            self.faults.append(f"{type(error).__name__}: {error}")

    def _submit(self) -> str | None:
        """Send the order until it is accepted; without a key, only as long as it cannot have arrived."""
        body = REQUESTS[self.order.request] | {
            "model": MODEL,
            "on_restart": self.order.policy,
            "metadata": {"soak": self.order.mark, "request": self.order.request},
        }
        headers = {"Idempotency-Key": self.order.mark} if self.order.keyed else {}
        while not self._abort.is_set():
            try:
                answer = self._http.post("/v1/tasks", json=body, headers=headers)
            except httpx.ConnectError:
                pass
            except httpx.TransportError:
                if not self.order.keyed:
                    return None
            else:
                if answer.status_code == 202:
                    task_id: str = answer.json()["id"]
                    return task_id
                if answer.status_code != 503:
                    self.faults.append(f"the order was answered {answer.status_code}: {answer.text}")
                    return None
            self._abort.wait(0.1)
        return None

    def _cancel(self) -> None:
        while not self._abort.is_set():
            try:
                answer = self._http.post(f"/v1/tasks/{self.task_id}/cancel")
            except httpx.TransportError:
                pass
            else:
                if answer.status_code == 200:
                    self.cancel_answers.append(answer.json()["status"])
                    return
                if answer.status_code != 503:
                    self.faults.append(f"the cancel was answered {answer.status_code}: {answer.text}")
                    return
            self._abort.wait(0.1)
