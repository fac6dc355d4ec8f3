"""Log probabilities from logits."""

import math

import numpy as np
import pytest

from models_app.engines import logprobs


class _Names:
    def piece(self, token: int) -> bytes:
        return [b"a", b"b", "é".encode()[:1], b""][token]

    def name(self, token: int) -> bytes:
        return b"<|three|>"


_LOGITS = np.log(np.array([0.5, 0.2, 0.2, 0.1], np.float32)) + 7


def test_the_likeliest_come_first_and_equals_in_their_order() -> None:
    said = logprobs.of(_LOGITS, 3, 3, _Names())
    assert said["logprob"] == pytest.approx(math.log(0.1), abs=1e-5)
    assert [entry["bytes"] for entry in said["top_logprobs"]] == [[97], [98], [0xC3]]
    assert [entry["logprob"] for entry in said["top_logprobs"]] == pytest.approx(np.log([0.5, 0.2, 0.2]), abs=1e-5)


def test_half_a_character_has_its_bytes_and_a_token_without_text_its_name() -> None:
    half = logprobs.of(_LOGITS, 2, 0, _Names())
    assert (half["token"], half["bytes"]) == ("\N{REPLACEMENT CHARACTER}", [0xC3])
    special = logprobs.of(_LOGITS, 3, 0, _Names())
    assert (special["token"], special["bytes"]) == ("<|three|>", [])


def test_what_is_impossible_has_a_number_that_json_has() -> None:
    said = logprobs.of(np.array([0, -np.inf, 0, 0], np.float32), 1, 0, _Names())
    assert said["logprob"] == -9999.0
