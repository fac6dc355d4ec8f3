"""The engines that this machine can run, each with what the contract suite needs to know of it.

`paper` is what exllamav2's engine does beside its library, over logits that need no GPU.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from models_app.engines import registry
from models_app.engines.base import Engine, ModelSpec
from models_app.engines.exllamav2_loop import DynamicLoop
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.transcript import Vocabulary
from tests.engines.driving import chat_prompt
from tests.engines.paper import Bytes, PaperRunner, babble

ENGINES = ("llamacpp", "paper", "exllamav2")
FOLDER = "LMSP_TEST_EXL2"
"""Names the folder of a model for exllamav2; without it a tiny one is made."""


@dataclass(frozen=True)
class Subject:
    """One loaded engine.

    Attributes:
        encode: a question as a prompt.
        plain: a text as nothing but its tokens.
        is_exact: whether an interrupted generation goes on to the very tokens that it would have had.
    """

    engine: Engine
    vocabulary: Vocabulary
    encode: Callable[[str], list[int]]
    plain: Callable[[str], list[int]]
    is_exact: bool

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens say."""
        return b"".join(self.vocabulary.piece(token) for token in tokens).decode(errors="replace")


def llamacpp(engine: Engine, tokenizer: Tokenizer) -> Subject:
    """The demo model."""
    return Subject(
        engine,
        tokenizer,
        lambda question: chat_prompt(tokenizer, question),
        lambda text: tokenizer.encode(text, add_special=False, parse_special=False),
        is_exact=True,
    )


def paper() -> Subject:
    """A model on paper."""

    def encode(text: str) -> list[int]:
        return list(text.encode())

    return Subject(DynamicLoop(PaperRunner(babble, slots=4)), Bytes(), encode, encode, is_exact=False)


def exllamav2(directory: Path) -> Subject:
    """Load exllamav2 with the model that the environment names, or with a tiny one of its own making."""
    from models_app.engines.hf_tokenizer import open_tokenizer
    from tests.engines import tiny_model

    folder = Path(os.environ.get(FOLDER) or tiny_model.build(directory / "tiny"))
    tokenizer = open_tokenizer(folder)
    spec = ModelSpec("exl2", str(folder), "sha256:exl2", "exllamav2", context_length=512, slots=4)
    return Subject(
        registry.load_engine(spec, lambda _progress: None),
        tokenizer,
        lambda question: tokenizer.encode(question, add_special=True, parse_special=True),
        lambda text: tokenizer.encode(text, add_special=False, parse_special=False),
        is_exact=False,
    )
