"""Whether exllamav2 can run here, told by files: importing it takes seconds and fails without CUDA."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

_PACKAGES = ("torch", "exllamav2", "tokenizers")
_INSTALL = "install requirements.txt instead of requirements-cpu.txt"


def why_unavailable(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> str | None:
    """Say what is missing, the simplest to tell first; ``None`` where nothing is."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    # Some of its wheels bring the kernels along.
    is_compiled = importlib.util.find_spec("exllamav2_ext") is not None
    can_compile = is_compiled or has_compiler(environment or os.environ)
    return missing_parts(missing, has_gpu=has_gpu(root), has_compiler=can_compile)


def missing_parts(packages: list[str], *, has_gpu: bool, has_compiler: bool) -> str | None:
    """Put into words what is missing of packages, device and toolkit."""
    if not has_gpu:
        return "The engine exllamav2 is unavailable: there is no NVIDIA GPU that CUDA could use."
    if packages:
        return f"The engine exllamav2 is unavailable: {', '.join(packages)} not installed; {_INSTALL}."
    if not has_compiler:
        return "The engine exllamav2 is unavailable: it compiles its kernels, and CUDA_HOME names no toolkit with nvcc."
    return None


def has_gpu(root: Path) -> bool:
    """Whether the driver has made a device."""
    return any((root / "dev").glob("nvidia[0-9]*")) or (root / "dev/dxg").exists()


def has_compiler(environment: Mapping[str, str]) -> bool:
    """Whether the toolkit that compiles the kernels when they are first used is there."""
    home = environment.get("CUDA_HOME") or environment.get("CUDA_PATH")
    if home and (Path(home) / "bin/nvcc").is_file():
        return True
    return shutil.which("nvcc", path=environment.get("PATH")) is not None or Path("/usr/local/cuda/bin/nvcc").is_file()
