"""Tools in JSON Schema: as both APIs have them in requests, and as responses show them."""

from lmsp_site.openapi.items import STRING, Schema, const, either, listed, nullable, record

_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
_MOST = 128
_FUNCTION: Schema = {
    "name": _NAME,
    "description": nullable(STRING),
    "parameters": {
        "type": ["object", "null"],
        "properties": {"type": const("object")},
        "description": "A JSON Schema (2020-12) of the arguments. None means none.",
    },
    "strict": {
        "type": ["boolean", "null"],
        "description": "Calls always follow the schema; they do anyway where `tool_choice` demands one.",
    },
}
_OPTIONAL = ("description", "parameters", "strict")
_IS_FUNCTION = {"type": const("function")}
_NAMED = record({**_IS_FUNCTION, "name": _NAME})
_CHAT_NAMED = record({**_IS_FUNCTION, "function": record({"name": _NAME})})
_WORDS: Schema = {"type": "string", "enum": ["auto", "none", "required"]}
_KIND = {"type": const("allowed_tools")}


def _allowed(named: Schema) -> Schema:
    return {"mode": const("auto", "required"), "tools": {**listed(named, _MOST), "minItems": 1}}


TOOLS: Schema = {
    **listed(record({**_IS_FUNCTION, **_FUNCTION}, *_OPTIONAL), _MOST),
    "description": "Functions that the model may call; their names differ.",
}
CHAT_TOOLS: Schema = {
    **listed(record({**_IS_FUNCTION, "function": record(_FUNCTION, *_OPTIONAL)}), _MOST),
    "description": TOOLS["description"],
}
TOOL_CHOICE: Schema = {
    **either(_WORDS, _NAMED, record({**_KIND, **_allowed(_NAMED)})),
    "description": "Whether, and which of `tools`, the model must call or may call.",
}
CHAT_TOOL_CHOICE: Schema = {
    **either(_WORDS, _CHAT_NAMED, record({**_KIND, "allowed_tools": record(_allowed(_CHAT_NAMED))})),
    "description": TOOL_CHOICE["description"],
}
SHOWN_TOOLS: Schema = listed(record({**_IS_FUNCTION, **_FUNCTION}), _MOST)
SHOWN_CHOICE: Schema = either(_WORDS, _NAMED, record({**_KIND, **_allowed(_NAMED)}))
