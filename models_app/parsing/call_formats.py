"""The forms in which models write calls, and how a chat template tells which of them its model was trained on."""

from dataclasses import dataclass, replace

THINK, THINK_END = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class CallFormat:
    """A form of calls; in most of them a call is a JSON object with a name and arguments.

    Attributes:
        name: as it is stored with a request.
        mark: what begins a call, or a list of them.
        end: what ends it; empty where nothing does.
        key: what the arguments are called.
        listed: whether the calls stand in a JSON list after the mark.
        separator: what stands between name and arguments where the calls are no JSON objects.
        bare: whether an output that begins with such an object is a call too, without a mark.
        marks: names of tokens that the text must show for calls to be seen.
        one_a_message: whether the model's templates take one call in a message.
    """

    name: str
    mark: str
    end: str = ""
    key: str = "arguments"
    listed: bool = False
    separator: str = ""
    bare: bool = False
    marks: tuple[str, ...] = ()
    one_a_message: bool = False


HERMES = CallFormat("hermes", "<tool_call>", "</tool_call>", marks=("<tool_call>", "</tool_call>"))
LLAMA3 = CallFormat(
    "llama3", "<|python_tag|>", key="parameters", bare=True, marks=("<|python_tag|>",), one_a_message=True
)
MISTRAL = CallFormat("mistral", "[TOOL_CALLS]", listed=True, marks=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"))
# What later models of the same family write; each of both forms is read where the other is expected.
MISTRAL_ARGS = replace(MISTRAL, name="mistral_args", separator="[ARGS]")

FORMATS = {form.name: form for form in (HERMES, LLAMA3, MISTRAL, MISTRAL_ARGS)}


def of_template(template: str) -> CallFormat | None:
    """Return the form that the calls of a template's model have; ``None`` where it shows none that is known."""
    if MISTRAL.mark in template:
        return MISTRAL_ARGS if MISTRAL_ARGS.separator in template else MISTRAL
    if HERMES.mark in template:
        return HERMES
    if LLAMA3.mark in template or ("<|start_header_id|>" in template and '"parameters"' in template):
        return LLAMA3
    return None


def reasons(template: str) -> bool:
    """Tell whether a template's model thinks in a block of its own before it answers."""
    return THINK_END in template
