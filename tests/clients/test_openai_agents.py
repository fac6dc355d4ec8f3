"""The Agents SDK against the service, in an environment of its own."""

import os
import subprocess
from pathlib import Path

from tests.clients.installing import HERE
from tests.clients.line import Line
from tests.service import MODEL, Service


def test_agents_run_turn_by_turn_streamed_and_whole(agents_python: Path, line: Line, service: Service) -> None:
    done = subprocess.run(
        [agents_python, "-I", HERE / "agents_sdk" / "agents_cases.py"],
        env={**os.environ, "LMSP_URL": f"{line.url}/v1", "LMSP_TOKEN": service.token, "LMSP_MODEL": MODEL},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 7 tests" in done.stderr
    seen = line.check()
    assert min(seen["response"], seen["response.output_text.delta"], seen["error"]) > 1
