"""Messages to prompt tokens, by the model's own chat template."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lmsp_site.errors import InvalidRequest
from models_app import tokenizers
from models_app.models import LanguageModel
from models_app.tokenizers import Tokenizer

Message = dict[str, Any]

# No request can hold it: NUL is refused in every string.
_CUT = "\x00"

# For a model file without a template of its own.
_PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


class ContextLengthExceeded(InvalidRequest):
    """The prompt does not fit into the model's context."""

    code = "context_length_exceeded"


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


@lru_cache(maxsize=16)
def _compile(template: str) -> Any:
    # A template comes with a model from anywhere: it may compute text and nothing else.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)
    return environment.from_string(template)


def render(tokenizer: Tokenizer, messages: list[Message]) -> str:
    """Return the prompt text of `messages`, ending where the assistant's answer begins.

    Raises:
        InvalidRequest: the template refuses these messages (``prompt_not_supported``).
    """
    try:
        rendered: str = _compile(tokenizer.chat_template or _PLAIN_TEMPLATE).render(
            messages=messages,
            add_generation_prompt=True,
            bos_token=tokenizer.bos_token,
            eos_token=tokenizer.eos_token,
        )
    except TemplateError as error:
        raise InvalidRequest(
            f"The model's chat template does not take these messages: {error}",
            code="prompt_not_supported",
            param="input",
        ) from error
    return rendered


def encode(tokenizer: Tokenizer, messages: list[Message]) -> list[int]:
    """Return the tokens of the rendered messages.

    The names of special tokens are read as such where the template has put them, and as plain text where a
    message's content has them: nobody can end their own turn and begin the system's.
    """
    if tokenizer.special_tokens:
        names = _any_of(tuple(tokenizer.special_tokens))
        messages = [{**message, "content": names.sub(_cut, message["content"])} for message in messages]
    return [
        token
        for piece in render(tokenizer, messages).split(_CUT)
        for token in tokenizer.encode(piece, add_special=False, parse_special=True)
    ]


@lru_cache(maxsize=4)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))


def _cut(name: re.Match[str]) -> str:
    return f"{name[0][0]}{_CUT}{name[0][1:]}"


def tokens(model: LanguageModel, messages: list[Message]) -> list[int]:
    """Return the prompt of `messages` as token ids, however long it is."""
    return encode(tokenizers.of(model), messages)


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
