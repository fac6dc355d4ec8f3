"""Tokens of a `tokenizer.json` to bytes: against llama.cpp's, for every token of the demo model."""

import json
from pathlib import Path
from typing import Any

import pytest

from models_app.engines import llamacpp
from models_app.engines.base import LoadError
from models_app.engines.token_bytes import TokenBytes


def _folder(path: Path, tokenizer: dict[str, Any], **others: dict[str, Any]) -> Path:
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    for name, content in others.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def test_every_token_of_a_byte_level_vocabulary_says_what_it_says_elsewhere(tmp_path: Path, model_path: Path) -> None:
    known = llamacpp.open_tokenizer(model_path)
    texts = {token: known._token_text(token) for token in range(known.size)}
    special = set(known.special_tokens)
    tokenizer = {
        "model": {"type": "BPE", "vocab": {text: token for token, text in texts.items()}},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [
            {"id": token, "content": text, "special": True} for token, text in texts.items() if text in special
        ],
    }
    ends = [token for token in range(known.size) if known.is_end(token)]
    vocabulary = TokenBytes(_folder(tmp_path, tokenizer, config={"eos_token_id": ends}))
    assert vocabulary.size == known.size
    assert vocabulary.special_tokens == known.special_tokens
    for token in range(known.size):
        assert vocabulary.piece(token) == known.piece(token), token
        assert vocabulary.is_end(token) == known.is_end(token)


def test_a_vocabulary_that_came_from_sentencepiece_has_spaces_and_bytes(tmp_path: Path) -> None:
    tokenizer = {
        "model": {"type": "BPE", "vocab": {"<s>": 0, "▁king": 1, "<0xE4>": 2, "ö": 3}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}]},
        "added_tokens": [
            {"id": 0, "content": "<s>", "special": True},
            {"id": 4, "content": "</s>", "special": True},
            {"id": 5, "content": "<tool_call>", "special": False},
        ],
    }
    folder = _folder(
        tmp_path,
        tokenizer,
        tokenizer_config={"eos_token": {"content": "</s>"}},
        generation_config={"eos_token_id": [3]},
    )
    vocabulary = TokenBytes(folder)
    assert [vocabulary.piece(token) for token in range(7)] == [
        b"",
        b" king",
        b"\xe4",
        "ö".encode(),
        b"",
        b"<tool_call>",
        b"",
    ]
    assert vocabulary.ends == {3, 4}


def test_a_unigram_vocabulary_is_a_list(tmp_path: Path) -> None:
    vocabulary = TokenBytes(_folder(tmp_path, {"model": {"type": "Unigram", "vocab": [["a", -1.0], ["▁b", -2.0]]}}))
    assert (vocabulary.size, vocabulary.piece(1)) == (2, b" b")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model": {}}', '{"model": {"vocab": 7}}', '{"model": null}'])
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(LoadError, match="tokenizer"):
        TokenBytes(tmp_path)


def test_a_folder_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="missing") as refusal:
        TokenBytes(tmp_path)
    assert refusal.value.code == "model_file_missing"
