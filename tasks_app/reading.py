"""How the text that a model writes for a request is read: found when its prompt is made, and kept with the request.

``reading`` of a request has the name of the form of ``calls``, whether they are ``enforced`` to follow their schemas,
whether there is ``reasoning``, and the ids of those of their marks that are tokens without text. It is ``None`` where
the text is one message and nothing else.
"""

from collections.abc import Mapping
from typing import Any

from lmsp_site.errors import InvalidRequest
from models_app import schemas
from models_app.chat import Prompt
from models_app.engines import grammar as grammars
from models_app.engines.grammar import GrammarError
from models_app.parsing import call_formats, call_grammars
from models_app.parsing.call_formats import FORMATS, THINK_END
from models_app.parsing.parser import OutputParser
from tasks_app import text_format, tools

Request = Mapping[str, Any]


def of(prompt: Prompt) -> dict[str, Any] | None:
    """Return how the answer to a prompt will be read."""
    if not prompt.calls and not prompt.reasoning:
        return None
    return {"calls": prompt.calls, "reasoning": prompt.reasoning, "controls": prompt.controls}


def parser(request: Request) -> OutputParser | None:
    """Return what takes a request's text apart."""
    reading = request["reading"]
    if reading is None:
        return None
    names = [tool["name"] for tool in tools.callable_tools(request)]
    form = FORMATS[reading["calls"]] if reading["calls"] else None
    return OutputParser(form, names, reading["reasoning"], tools.most_calls(request))


def marks(request: Request) -> list[str]:
    """Return the names of tokens without text that the text has to show."""
    return sorted(request["reading"]["controls"]) if request["reading"] else []


def reasoning_end(request: Request) -> str:
    """Return what ends the reasoning; empty where there is none."""
    reading = request["reading"]
    return THINK_END if reading and reading["reasoning"] else ""


def grammar(request: Request) -> str | None:
    """Return the grammar of what the model may write: calls that follow their schemas, an answer that follows its own.

    ``None`` where it is free.
    """
    reading = request["reading"] or {"calls": None, "reasoning": None, "controls": {}}
    answer = text_format.schema_of(request["text"]["format"])
    form = FORMATS[reading["calls"]] if reading["calls"] else None
    if form is None and not reading["reasoning"]:
        return text_format.grammar_of(request["text"]["format"])
    if answer is None and (form is None or not reading.get("enforced", tools.are_enforced(request))):
        return None
    return grammars.from_lark(_lark(request, form, reading["controls"], reading["reasoning"], answer))


def are_enforced(fields: Request) -> bool:
    """Tell whether calls will follow the schemas of their tools: where they have to, and else wherever they can.

    A tool that says nothing of `strict` is so wherever its schema can be kept to; one that is not strict leaves the
    model free.
    """
    if tools.are_enforced(fields):
        return True
    found = tools.callable_tools(fields)
    is_left_free = not found or any(tool["strict"] is False for tool in found)
    return not is_left_free and _fault(fields, None) is None


def check_schemas(fields: Request) -> None:
    """Refuse tools whose calls could not be made to follow their schemas, and have to.

    Raises:
        InvalidRequest: naming the tool and what is wrong with its parameters.
    """
    answer = text_format.schema_of(fields["text"]["format"]) if fields["text"] else None
    if not tools.callable_tools(fields) or (answer is None and not tools.are_enforced(fields)):
        return
    if fault := _fault(fields, answer):
        raise InvalidRequest(f"tools: {fault}", param="tools", code="invalid_value")


def _fault(fields: Request, answer: dict[str, Any] | None) -> str | None:
    """Return why calls, or an answer, cannot be made to follow the schemas; ``None`` where they can."""
    found = tools.callable_tools(fields)
    for tool in found:
        try:
            schemas.check(call_grammars.arguments_schema(tool["parameters"]))
        except GrammarError as error:
            return f"the parameters of {tool['name']}: {error}"
    whole = grammars.from_lark(_lark(fields, call_formats.HERMES, {}, None, answer))
    if len(whole) > grammars.MAX_CHARACTERS:
        return f"the schemas together are too long: more than {grammars.MAX_CHARACTERS} characters."
    # With expressions each was looked at in a child, and they do not meet: a call has one schema.
    if not schemas.has_expressions([answer, *(tool["parameters"] for tool in found)]):
        try:
            grammars.check(whole)
        except GrammarError as error:
            return f"the schemas together: {error}"
    return None


def _lark(request: Request, form: Any, controls: Mapping[str, int], reasoning: Any, answer: Any) -> str:
    return call_grammars.lark(
        form,
        tools.callable_tools(request),
        controls,
        forced=form is not None and tools.must_call(request),
        reasoning=reasoning,
        most=tools.most_calls(request),
        answer=answer,
    )
