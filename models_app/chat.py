"""Messages to prompt tokens, by the model's own chat template, and how to read what the model answers to them."""

import re
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from lmsp_site.errors import InvalidRequest
from models_app import chat_templates, tokenizers, tool_prompts
from models_app.chat_templates import CUT
from models_app.models import LanguageModel
from models_app.parsing.call_formats import HERMES, THINK, THINK_END
from models_app.tokenizers import Tokenizer
from models_app.tool_prompts import Message, Tool

Reasoning = Literal["tagged", "begun"] | None


class ContextLengthExceeded(InvalidRequest):
    """The prompt does not fit into the model's context."""

    code = "context_length_exceeded"


class Prompt(NamedTuple):
    """What a model is given, and how its answer will be written.

    Attributes:
        text: all of it; `CUT` stands where the name of a special token is none.
        calls: the name of the form of calls; ``None`` where there are no tools.
        reasoning: whether the answer may begin with a block of reasoning, or the prompt has begun one.
        controls: ids of those of their marks that are tokens without text.
    """

    text: str
    calls: str | None = None
    reasoning: Reasoning = None
    controls: dict[str, int] = {}


def render(
    tokenizer: Tokenizer, messages: list[Message], tools: list[Tool] | None = None, effort: str | None = None
) -> Prompt:
    """Return the prompt of `messages`.

    Args:
        tokenizer: the model's.
        messages: as ``tool_prompts`` has them.
        tools: what can be called, as the API has them.
        effort: of the reasoning; ``none`` where the model shall not reason.

    Raises:
        InvalidRequest: the template refuses these messages (``prompt_not_supported``), or there is no such effort.
    """
    template = chat_templates.of(tokenizer.chat_template)
    _check_effort(template, effort)
    form = template.calls
    if form is None:
        shaped = tool_prompts.as_text(messages, tools)
        declared = None
    else:
        shaped = tool_prompts.structured(messages, form)
        declared = tool_prompts.declared(tools) if tools else None
    if tokenizer.special_tokens:
        names = _any_of(tuple(tokenizer.special_tokens))
        shaped = [_cut_names(message, names) for message in shaped]
        declared = _cut_names(declared, names)
    variables = {"enable_thinking": False} if template.can_keep_from_reasoning and effort == "none" else {}
    text = template.render(
        shaped, tools=declared, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token, **variables
    )
    reasoning = _reasoning(template, text)
    marks = [*((form or HERMES).marks if tools else ()), *((THINK, THINK_END) if reasoning else ())]
    return Prompt(text, (form or HERMES).name if tools else None, reasoning, _controls(tokenizer, marks))


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a prompt's text.

    The names of special tokens are read as such where the template has put them, and as plain text where a message,
    an output or the description of a tool has them: nobody can end their own turn and begin the system's.
    """
    return [
        token for piece in text.split(CUT) for token in tokenizer.encode(piece, add_special=False, parse_special=True)
    ]


def prompt(
    model: LanguageModel, messages: list[Message], tools: list[Tool] | None = None, effort: str | None = None
) -> tuple[Prompt, list[int]]:
    """Return the prompt of `messages`, and its token ids, however many they are; see ``render``."""
    tokenizer = tokenizers.of(model)
    rendered = render(tokenizer, messages, tools, effort)
    return rendered, encode(tokenizer, rendered.text)


def require_fit(model: LanguageModel, length: int) -> None:
    """Refuse a prompt that leaves no room for an answer.

    Args:
        model: whose context it is.
        length: tokens of the prompt.

    Raises:
        ContextLengthExceeded: naming the tokens needed and allowed; nothing is cut in silence.
    """
    needed = length + 1  # An answer has at least one token.
    if needed > model.context_length:
        raise ContextLengthExceeded(
            f"The prompt has {length} tokens, so that {needed} are needed; the context of {model.id} "
            f"allows {model.context_length}. Shorten the input.",
            param="input",
        )


def _reasoning(template: chat_templates.ChatTemplate, text: str) -> Reasoning:
    if not template.reasons or text.rstrip().endswith(THINK_END):
        return None
    return "begun" if text.rstrip().endswith(THINK) else "tagged"


def _controls(tokenizer: Tokenizer, marks: list[str]) -> dict[str, int]:
    controls = {}
    for mark in marks:
        tokens = tokenizer.encode(mark, add_special=False, parse_special=True)
        if len(tokens) == 1 and not tokenizer.piece(tokens[0]):
            controls[mark] = tokens[0]
    return controls


def _check_effort(template: chat_templates.ChatTemplate, effort: str | None) -> None:
    if effort == "none" and template.reasons and not template.can_keep_from_reasoning:
        reason = "the model always reasons before it answers; leave effort out."
    elif effort not in (None, "none") and not template.reasons:
        reason = 'the model does not reason before it answers; effort must be "none".'
    elif effort not in (None, "none", "medium"):
        reason = 'the model reasons or does not; effort must be "medium" or "none".'
    else:
        return
    raise InvalidRequest(f"reasoning: {reason}", param="reasoning", code="invalid_value")


def _cut_names(value: Any, names: re.Pattern[str]) -> Any:
    """Cut the names of special tokens wherever they stand in a structure."""
    if isinstance(value, str):
        return names.sub(_cut, value)
    if isinstance(value, list):
        return [_cut_names(one, names) for one in value]
    if isinstance(value, dict):
        return {_cut_names(key, names): one if key == "role" else _cut_names(one, names) for key, one in value.items()}
    return value


@lru_cache(maxsize=4)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))


def _cut(name: re.Match[str]) -> str:
    return f"{name[0][0]}{CUT}{name[0][1:]}"
