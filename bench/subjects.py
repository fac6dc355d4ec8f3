"""What is measured: the running service, and the raw loop with the very settings that the service runs with."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.prompts import Chat, stories
from bench.raw import RawLoop
from bench.service import Service, in_django
from models_app.engines.cores import usable_cores

_WARM_UP_TOKENS = 32
_EVENTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure.

    Attributes:
        model: the model file.
        threads: of the engine; 0 leaves the choice to the service.
        max_running: how many tasks the service runs at once.
        tokens: how many each response has.
        rounds: how often each comparison of speeds is repeated.
        samples: how often that of first tokens is.
        patience: seconds for which each comparison waits for a quiet machine, and repeats what others disturbed.
        purge_seconds: after which a purge is broken off.
        growth_steps: at how many sizes growth is measured, each ten times the one before.
    """

    model: Path
    threads: int
    max_running: int
    tokens: int
    rounds: int
    samples: int
    patience: float
    purge_seconds: float
    growth_steps: int


class Subjects:
    """Both sides, and prompts for them. Raw loops run only while they are needed: they are not part of the service."""

    def __init__(self, options: Options, directory: Path) -> None:
        self.options = options
        self.service = Service(
            directory / "data",
            options.model,
            LMSP_MAX_RUNNING=str(options.max_running),
            LMSP_ENGINE_THREADS=str(options.threads),
        )
        self.engine: dict[str, Any] = {}
        """What the service's engine says of itself."""

        self._prompts = stories()
        self._raw: dict[int, RawLoop] = {}
        """By the threads that they have."""

        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.service)
        try:
            # One has the model loaded; then every worker runs something.
            for count in (1, self.options.max_running):
                self.service.respond(self.prompts(count), _WARM_UP_TOKENS)
            self.engine = self.service.engine()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def threads(self) -> int:
        """What is compared with the service has so many."""
        return self.options.threads or usable_cores()

    @property
    def raw(self) -> RawLoop:
        """The raw loop with as many threads as the engine has, or with all cores where that chooses."""
        return self._raw_loop(self.threads)

    @property
    def raw_on_all_cores(self) -> RawLoop | None:
        """The raw loop with a thread for each core; None where the other one has as many."""
        cores = usable_cores()
        return self._raw_loop(cores) if cores != self.threads else None

    def raw_cpu(self) -> float:
        """Return the processor time that the raw loops have used, in seconds."""
        return sum(loop.cpu() for loop in self._raw.values())

    def prompts(self, count: int) -> list[Chat]:
        """Return prompts that were never used before."""
        return [next(self._prompts) for _ in range(count)]

    def fill(self) -> dict[str, Any]:
        """Have old finished tasks with a million events in the service's database, and all of it in its file."""
        filled = in_django(self.service.data_dir, "old_tasks", f"fill({_EVENTS})")
        self.service.empty_log()
        return filled

    def stop_raw_loops(self) -> None:
        """End the raw loops, so that nothing shares its memory with the service."""
        while self._raw:
            self._raw.popitem()[1].__exit__()

    def _raw_loop(self, threads: int) -> RawLoop:
        """Start a raw loop and warm it up when it is first asked for."""
        if threads not in self._raw:
            # The very file that the engine has: how a file lies in the page cache makes a decode up to a tenth faster.
            loop = self._stack.enter_context(
                RawLoop(
                    self.service.model_file,
                    threads=threads,
                    sequences=self.engine["slots"],
                    context_length=self.engine["context_length"],
                )
            )
            self._raw[threads] = loop
            loop.generate([loop.tokenize(next(self._prompts))], _WARM_UP_TOKENS)
        return self._raw[threads]
