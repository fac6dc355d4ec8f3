"""Whether the compiled engine runs on this processor.

llama.cpp is compiled for the processor it is compiled on. A wheel from pip's cache, or an environment on a disk, may
come from another machine; its first illegal instruction would end the engine in the middle of a task.
"""

import re
from pathlib import Path
from signal import SIGILL

from lmsp_site.bootstrap import machine, step
from lmsp_site.bootstrap.environment import CPU_REQUIREMENTS, Environment
from lmsp_site.bootstrap.problem import SetupError

_RECORD = "engine"
_TITLE = "Trying the engine"
# Long enough a prompt for the kernels that work on many rows, which are others than those for one.
_TRIAL = """
import sys
from llama_cpp import Llama
Llama(sys.argv[1], n_ctx=128, verbose=False)("Hello" * 40, max_tokens=2)
"""


def is_tried(environment: Environment) -> bool:
    """Tell whether the installed engine has run on this processor."""
    return environment.recorded().get(_RECORD) == _subject(environment)


def try_out(environment: Environment, model: Path) -> None:
    """Read a prompt and generate two tokens with the engine, and compile it anew if this processor cannot run it.

    Raises:
        SetupError: it does not work, compiled here or not.
    """
    command = [str(environment.python), "-c", _TRIAL, str(model)]
    try:
        step.run(_TITLE, command, environment.log)
    except step.StepError as failure:
        if failure.returncode != -SIGILL:
            raise _failed(environment) from None
        _compile_again(environment)
        try:
            step.run(_TITLE, command, environment.log)
        except step.StepError:
            raise _failed(environment) from None
    environment.record({_RECORD: _subject(environment)})


def _compile_again(environment: Environment) -> None:
    requirement = re.search(
        r"^(llama-cpp-python)==\S+", (environment.root / CPU_REQUIREMENTS).read_text(), re.MULTILINE
    )
    assert requirement
    environment.pip(
        "Compiling llama.cpp for this processor",
        "install",
        "--force-reinstall",
        "--no-deps",
        f"--no-binary={requirement[1]}",
        "--no-cache-dir",
        requirement[0],
    )


def _failed(environment: Environment) -> SetupError:
    return SetupError(f"The engine does not run on this machine; what it said is in {environment.log}.")


def _subject(environment: Environment) -> str:
    # The library's own times: an engine that is installed anew is tried anew.
    libraries = sorted(environment.directory.glob("lib/python*/site-packages/llama_cpp/lib/*.so"))
    return machine.digest(_TRIAL, machine.processor(), *(library.stat().st_mtime_ns for library in libraries))
