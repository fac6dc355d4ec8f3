"""The supervisor over real processes: whatever happens, what should run runs and what should not is gone."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmsp_site.children import Child, ChildSpec
from tests.crash.supervised import FAST, ROOT, Supervised, environment, is_alive
from tests.service import eventually


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    supervised = Supervised(tmp_path)
    yield supervised
    assert supervised.clean_up() == set()


def test_children_start_in_order_and_stop_in_the_opposite_order(supervised: Supervised) -> None:
    supervised.start(first=[], second=[], third=[])

    assert supervised.stop() == 0
    assert [line["child"] for line in supervised.logged("started")] == ["first", "second", "third"]
    assert [name for name, event, _ in supervised.events() if event == "stopped"] == ["third", "second", "first"]
    assert not supervised.living()


def test_a_stop_is_announced_before_the_first_child_is_asked(supervised: Supervised) -> None:
    supervised.start(first=[], second=[])

    supervised.stop()
    after_start = [(name, event) for name, event, _ in supervised.events() if event != "started"]
    assert after_start == [("supervisor", "announced"), ("second", "stopped"), ("first", "stopped")]


def test_a_stop_that_cannot_be_announced_is_a_stop(supervised: Supervised) -> None:
    (supervised.directory / "cannot-announce").touch()
    supervised.start(first=[], second=[])

    assert supervised.stop() == 0
    assert supervised.logged("cannot announce the stop")
    assert [name for name, event, _ in supervised.events() if event == "stopped"] == ["second", "first"]


def test_it_is_ready_once_and_goes_on(supervised: Supervised) -> None:
    supervised.start(only=[])

    eventually((supervised.directory / "ready").exists)
    assert is_alive(supervised.pids("only")[0])


def test_a_child_that_dies_is_restarted_and_the_log_says_how_it_died(supervised: Supervised) -> None:
    supervised.start(victim=[], bystander=[])

    os.kill(supervised.pids("victim")[0], signal.SIGKILL)

    first, second = supervised.restarted("victim")
    assert not is_alive(first)
    assert is_alive(second)
    (line,) = supervised.logged("ended and will be restarted")
    assert (line["child"], line["pid"], line["status"]) == ("victim", first, "signal SIGKILL")
    assert len(supervised.pids("bystander")) == 1


def test_a_child_that_keeps_dying_is_restarted_ever_more_slowly(supervised: Supervised) -> None:
    supervised.start(broken=["crashing"])

    eventually(lambda: len(supervised.pids("broken")) >= 6)
    supervised.stop()
    lines = supervised.logged("ended and will be restarted")
    assert [line["seconds"] for line in lines][:5] == [0.02, 0.04, 0.08, 0.1, 0.1]
    assert {line["status"] for line in lines} == {"exit status 3"}


def test_a_child_that_had_run_for_long_is_restarted_quickly_again(supervised: Supervised) -> None:
    supervised.start(pace=FAST | {"steady_after": 0.0}, broken=["crashing"])

    eventually(lambda: len(supervised.pids("broken")) >= 4)
    supervised.stop()
    assert {line["seconds"] for line in supervised.logged("ended and will be restarted")} == {0.02}


def test_a_program_that_cannot_be_started_is_tried_again(supervised: Supervised, tmp_path: Path) -> None:
    command = supervised.command(later=[])
    description = json.loads(command[-1])
    program = tmp_path / "program"
    description["children"]["later"][0] = str(program)
    with supervised.log.open("ab") as log:
        supervised.process = subprocess.Popen(
            [*command[:-1], json.dumps(description)], cwd=ROOT, stderr=log, env=environment()
        )
    eventually(lambda: len(supervised.logged("cannot start")) > 1)

    program.symlink_to(sys.executable)

    eventually(lambda: supervised.pids("later"))
    assert supervised.stop() == 0


def test_what_a_dead_child_had_started_is_gone_before_the_next_one_starts(supervised: Supervised) -> None:
    supervised.start(victim=["parent"])
    (grandchild,) = eventually(lambda: supervised.pids("victim", "grandchild"))

    os.kill(supervised.pids("victim")[0], signal.SIGKILL)

    supervised.restarted("victim")
    assert not is_alive(grandchild)


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_with_all_it_started(supervised: Supervised) -> None:
    supervised.start(grace=0.6, good=[], stubborn=["stubborn", "parent"])
    eventually(lambda: supervised.pids("stubborn", "grandchild"))
    started = time.monotonic()

    assert supervised.stop() == 0
    assert 0.6 <= time.monotonic() - started < 5
    assert not supervised.living()
    assert [line["child"] for line in supervised.logged("killed")] == ["stubborn"]
    # The one after it had its turn in spite of it.
    assert supervised.pids("good", "stopped")


def test_a_child_that_ends_just_before_it_is_asked_to_stop_is_buried_like_any_other() -> None:
    child = Child(ChildSpec("brief", ["true"]))
    child.start()
    eventually(child.has_ended)

    child.terminate()

    assert child.has_ended()
    assert child.bury() == ("exit status 0", [])


def test_a_second_request_to_stop_kills_at_once(supervised: Supervised) -> None:
    supervised.start(grace=600, stubborn=["stubborn"])

    supervised.process.send_signal(signal.SIGINT)
    eventually(lambda: supervised.logged("stopping"))
    assert supervised.stop(signal.SIGINT) == 0
    assert not supervised.living()


def test_kill_9_of_the_supervisor_leaves_no_child(supervised: Supervised) -> None:
    supervised.start(first=[], second=["stubborn"])
    assert len(supervised.living()) == 2

    supervised.process.kill()

    eventually(lambda: not supervised.living())


def test_a_second_instance_is_refused_and_touches_nothing(supervised: Supervised) -> None:
    supervised.start(only=[])
    before = supervised.events()

    second = subprocess.run(
        supervised.command(only=[]),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )

    assert second.returncode == 1
    assert second.stderr == f"A service runs on this data directory already: process {supervised.process.pid}.\n"
    assert supervised.events() == before
    assert is_alive(supervised.pids("only")[0])


def test_the_lock_is_free_again_when_its_holder_was_killed(supervised: Supervised) -> None:
    supervised.start(only=[])
    supervised.process.kill()
    supervised.process.wait()

    supervised.journal.unlink()
    supervised.start(only=[])
    assert supervised.stop() == 0


def test_a_child_that_stalls_is_restarted(supervised: Supervised) -> None:
    supervised.start(sleepy=[], bystander=[])

    (supervised.directory / "sleepy-stalls").touch()

    first, second = supervised.restarted("sleepy")
    assert supervised.pids("sleepy", "stopped") == [first]
    assert is_alive(second)
    assert [line["pid"] for line in supervised.logged("stalled and will be restarted")] == [first]
    assert len(supervised.pids("bystander")) == 1


def test_a_child_that_stalls_and_ignores_sigterm_is_killed(supervised: Supervised) -> None:
    supervised.start(sleepy=["stubborn", "parent"])
    (grandchild,) = eventually(lambda: supervised.pids("sleepy", "grandchild"))

    (supervised.directory / "sleepy-stalls").touch()

    supervised.restarted("sleepy")
    assert not is_alive(grandchild)
    (line,) = supervised.logged("ended and will be restarted")
    assert line["status"] == "signal SIGKILL"


def test_a_probe_that_fails_restarts_nothing(supervised: Supervised) -> None:
    supervised.start(only=[])

    (supervised.directory / "only-stalls").write_text("no answer")

    eventually(lambda: len(supervised.logged("cannot tell whether it has stalled")) > 1)
    assert len(supervised.pids("only")) == 1


def test_ctrl_c_in_a_terminal_reaches_the_supervisor_alone(supervised: Supervised) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        command = supervised.command(first=[], second=[])
        os.execve(command[0], command, environment())
    try:
        eventually(lambda: supervised.pids("first") and supervised.pids("second"))

        os.write(terminal, b"\x03")

        output = _read_to_the_end(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        os.close(terminal)
    assert "stopped" in output
    assert not [event for event in supervised.events() if event[1] == "interrupted"]
    assert [name for name, event, _ in supervised.events() if event == "stopped"] == ["second", "first"]


def _read_to_the_end(terminal: int) -> str:
    parts: list[bytes] = []
    # Linux reports the closed other side of a terminal as an error.
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65536):
            parts.append(part)
    return b"".join(parts).decode()
