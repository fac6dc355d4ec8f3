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

from bench import findings, plots, prompts, report, stalls, table_sizes
from bench.client import Answer, CallError
from bench.findings import Finding
from bench.growth.series import LINEAR, Series, exponent
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


class TestGrowth:
    @pytest.mark.parametrize("power", [-0.5, 0, 1, 2])
    def test_the_exponent_is_the_power_of_the_size(self, power: float) -> None:
        assert exponent([(size, 3 * size**power) for size in (1_000, 10_000, 100_000)]) == pytest.approx(power)

    def test_every_point_counts(self) -> None:
        assert exponent([(1, 1), (10, 100), (100, 10)]) == pytest.approx(0.5)

    @pytest.mark.parametrize("points", [[], [(10, 1.0)], [(10, 1.0), (10, 2.0)], [(10, 1.0), (100, 0.0)]])
    def test_what_has_no_logarithm_or_one_size_has_no_exponent(self, points: list[tuple[float, float]]) -> None:
        with pytest.raises(ValueError, match="above zero at two sizes"):
            exponent(points)

    def test_its_finding_has_the_points(self) -> None:
        points = [(10, 1.0), (100, 20.0)]
        found = Series("x", "reading", "pages", "ms", points, LINEAR).finding(seconds=1.0, foreign_cores=0.0)

        assert found.is_met is False
        assert found.to_dict()["growth"]["points"] == [[10, 1.0], [100, 20.0]]
        assert "1.30 exponent" in report.line(found)


def outcome_of_growth() -> dict[str, Any]:
    series = [
        Series("a", "reading", "pages kept", "ms", [(10, 1.5), (100, 14.0), (1000, 160.0)], LINEAR),
        Series("b", "finding one", "pages kept", "ms", [(10, 1.0), (100, 1.0), (1000, 1.0)], LINEAR),
        Series("c", "memory", "readers", "kB", [(1, 40.0), (10, 400.0)], LINEAR),
    ]
    found = {each.name: each.finding(seconds=1.0, foreign_cores=0.0).to_dict() for each in series}
    return {"findings": {**found, "other": Finding("other", "x", 1, "", 1, is_ceiling=False).to_dict()}}


class TestPlots:
    def test_there_is_a_figure_for_each_kind_of_size(self, tmp_path: Path) -> None:
        files = plots.draw(outcome_of_growth(), tmp_path / "figures")

        assert [file.name for file in files] == ["growth_pages_kept.svg", "growth_readers.svg"]
        drawn = files[0].read_text()
        assert all(f">{text}<" in drawn for text in ("pages kept", "ms", "reading (+1.01)", "finding one (+0.00)"))

    def test_the_same_figures_make_the_same_files(self, tmp_path: Path) -> None:
        first, second = (plots.draw(outcome_of_growth(), tmp_path / name) for name in ("first", "second"))

        assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]

    def test_without_growth_it_says_how_to_measure_it(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="--only growth"):
            plots.draw({"findings": {}}, tmp_path)


class TestTableSizes:
    def test_an_index_counts_to_its_table_and_what_has_not_grown_is_left_out(self, tmp_path: Path) -> None:
        database = tmp_path / "db.sqlite3"
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE kept (value TEXT UNIQUE)")
            connection.execute("CREATE TABLE empty (value TEXT)")
            before = table_sizes.read(database)
            with connection:
                connection.executemany("INSERT INTO kept VALUES (?)", [(f"{n:01000d}",) for n in range(100)])
            grown = table_sizes.grown(before, table_sizes.read(database))

        assert list(grown) in (["kept"], [table_sizes.ALL])
        # The rows and the entries of the index, each with a thousand bytes of its own.
        assert sum(grown.values()) > 200_000


def test_no_two_prompts_begin_alike() -> None:
    some = prompts.stories()
    beginnings = [next(some)[-1]["content"][:8] for _ in range(200)]

    assert len(set(beginnings)) == len(beginnings)
