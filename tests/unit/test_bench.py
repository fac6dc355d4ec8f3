"""The bench: the raw loop owes the service nothing, and what is said of the figures is right."""

import ast
import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench import findings, prompts, report, stalls
from bench.client import Answer, CallError
from bench.findings import Finding
from bench.raw import PROGRAM, RawLoop
from tests.service import eventually

ROOT = Path(__file__).parent.parent.parent

SYSTEM = [{"role": "system", "content": "You are a helpful AI assistant named SmolLM, trained by Hugging Face"}]

# Everything that lies in the project and can be imported, the bench itself among it.
OURS = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}


def imported_modules(program: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(str(node.module).partition(".")[0])
    return found


class TestTheRawLoopStandsAlone:
    def test_its_source_imports_the_library_numpy_and_the_standard_library(self) -> None:
        foreign = imported_modules(PROGRAM) - sys.stdlib_module_names

        assert foreign == {"llama_cpp", "numpy"}

    def test_nothing_of_ours_is_in_its_process(self) -> None:
        report_modules = (
            "import runpy, sys\n"
            "sys.argv = [sys.argv[1], '--help']\n"
            "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
            "except SystemExit: pass\n"
            "print(*{name.partition('.')[0] for name in sys.modules})"
        )
        # From the project's directory, where everything of ours could be imported.
        done = subprocess.run(
            [sys.executable, "-c", report_modules, str(PROGRAM)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = set(done.stdout.splitlines()[-1].split())

        assert "llama_cpp" in loaded
        assert len(OURS) >= 5
        # Django itself may be there: a cache that llama_cpp imports offers to work with it.
        assert not loaded & (OURS | {"rest_framework", "channels", "django_q"})


@pytest.fixture(scope="module")
def raw_loop(model_path: Path) -> Any:
    with RawLoop(model_path, threads=1, sequences=2, context_length=256) as running:
        yield running


class TestTheRawLoopDecodes:
    def test_one_sequence(self, raw_loop: RawLoop) -> None:
        prompt = raw_loop.tokenize([*SYSTEM, {"role": "user", "content": "Say hello."}])
        result = raw_loop.generate([prompt], 6)

        assert len(result["tokens"][0]) == 6
        assert result["texts"][0].startswith("Hello")
        assert 0 < result["first_token"] <= result["prefill"] < result["seconds"]

    def test_sequences_side_by_side_say_what_they_say_alone(self, raw_loop: RawLoop) -> None:
        some = prompts.stories()
        both = [raw_loop.tokenize(next(some)) for _ in range(2)]
        alone = [raw_loop.generate([prompt], 6)["tokens"][0] for prompt in both]

        assert raw_loop.generate(both, 6)["tokens"] == alone

    def test_it_ends_where_the_model_does(self, raw_loop: RawLoop) -> None:
        prompt = raw_loop.tokenize([*SYSTEM, {"role": "user", "content": "Hi"}])

        assert len(raw_loop.generate([prompt], 100)["tokens"][0]) < 100


class TestAnAnswer:
    def test_its_text_is_that_of_its_deltas(self) -> None:
        answer = Answer(began=0.0)
        for delta in ("One", " two"):
            answer.take({"type": "response.output_text.delta", "delta": delta})
        usage = {"input_tokens": 3, "output_tokens": 2}
        answer.take({"type": "response.incomplete", "response": {"status": "incomplete", "usage": usage}})
        answer.check()

        assert answer.text == "One two"
        assert (answer.input_tokens, answer.output_tokens) == (3, 2)
        assert 0 < answer.first_token < answer.seconds

    @pytest.mark.parametrize("events", [[], [{"type": "response.failed", "response": {"status": "failed"}}]])
    def test_one_that_failed_is_no_measurement(self, events: list[dict[str, Any]]) -> None:
        answer = Answer(began=0.0)
        for event in events:
            answer.take(event)

        with pytest.raises(CallError):
            answer.check()


class TestAStall:
    def test_it_lies_inside_of_one_stream_and_of_what_was_done(self) -> None:
        first, second = [9.0, 10.0, 10.5], [12.0, 12.25, 13.0]

        assert stalls.gaps_between([first, second], 10.0, 12.5) == [(0.5, 500.0), (2.25, 250.0)]

    def test_the_longest_is_told_and_that_of_each_ten_seconds(self) -> None:
        gaps = [(1.0, 30.0), (2.0, 40.0), (12.0, 20.0), (22.0, 400.0)]
        told = stalls.Stalls(25.0, gaps, [0.1, 0.2, 9.0], 0.0).to_dict()

        assert (told["gap_ms"]["most"], told["writer_wait_ms"]["most"]) == (400.0, 9.0)
        assert told["longest_gap_of_10_s_ms"] == 40.0

    def test_a_writer_that_waits_for_another_is_seen(self, tmp_path: Path) -> None:
        database = tmp_path / "db.sqlite3"

        def longest_wait() -> float:
            with closing(sqlite3.connect(database, isolation_level=None)) as other, stalls.LockProbe(database) as probe:
                other.execute("BEGIN IMMEDIATE")
                # Not waited for: it is what has to be measured.
                threading.Event().wait(0.3)
                other.execute("ROLLBACK")
            return max(probe.waits, default=0.0)

        # A busy machine may keep the probe from coming in time.
        eventually(lambda: longest_wait() > 100, 60, "a wait of 0.3 s is seen")


class TestAFinding:
    @pytest.mark.parametrize(
        ("value", "is_ceiling", "met"),
        [(0.96, False, True), (0.94, False, False), (0.94, True, True), (0.96, True, False)],
    )
    def test_a_floor_is_reached_and_a_ceiling_kept(self, value: float, is_ceiling: bool, met: bool) -> None:
        assert Finding("x", "x", value, "", 0.95, is_ceiling).is_met is met

    def test_its_json_begins_with_what_counts(self) -> None:
        found = Finding("x", "x", 0.96, "", 0.95, is_ceiling=False, detail={"ratios": [0.96]})

        assert next(iter(json.loads(json.dumps(found.to_dict())))) == "value"

    def test_a_busy_machine_is_told(self) -> None:
        quiet = {"foreign_cores": {"service": 0.02, "raw loop": 0.01}}
        busy = {"foreign_cores": {"service": 0.02, "raw loop": 0.70}}

        assert "care" not in report.table([Finding("x", "x", 1, "", 1, is_ceiling=False, detail=quiet)])
        assert "0.7 cores" in report.table([Finding("x", "x", 1, "", 1, is_ceiling=False, detail=busy)])

    def test_the_spread_is_told_with_the_median(self) -> None:
        assert findings.spread([3, 1, 2]) == {"median": 2, "least": 1, "most": 3}


def test_no_two_prompts_begin_alike() -> None:
    some = prompts.stories()
    beginnings = [next(some)[-1]["content"][:8] for _ in range(200)]

    assert len(set(beginnings)) == len(beginnings)
