"""One engine in this process for all tests that drive it, and real processes for those that need them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from models_app.engines import registry
from models_app.engines.base import EngineAddress, ModelSpec
from models_app.engines.client import EngineUnavailable, HostClient
from models_app.engines.llamacpp import Tokenizer, open_tokenizer
from models_app.engines.llamacpp_context import load
from models_app.engines.scheduler import SlotScheduler
from tests.engines import subjects
from tests.engines.driving import CacheReader, Driver, E
from tests.engines.subjects import Subject
from tests.service import REPOSITORY, demo_model, eventually

StartEngine = Callable[..., EngineAddress]


@pytest.fixture(scope="session")
def spec() -> ModelSpec:
    """The demo model, with one thread: two would wait for each other where tests share the cores."""
    return ModelSpec("demo", str(demo_model()), "sha256:demo", context_length=512, slots=4, threads=1)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return open_tokenizer(demo_model())


@pytest.fixture(scope="session")
def engine(spec: ModelSpec) -> Iterator[SlotScheduler]:
    loaded = load(spec, lambda _progress: None)
    yield loaded
    loaded.close()


@pytest.fixture
def driver(engine: SlotScheduler) -> Iterator[Driver]:
    """Drives the shared engine, and leaves it as empty as it was."""
    yield from _driving(engine)


@pytest.fixture(scope="module")
def model(spec: ModelSpec) -> Iterator[CacheReader]:
    """The demo model without a scheduler, whose caches can be compared."""
    reader = CacheReader(spec)
    yield reader
    reader.close()


@pytest.fixture
def plain(model: CacheReader) -> Driver:
    """An engine over `model` that keeps nothing and is told of nothing before."""
    return Driver(SlotScheduler(model))


@pytest.fixture(scope="module", params=subjects.ENGINES)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """Each engine that this machine can run, for what every engine does."""
    if request.param == "llamacpp":
        yield subjects.llamacpp(request.getfixturevalue("engine"), request.getfixturevalue("tokenizer"))
        return
    if why := registry.why_unavailable(request.param):
        pytest.skip(why)
    loaded = subjects.paper() if request.param == "paper" else subjects.exllamav2(tmp_path_factory.mktemp("exllamav2"))
    yield loaded
    loaded.engine.close()


@pytest.fixture
def subject_driver(subject: Subject) -> Iterator[Driver]:
    """Drives the subject, and leaves it as empty as it was."""
    yield from _driving(subject.engine)


@pytest.fixture
def start_engine(spec: ModelSpec, tmp_path: Path) -> Iterator[StartEngine]:
    """Starts engine processes without a host: `start_engine("--max-outbox", "100", flush_interval=0)`."""
    with _starting(spec, tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def shared_engine(spec: ModelSpec, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineAddress]:
    """An engine process for tests that leave it as it was."""
    with _starting(spec, tmp_path_factory.mktemp("engine")) as start:
        yield start()


def _driving(engine: E) -> Iterator[Driver[E]]:
    assert engine.is_idle
    driving = Driver(engine)
    yield driving
    driving.finish()


@contextmanager
def _starting(spec: ModelSpec, directory: Path) -> Iterator[StartEngine]:
    with ExitStack() as stack:

        def start(*options: str, **changes: object) -> EngineAddress:
            described = json.dumps({**spec.to_dict(), **changes})
            command = [sys.executable, "-m", "models_app.engines.process", "--spec", described]
            command += ["--socket", str(directory / f"engine-{os.urandom(4).hex()}.sock"), *options]
            process = stack.enter_context(subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            reports = map(json.loads, process.stdout)
            report = next(report for report in reports if report["type"] != "loading")
            assert report.pop("type") == "ready", report
            return EngineAddress(**report)

        yield start


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def host(run_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running engine host."""
    command = [sys.executable, "-m", "models_app.engines.host", "--run-dir", str(run_dir)]
    with subprocess.Popen(command, cwd=REPOSITORY) as process:
        eventually(lambda: _answers(run_dir), what="the host answers")
        yield process
        process.kill()


def _answers(run_dir: Path) -> bool:
    try:
        return HostClient(run_dir).ping() > 0
    except EngineUnavailable:
        return False
