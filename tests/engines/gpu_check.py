"""`python -m tests.engines.gpu_check`: the contract suite and a bench of exllamav2, on a machine with an NVIDIA GPU.

Makes a tiny random model, unless LMSP_TEST_EXL2 names a folder. Needs what `requirements.txt` names and a CUDA toolkit;
exit status 2 says what is missing, 1 that a test has failed. Prints one JSON object, with the machine's name.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from models_app.engines import exllamav2_presence
from models_app.engines.base import GenerateRequest
from models_app.engines.sampling import SamplingParams
from tests.engines import subjects, tiny_model
from tests.engines.driving import Driver

_REPOSITORY = Path(__file__).parents[2]
_CONTRACT = ("tests/engines/test_contract.py", "tests/engines/test_contract_choice.py")
_TOKENS = 256
_PROMPT = "Tell me about the sea. " * 20


def main() -> None:
    """Check and measure."""
    if missing := exllamav2_presence.why_unavailable():
        print(missing, file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory(prefix="lmsp-gpu-") as directory:
        os.environ.setdefault(subjects.FOLDER, str(tiny_model.build(Path(directory) / "tiny")))
        # In a process of its own: it gives the GPU back before anything is measured.
        suite = [sys.executable, "-m", "pytest", *_CONTRACT, "-k", "exllamav2", "-q"]
        passed = subprocess.run(suite, cwd=_REPOSITORY, check=False).returncode == 0
        print(json.dumps({"machine": platform.node(), "contract_suite_passed": passed, **_measure(Path(directory))}))
    sys.exit(0 if passed else 1)


def _measure(directory: Path) -> dict[str, Any]:
    began = time.monotonic()
    subject = subjects.exllamav2(directory)
    loaded = time.monotonic() - began
    prompt = subject.encode(_PROMPT)[: subject.engine.context_length - _TOKENS]
    request = GenerateRequest(prompt, SamplingParams(temperature=1.0, seed=1), max_tokens=_TOKENS)
    driver = Driver(subject.engine)
    driver.run_alone(request)  # kernels are chosen when they are first used
    speeds = {str(count): _speed(driver, [request] * count) for count in (1, subject.engine.slots)}
    facts = subject.engine.info()
    subject.engine.close()
    return {
        "model": os.environ[subjects.FOLDER],
        "load_seconds": round(loaded, 2),
        "prompt_tokens": len(prompt),
        "tokens_per_second": speeds,
        **{name: facts[name] for name in ("devices", "device_bytes", "paged", "slots")},
    }


def _speed(driver: Driver, requests: list[GenerateRequest]) -> float:
    began = time.monotonic()
    outcomes = driver.run(*requests)
    return round(sum(len(outcome.tokens) for outcome in outcomes) / (time.monotonic() - began), 1)


if __name__ == "__main__":
    main()
