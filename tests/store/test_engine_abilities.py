"""What a model's engine cannot do is refused where it is asked for, and nothing is stored."""

from typing import Any

import pytest

from clients_app.models import Client
from lmsp_site.errors import InvalidRequest
from models_app.models import LanguageModel
from tasks_app import serializers, submission
from tasks_app.models import Task

_SCHEMA = {"type": "json_schema", "name": "answer", "schema": {"type": "object", "additionalProperties": False}}
_TOOL = {"type": "function", "name": "now", "parameters": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"text": {"format": _SCHEMA}}, "text.format"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"tools": [_TOOL]}, "tools"),
        ({"tools": [{**_TOOL, "strict": None}], "tool_choice": "required"}, "tools"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"top_logprobs": 2}, "top_logprobs"),
    ],
    ids=["schema", "object", "strict tool", "demanded call", "bias", "logprobs"],
)
def test_it_is_named(client: Client, asked: dict[str, Any], param: str) -> None:
    LanguageModel.objects.create(
        id="folder", engine="exllamav2", file="folder", digest="sha256:0", size_bytes=1, trained_context_length=512
    )
    fields = serializers.read(serializers.TaskRequest, {"model": "folder", "input": "Hi", **asked})
    with pytest.raises(InvalidRequest) as refused:
        submission.submit(client, fields, foreground=False, key=None, answer=lambda _task: {})
    assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")
    assert not Task.objects.exists()
