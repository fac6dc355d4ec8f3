"""Giving memory back that was filled with zeros and never used.

llama.cpp clears the whole KV cache when it makes it, so that all of it becomes resident: 180 MiB for four slots of
2048 tokens of a model of 98 MB. A page that is given back reads as zeros again, which is what it held, and comes
back when it is written: the cache then occupies what the sequences have used of it.
"""

import contextlib
import ctypes
import mmap
from collections.abc import Iterator
from pathlib import Path

_MIB = 1024 * 1024
_SMALLEST_RUN = 16 * _MIB
_MARGIN = _MIB
"""Left alone at both ends of a run of zeros. The kernel joins neighbouring mappings, and what lies next to a large
allocation may be one of Python's arenas (1 MiB), about to be used."""


@contextlib.contextmanager
def zero_pages_released() -> Iterator[None]:
    """Give back the large allocations that the body makes and leaves zero.

    For the time before other threads start: they might write between the look and the release.
    """
    before = _private_mappings()
    yield
    for start, end in _subtract(_private_mappings(), before):
        for first, last in list(_zero_runs(start, end)):
            if last - first >= _SMALLEST_RUN:
                length = last - first - 2 * _MARGIN
                ctypes.CDLL(None).madvise(ctypes.c_void_p(first + _MARGIN), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


def resident_bytes(pid: int | str = "self") -> int:
    """The physical memory that a process occupies, shared pages included; `OSError` where there is none."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * mmap.PAGESIZE


def private_bytes(pid: int) -> int:
    """The physical memory that is a process's alone: not the files that it maps. 0 where there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")), 0)


def _private_mappings() -> list[tuple[int, int]]:
    """The address ranges of nameless, private, writable memory; none where the kernel does not say."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    mappings = []
    for line in lines:
        addresses, permissions, _offset, _device, _inode, *name = line.split()
        if permissions == "rw-p" and not name:
            start, end = addresses.split("-")
            mappings.append((int(start, 16), int(end, 16)))
    return mappings


def _subtract(ranges: list[tuple[int, int]], taken: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of `ranges` that lie in none of `taken`, both in ascending order."""
    for start, end in ranges:
        at = start
        for taken_start, taken_end in taken:
            if at < taken_start < end:
                yield at, taken_start
            if start < taken_end and taken_start < end:
                at = max(at, taken_end)
        if at < end:
            yield at, end


def _zero_runs(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of the range, in whole MiB from its start, that hold nothing but zeros."""
    libc = ctypes.CDLL(None)
    zeros = ctypes.create_string_buffer(_MIB)
    run = start
    for address in range(start, end - _MIB + 1, _MIB):
        if libc.memcmp(ctypes.c_void_p(address), zeros, ctypes.c_size_t(_MIB)) != 0:
            if run < address:
                yield run, address
            run = address + _MIB
    last = start + (end - start) // _MIB * _MIB
    if run < last:
        yield run, last
