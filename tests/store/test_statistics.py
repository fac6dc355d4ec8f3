"""What is counted, in the transaction of what it counts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection, transaction

from clients_app.models import Client
from lmsp_site.models import RestartPolicy
from tasks_app import audit, lifecycle, recovery, retention, statistics, transitions
from tasks_app.lifecycle import Orphan
from tasks_app.metrics import exposition
from tasks_app.models import Statistic, Task
from tasks_app.output import Output
from tasks_app.states import FINISHED, RECOVERY, UNFINISHED, Status
from tasks_app.statistics import Counter, Counts
from tests.store.tasks import finish, new_task, put, recover, running, say


@pytest.fixture(autouse=True)
def _audited(database: Path) -> Iterator[None]:
    yield
    assert audit.audit(database)["violations"] == []


def sums() -> dict[tuple[str, str], float]:
    return {(name, labels): value for name, labels, value in Statistic.objects.values_list("name", "labels", "value")}


def counted(counter: Counter) -> dict[tuple[str, ...], float]:
    """Return what `/metrics` tells of a counter."""
    return exposition.take()[counter]


def test_the_same_series_is_one_sum_whoever_adds_to_it(client: Client) -> None:
    for by in (1, 2.5):
        counts: Counts = {}
        statistics.count(counts, statistics.OUTPUT_TOKENS, "m", by=by)
        statistics.count(counts, statistics.OUTPUT_TOKENS, 'a "model"', by=1)
        statistics.flush(counts)
        assert counts == {}
    assert sums() == {
        (statistics.OUTPUT_TOKENS.name, '["m"]'): 3.5,
        (statistics.OUTPUT_TOKENS.name, '["a \\"model\\""]'): 2,
    }


def test_a_count_cannot_be_written_outside_the_transaction_of_what_it_counts(client: Client) -> None:
    with pytest.raises(AssertionError):
        statistics.add({(statistics.RESUMES.name, ("true",)): 1})


def test_each_end_is_counted_once(client: Client) -> None:
    for status in FINISHED:
        put(new_task(client), status)
    task, run = running(client)
    output = Output.of(task.id)
    closing = [*output.write("Cut"), *output.close("incomplete")]
    lifecycle.complete(run, 0, [7], [1], closing, output, "max_output_tokens")
    assert not lifecycle.fail(task.id, "too", "late")
    assert lifecycle.cancel(task.id) is Status.COMPLETED
    assert counted(statistics.TASKS_FINISHED) == {
        ("m", "completed", ""): 1,
        ("m", "completed", "max_output_tokens"): 1,
        ("m", "failed", "engine_died"): 1,
        ("m", "cancelled", ""): 1,
    }
    assert counted(statistics.TASKS_CREATED) == {("m", "normal"): 4}
    assert counted(statistics.INPUT_TOKENS) == {("m",): 12}


def test_a_change_that_is_rolled_back_has_counted_nothing(client: Client) -> None:
    task, run = running(client)
    say(run, "Some", " text")
    before = sums()
    observed: Counts = {(statistics.COMMIT.sum, ()): 1.0}
    output = Output.of(task.id)
    with transaction.atomic():
        lifecycle.complete(run, 2, [], [], output.close("completed"), output, None, observed)
        assert sums() != before
        transaction.set_rollback(True)
    assert sums() == before
    assert observed, "what was measured goes with another transaction"


def test_a_change_whose_event_is_refused_has_counted_nothing(client: Client) -> None:
    task, _ = running(client)
    before = sums()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TRIGGER refusal BEFORE INSERT ON task_events BEGIN SELECT RAISE(ABORT, 'refused'); END")
    with pytest.raises(Exception, match="refused"):
        lifecycle.fail(task.id, "code", "message")
    assert sums() == before


def test_a_plan_that_came_too_late_has_counted_nothing(client: Client) -> None:
    task, _ = running(client, on_restart="fail")
    before = sums()
    orphans = [Orphan(*Task.objects.values_list(*Orphan._fields).get(pk=task.pk))]
    late = lifecycle.plan_restart_policy(orphans, "worker_died", "gone")
    lifecycle.cancel(task.id)
    assert not transitions.carry_out(late)
    assert sums() == before


def test_what_a_run_has_measured_is_written_with_its_end(client: Client) -> None:
    task, run = running(client)
    observed: Counts = {}
    for seconds in (0.0004, 0.0005, 0.2, 99.0):
        statistics.observe(observed, statistics.COMMIT, seconds)
    output = Output.of(task.id)
    lifecycle.complete(run, 0, [7], [1], [*output.write("Hi"), *output.close("completed")], output, None, observed)
    found = exposition.take()[statistics.COMMIT]
    assert found.pop((statistics.COMMIT.sum,)) == pytest.approx(99.2009)
    assert found == {
        (statistics.COMMIT.buckets, "0.0005"): 2,
        (statistics.COMMIT.buckets, "0.25"): 1,
        (statistics.COMMIT.buckets, "+Inf"): 1,
    }
    text = exposition.encode("")[0].decode()
    for bound, below in (("0.0005", 2), ("0.1", 2), ("0.25", 3), ("5.0", 3), ("+Inf", 4)):
        assert f'lmsp_commit_seconds_bucket{{le="{bound}"}} {below}.0\n' in text
    assert "lmsp_commit_seconds_count 4.0\n" in text


def test_generated_tokens_never_become_fewer(client: Client) -> None:
    """Of an unfinished task they are read from its row, and counted when they leave it."""
    task, run = running(client, on_restart="retry")
    say(run, "In", " vain")
    assert counted(statistics.OUTPUT_TOKENS) == {("m",): 2}
    recover(task, "worker_died")
    assert counted(statistics.OUTPUT_TOKENS) == {("m",): 2}
    again = lifecycle.claim(Task.objects.get(pk=task.pk), "another", "", loaded=True)
    assert again is not None
    say(again, "Anew")
    assert counted(statistics.OUTPUT_TOKENS) == {("m",): 3}
    finish(again, ".")
    assert counted(statistics.OUTPUT_TOKENS) == {("m",): 4}
    assert counted(statistics.INPUT_TOKENS) == {("m",): 3}, "of the first claim alone"


def test_a_wait_ends_with_the_first_claim(client: Client) -> None:
    task, _ = running(client, on_restart="retry", priority=2)
    recover(task, "worker_died")
    assert lifecycle.claim(Task.objects.get(pk=task.pk), "another", "", loaded=True)
    found = exposition.take()[statistics.TASK_WAIT]
    assert {key[1]: value for key, value in found.items() if key[0] == statistics.TASK_WAIT.buckets} == {"batch": 1}
    assert 0 < found[statistics.TASK_WAIT.sum, "batch"] < 30


@pytest.mark.parametrize("exact", [True, False])
def test_resumes_are_counted_by_whether_they_are_exact(client: Client, *, exact: bool) -> None:
    task, run = running(client)
    say(run, "Once")
    recover(task, "worker_died")
    assert counted(statistics.RESUMES) == {("true",): 0, ("false",): 0}
    assert lifecycle.claim(Task.objects.get(pk=task.pk), "another", "", loaded=True, exact=exact)
    assert counted(statistics.RESUMES) == {("true",): exact, ("false",): not exact}


def test_a_recovery_counts_what_it_changes(client: Client) -> None:
    for policy in RestartPolicy:
        for status in UNFINISHED:
            put(new_task(client, on_restart=policy), status)
    recovery.recover_all()
    stays = {(Status.QUEUED, policy) for policy in (RestartPolicy.RETRY, RestartPolicy.RESUME)}
    assert counted(statistics.TASKS_RECOVERED) == {
        ("server_restarted", status, policy, RECOVERY[status][policy]): 1
        for policy in RestartPolicy
        for status in UNFINISHED
        if (status, policy) not in stays
    }
    assert counted(statistics.TASKS_FINISHED) == {
        ("m", "failed", "server_restarted"): 3,
        ("m", "cancelled", ""): 3,
    }
    before = sums()
    recovery.recover_all()
    assert sums() == before


def test_a_purge_takes_no_count_back(client: Client) -> None:
    task, run = running(client)
    finish(run, "Done.")
    before = exposition.take()
    assert retention.forget(task.id)
    after = exposition.take()
    for counter in statistics.COUNTERS:
        assert after.get(counter) == before.get(counter)
    assert before[statistics.OUTPUT_TOKENS] == {("m",): 1}
