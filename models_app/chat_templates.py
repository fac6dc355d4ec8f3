"""Chat templates: what a model's own one renders, and what it shows of how the model was trained."""

import json
import re
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, meta
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lmsp_site.errors import InvalidRequest
from models_app.parsing import call_formats
from models_app.parsing.call_formats import CallFormat

CUT = "\x00"
"""Where a text must not be read as the name of a special token. No request can hold it: NUL is refused everywhere."""

# For a model file without a template of its own.
_PLAIN = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
_ESCAPED = re.compile(r"\\u0000|\\.")
# What a template can meet in messages that its author did not think of.
_FAULTS = (TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ChatTemplate:
    """A template in Jinja, as model files have it."""

    def __init__(self, source: str) -> None:
        self._source = source

    @cached_property
    def calls(self) -> CallFormat | None:
        """The form of the calls that the model was trained on, where the template takes tools and shows it."""
        return call_formats.of_template(self._source) if "tools" in self._variables else None

    @cached_property
    def reasons(self) -> bool:
        """Whether the model thinks in a block of its own before it answers."""
        return call_formats.reasons(self._source)

    @cached_property
    def can_keep_from_reasoning(self) -> bool:
        """Whether the template can be told that the model shall answer at once."""
        return self.reasons and "enable_thinking" in self._variables

    def render(self, messages: list[dict[str, Any]], **variables: Any) -> str:
        """Return the prompt text of `messages`, ending where the assistant's answer begins.

        Raises:
            InvalidRequest: the template refuses these messages (``prompt_not_supported``).
        """
        try:
            rendered: str = self._compiled.render(messages=messages, add_generation_prompt=True, **variables)
        except _FAULTS as error:
            raise InvalidRequest(
                f"The model's chat template does not take these messages: {error}",
                code="prompt_not_supported",
                param="input",
            ) from error
        return rendered

    @cached_property
    def _compiled(self) -> Any:
        return _environment().from_string(self._source)

    @cached_property
    def _variables(self) -> set[str]:
        try:
            return meta.find_undeclared_variables(_environment().parse(self._source))
        except TemplateSyntaxError:
            return set()


@lru_cache(maxsize=16)
def of(source: str | None) -> ChatTemplate:
    """Return the template of a model, or a plain one for a model that has none."""
    return ChatTemplate(source or _PLAIN)


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    # A template comes with a model from anywhere: it may compute text and nothing else.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)
    environment.filters["tojson"] = _to_json
    return environment


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """Write JSON as the templates' authors expect it, which is not how Jinja does; cuts stay what they are."""
    written = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)
    return _ESCAPED.sub(lambda found: CUT if found[0] == "\\u0000" else found[0], written)
