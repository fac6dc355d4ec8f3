"""The machine that everything is measured on (Linux)."""

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from models_app.engines.cores import usable_cores


def description() -> dict[str, Any]:
    """Return what the figures depend on besides the service, as JSON has it."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "physical_cores": usable_cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "llama_cpp_python": importlib.metadata.version("llama-cpp-python"),
    }
