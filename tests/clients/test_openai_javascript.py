"""The official `openai` package for JavaScript, unmodified, on Node."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.line import Line
from tests.service import MODEL, Service


@pytest.fixture(scope="module")
def reader(service: Service) -> str:
    """The token of a client that may read models and nothing else."""
    return service.pair("javascript-reader", "models:read")


@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        ("responses", ["response", "response.compaction", "response.input_tokens", "list", "model", "error"]),
        ("streams", ["response.output_text.delta", "response.incomplete", "response.cancelled", "error"]),
        ("errors", ["error", "response"]),
    ],
)
def test_the_javascript_client(
    node_tests: Path, line: Line, service: Service, reader: str, script: str, kinds: list[str]
) -> None:
    done = subprocess.run(
        ["node", "--test", f"{script}.test.mjs"],
        cwd=node_tests,
        env={
            **os.environ,
            "LMSP_URL": f"{line.url}/v1",
            "LMSP_TOKEN": service.token,
            "LMSP_READER_TOKEN": reader,
            "LMSP_MODEL": MODEL,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = line.check()
    assert [kind for kind in kinds if not seen[kind]] == []
