"""Whoever holds a task hears at once that somebody else has changed it."""

from clients_app.models import Client
from tasks_app import lifecycle, ownership, wakeup
from tests.store.tasks import new_task

_OWNER = "worker-999999999-0123456789ab"


def test_a_cancel_wakes_the_worker_that_holds_the_task(client: Client) -> None:
    with wakeup.Listener.for_owner(_OWNER) as mine, wakeup.Listener.for_owner(f"{_OWNER[:-1]}c") as others:
        task = new_task(client)
        assert lifecycle.claim(task, _OWNER, "job", loaded=True)
        assert not mine.take()
        lifecycle.cancel(task.id)
        assert mine.wait(1)
        assert not others.take()


def test_what_a_worker_does_itself_does_not_wake_it(client: Client) -> None:
    with wakeup.Listener.for_owner(ownership.own_name()) as mine:
        task = new_task(client)
        run = lifecycle.claim(task, ownership.own_name(), "job", loaded=False)
        assert run is not None
        lifecycle.start(run)
        lifecycle.fail(task.id, "engine_died", "gone", attempt=run.attempt)
        assert not mine.take()


def test_a_dead_worker_leaves_nothing_behind(client: Client) -> None:
    listener = wakeup.Listener.for_owner(_OWNER)
    directory = wakeup._directory()
    assert list(directory.glob("w456789ab-*"))
    ownership._directory().joinpath(_OWNER).touch()
    ownership.forget_dead()
    assert not list(directory.glob("w456789ab-*"))
    listener.close()
