"""Tokens without text that a parser has to see, and the tokens of reasoning: by the demo model's own vocabulary."""

from pathlib import Path

import pytest

from models_app.engines import llamacpp
from models_app.engines.base import GenerateRequest, Resume
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.transcript import Transcript

_MARK = "<repo_name>"


@pytest.fixture(scope="module")
def tokenizer(model_path: Path) -> Tokenizer:
    return llamacpp.open_tokenizer(model_path)


def tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special=False, parse_special=True)


@pytest.mark.parametrize(
    ("marks", "shown"), [((), "ab {"), ((_MARK,), f"ab{_MARK} {{"), (("<file_sep>",), "ab<file_sep> {")]
)
def test_only_the_marks_that_are_asked_for_show(tokenizer: Tokenizer, marks: tuple[str, ...], shown: str) -> None:
    written = tokens(tokenizer, f"ab{_MARK}<file_sep> {{")
    request = GenerateRequest([1], marks=marks)
    transcript = Transcript(request, tokenizer, 100)
    assert "".join(transcript.append(token, 1) for token in written) == shown
    assert GenerateRequest.from_dict(request.to_dict()).to_dict() == request.to_dict()
    resumed = Transcript(
        GenerateRequest([1], marks=marks, resume=Resume(0, written, [1] * len(written))), tokenizer, 100
    )
    assert resumed.resumed_text == shown


@pytest.mark.parametrize(
    ("written", "reasoning"), [("Hm, yes.</think> Rome.", "Hm, yes.</think>"), ("Hm, yes", "Hm, yes")]
)
def test_the_tokens_of_reasoning_are_counted_until_its_end(tokenizer: Tokenizer, written: str, reasoning: str) -> None:
    all_tokens, counted = tokens(tokenizer, written), len(tokens(tokenizer, reasoning))
    assert tokens(tokenizer, written)[:counted] == tokens(tokenizer, reasoning)
    for cut in range(len(all_tokens)):
        resume = Resume(0, all_tokens[:cut], [1] * cut)
        transcript = Transcript(GenerateRequest([1], reasoning_end="</think>", resume=resume), tokenizer, 100)
        for token in all_tokens[cut:]:
            transcript.append(token, 1)
        assert transcript.reasoning_tokens == counted
    assert (
        Transcript(
            GenerateRequest([1], resume=Resume(0, all_tokens, [1] * len(all_tokens))), tokenizer, 100
        ).reasoning_tokens
        == 0
    )
