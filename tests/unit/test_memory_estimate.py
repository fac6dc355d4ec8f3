"""What a model will need, and what the machine has, each from real files."""

import shutil
import struct
from pathlib import Path

import gguf
import pytest

from models_app.engines import estimate, gguf_header, machine_memory
from models_app.engines.base import ModelSpec
from tests import tiny_models

MIB = 1 << 20


def _spec(path: Path, context_length: int, slots: int) -> ModelSpec:
    return ModelSpec("demo", str(path), "sha256:demo", context_length=context_length, slots=slots)


def test_weights_cache_and_computing_are_counted(model_path: Path) -> None:
    # 30 layers, 3 heads of keys and values, 64 numbers of 2 bytes each: 22.5 KiB a token.
    small = estimate.needed_bytes(_spec(model_path, 1024, 1))
    large = estimate.needed_bytes(_spec(model_path, 1024, 5))
    assert large - small == 4 * 1024 * 30 * 3 * (64 + 64) * 2
    assert small > model_path.stat().st_size + 1024 * 23_040


def test_all_parts_of_a_split_model_are_counted(tmp_path: Path) -> None:
    (whole,) = tiny_models.write_gguf(tmp_path / "whole.gguf")
    first, second = tiny_models.write_gguf(tmp_path / "split.gguf", split_max_tensors=6)
    needed = estimate.needed_bytes(_spec(first, 256, 1))
    parts = first.stat().st_size + second.stat().st_size
    assert needed - parts == estimate.needed_bytes(_spec(whole, 256, 1)) - whole.stat().st_size


def test_layers_that_differ_are_counted_each(tmp_path: Path) -> None:
    file = tmp_path / "hybrid.gguf"
    writer = gguf.GGUFWriter(file, "lfm2")
    writer.add_block_count(4)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length([128, 256, 128, 128])
    writer.add_head_count(4)
    # Two layers of convolutions, which have no cache.
    writer.add_head_count_kv([0, 2, 0, 4])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert estimate.cache_bytes(file, 1001) - estimate.cache_bytes(file, 1) == 1000 * (2 + 4) * (16 + 16) * 2


def test_a_file_that_is_not_understood_is_taken_for_its_size(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"no model" * MIB)
    assert 8 * MIB < estimate.needed_bytes(_spec(file, 4096, 4)) < 100 * MIB
    assert estimate.needed_bytes(_spec(tmp_path / "none.gguf", 4096, 4)) == 0


@pytest.mark.parametrize("length", [0, 3, 8, 24, 100, 300])
def test_a_header_that_is_cut_off_says_nothing(model_path: Path, tmp_path: Path, length: int) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(model_path.read_bytes()[:length])
    assert estimate.cache_bytes(file, 4096) == 0


@pytest.mark.parametrize(
    "metadata",
    [
        struct.pack("<Q", 1 << 60),
        struct.pack("<Q1sI", 1, b"x", 99),
        struct.pack("<Q1sIIQ", 1, b"x", 9, 4, 1 << 60),
        struct.pack("<Q1sIIQ", 1, b"x", 9, 9, 1),
    ],
)
def test_a_hostile_header_is_refused(tmp_path: Path, metadata: bytes) -> None:
    file = tmp_path / "hostile.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60) + metadata)
    with pytest.raises(ValueError, match=r"too long|unknown type"):
        gguf_header.read(file, [".block_count"])


def test_the_smallest_limit_above_the_process_counts(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9999 kB\nMemAvailable:  8192 kB\n")
    assert machine_memory.available_bytes(tmp_path) == 8 * MIB
    (tmp_path / "proc/self/cgroup").write_text("0::/outer/inner\n")
    for name, limit in (("outer", str(6 * MIB)), ("outer/inner", "max")):
        group = tmp_path / "sys/fs/cgroup" / name
        group.mkdir(parents=True)
        (group / "memory.max").write_text(limit + "\n")
        (group / "memory.current").write_text(f"{5 * MIB}\n")
        (group / "memory.stat").write_text(f"anon 1\ninactive_file {MIB}\nactive_file {MIB}\n")
    assert machine_memory.available_bytes(tmp_path) == 3 * MIB
    shutil.rmtree(tmp_path / "sys")
    legacy = tmp_path / "sys/fs/cgroup/memory/outer"
    legacy.mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/outer\n0::/\n")
    (legacy / "memory.limit_in_bytes").write_text(f"{2 * MIB}\n")
    (legacy / "memory.usage_in_bytes").write_text(f"{MIB}\n")
    assert machine_memory.available_bytes(tmp_path) == MIB


def test_this_machine_has_memory() -> None:
    assert 0 < machine_memory.available_bytes() < 1 << 50
