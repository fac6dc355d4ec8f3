"""What this machine has and lacks."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from lmsp_site.bootstrap.problem import AGAIN, SetupError

_GIB = 1 << 30
# At the peak: the environment and the demo model, the build of llama.cpp or the unpacking of torch, pip's cache.
_SPACE_CPU = (0.8 * _GIB, 0.5 * _GIB, 0.2 * _GIB)
_SPACE_GPU = (7.0 * _GIB, 3.0 * _GIB, 3.0 * _GIB)


def has_gpu() -> bool:
    """Tell whether there is an NVIDIA GPU that is to be used (``LMSP_GPU=no`` says that it is not)."""
    if os.environ.get("LMSP_GPU", "").lower() in {"0", "no", "off", "false"}:
        return False
    if any(Path("/proc/driver/nvidia/gpus").glob("*")):
        return True
    # Virtual machines of another system show the GPU through this program alone.
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    answer = subprocess.run([program, "--list-gpus"], capture_output=True, text=True, check=False, timeout=30)
    return answer.returncode == 0 and "GPU " in answer.stdout


def require_compiler() -> None:
    """Make sure that llama.cpp can be compiled.

    Raises:
        SetupError: there is no C++ compiler.
    """
    named = os.environ.get("CXX", "").split()[:1]
    if not any(shutil.which(name) for name in [*named, "c++", "g++", "clang++"]):
        raise SetupError(
            "There is no C++ compiler, and llama.cpp is compiled for this machine: install one "
            f"(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), {AGAIN}."
        )


def require_space(root: Path, *, gpu: bool) -> None:
    """Make sure that an installation fits on the disk.

    Raises:
        SetupError: it does not.
    """
    cache = Path(os.environ.get("PIP_CACHE_DIR") or Path.home() / ".cache")
    places = (root, Path(tempfile.gettempdir()), cache if cache.exists() else Path.home())
    needed: Counter[int] = Counter()
    for place, size in zip(places, _SPACE_GPU if gpu else _SPACE_CPU, strict=True):
        needed[place.stat().st_dev] += int(size)
    for place in places:
        free, wanted = shutil.disk_usage(place).free, needed[place.stat().st_dev]
        if free < wanted:
            raise SetupError(
                f"The disk that holds {place} has {free / _GIB:.1f} GiB free and the installation needs "
                f"{wanted / _GIB:.1f} GiB: make room, {AGAIN}."
            )


def processor() -> str:
    """Return what programs compiled for this processor depend on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    # "flags" on x86, "Features" on Arm.
    return next((line for line in lines if line.startswith(("flags", "Features"))), "unknown")


def compiler_flags(processor: str) -> str:
    """Return what the C and C++ compilers are told for a processor, beside what a build tells them (decision 0019)."""
    return "-fno-dse" if "amx_tile" in processor.split() else ""


def digest(*parts: object) -> str:
    """Return one name for all of these."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
