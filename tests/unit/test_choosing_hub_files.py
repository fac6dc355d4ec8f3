"""Which files of a repository are the model that is meant."""

import pytest

from models_app import pulling
from models_app.hub import HubFile, Repository
from models_app.refusals import CannotRegister

_SPLIT = ["Q8/b-00001-of-00002.gguf", "Q8/b-00002-of-00002.gguf"]


def repository(*names: str) -> Repository:
    files = tuple(HubFile(name, 10**9, "0" * 64, "") for name in names)
    return Repository("someone/model", "c", "mit", files)


def chosen(wanted: str, *names: str) -> list[str]:
    return [file.name for file in pulling.choose(repository(*names), wanted)]


@pytest.mark.parametrize("wanted", ["", *_SPLIT])
def test_a_split_model_is_one_model(wanted: str) -> None:
    assert chosen(wanted, "README.md", *_SPLIT) == _SPLIT


def test_the_one_that_is_named_is_meant() -> None:
    assert chosen("a.gguf", "a.gguf", *_SPLIT) == ["a.gguf"]


def test_of_a_folder_what_an_engine_reads_is_meant() -> None:
    kept = ["config.json", "model.safetensors", "tokenizer.json"]
    assert chosen("", *kept, "README.md", "pytorch_model.bin", "modeling.py", "onnx/config.json") == kept


@pytest.mark.parametrize(
    ("wanted", "names", "reason"),
    [
        ("", ["a.gguf", *_SPLIT], r"has 2 models; say someone/model:FILE\.\n  a\.gguf  1\.00 GB\n  Q8/b-00001"),
        ("c.gguf", ["a.gguf"], r"no GGUF file 'c\.gguf'\.\n  a\.gguf"),
        ("README.md", ["README.md"], "no GGUF file"),
        ("", _SPLIT[:1], "Q8/b-00002-of-00002.gguf is not beside it"),
        ("", ["README.md", "config.json"], "neither a GGUF file nor safetensors"),
        ("", ["a.safetensors"], "neither a GGUF file nor safetensors"),
    ],
    ids=["several", "no-such-file", "no-model", "part-missing", "no-weights", "no-config"],
)
def test_what_cannot_be_meant_is_told_why(wanted: str, names: list[str], reason: str) -> None:
    with pytest.raises(CannotRegister, match=reason):
        chosen(wanted, *names)


@pytest.mark.parametrize("stated", ["", "../../../etc/passwd", "A" * 64])
def test_no_digest_that_is_none_becomes_a_path(stated: str) -> None:
    with pytest.raises(CannotRegister, match="no digest"):
        pulling._stated(HubFile("a.gguf", 1, stated, ""))
