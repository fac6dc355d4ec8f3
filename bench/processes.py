"""What the processes of the service cost: memory and processor time, by what they are (Linux)."""

import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")

_ROLES = {
    "models_app.engines.process": "engine",
    "models_app.engines.host": "engine host",
    "daphne": "web",
    "run_workers": "workers",
    "serve": "supervisor",
}
"""What stands in a process's command line, and what that makes it; the first that fits."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment.

    `cpu` in seconds, memory in bytes; `waits`: how often it went to sleep; `written`: bytes that it has sent to a disk.
    """

    pid: int
    role: str
    cpu: float
    waits: int
    written: int
    pss: int
    rss: int


def of_service(data_dir: Path, *, memory: bool = False) -> list[Process]:
    """Return all processes that serve a data directory: they inherit its name. Memory is 0 unless asked for."""
    marker = f"LMSP_DATA_DIR={data_dir}".encode()
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            try:
                if marker in (directory / "environ").read_bytes().split(b"\0"):
                    found.append(_read(directory, memory=memory))
            except OSError:
                continue  # it has ended, or is another user's
    return found


def cpu_of(pid: int) -> float:
    """Return the processor time that a process has used, in seconds, that of its threads included."""
    # The second field is the program's name, in parentheses, and may hold any character.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def machine_cpu() -> float:
    """Return the processor time, in seconds, that was used on this machine since it started, or kept from it."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS


def end(process: subprocess.Popen[str]) -> None:
    """End a process that does so when its stdin does, and wait for it."""
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    process.stdout.close()
    process.wait()


def by_role(processes: list[Process], field: str) -> dict[str, float]:
    """Sum one field of the processes over each role."""
    sums: defaultdict[str, float] = defaultdict(float)
    for process in processes:
        sums[process.role] += getattr(process, field)
    return dict(sums)


def _read(directory: Path, *, memory: bool) -> Process:
    pid = int(directory.name)
    command = (directory / "cmdline").read_bytes().decode("utf-8", "replace")
    role = next((role for part, role in _ROLES.items() if part in command), "other")
    sizes = _memory(directory) if memory else {}
    return Process(
        pid, role, cpu_of(pid), _waits(directory), _written(directory), sizes.get("Pss", 0), sizes.get("Rss", 0)
    )


def _waits(directory: Path) -> int:
    """Count over all threads: the process's own line is that of its first thread only."""
    count = 0
    for thread in (directory / "task").iterdir():
        for line in (thread / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                count += int(line.split()[1])
    return count


def _written(directory: Path) -> int:
    """Return 0 where the kernel does not count it."""
    try:
        lines = (directory / "io").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def _memory(directory: Path) -> dict[str, int]:
    lines = (directory / "smaps_rollup").read_text().splitlines()[1:]
    return {name: int(size.split()[0]) * 1024 for name, _, size in (line.partition(":") for line in lines)}
