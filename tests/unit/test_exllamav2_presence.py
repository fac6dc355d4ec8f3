"""Whether exllamav2 can run here."""

from pathlib import Path

from models_app.engines import exllamav2_presence


def test_what_is_missing_is_named_the_first_thing_first(tmp_path: Path) -> None:
    say = exllamav2_presence.missing_parts
    assert "no NVIDIA GPU" in str(say(["torch"], has_gpu=False, has_compiler=False))
    assert "torch, exllamav2 not installed" in str(say(["torch", "exllamav2"], has_gpu=True, has_compiler=False))
    assert "nvcc" in str(say([], has_gpu=True, has_compiler=False))
    assert say([], has_gpu=True, has_compiler=True) is None
    assert not exllamav2_presence.has_gpu(tmp_path)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert exllamav2_presence.has_gpu(tmp_path)
