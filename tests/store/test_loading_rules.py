"""For how long engines are kept, by what the service and its models say."""

from pathlib import Path

from lmsp_site.models import ServiceConfig
from models_app import loading
from models_app.models import LanguageModel


def _model(name: str, content: str, keep_alive: int | None, max_context_length: int | None = None) -> None:
    LanguageModel.objects.create(
        id=name,
        file=f"{name}.gguf",
        digest=content,
        size_bytes=1,
        trained_context_length=4096,
        keep_alive=keep_alive,
        max_context_length=max_context_length,
    )


def test_a_model_has_a_time_of_its_own_or_that_of_all(database: Path) -> None:
    ServiceConfig.objects.update(keep_alive=600)
    _model("silent", "a", None)
    _model("short", "b", 0)
    _model("ever", "c", -1)
    _model("same", "d", 600)
    rules = loading.rules()
    assert rules.own_keep_alive == {"b": 0, "c": -1}
    assert [rules.keep_alive_of(key) for key in "abcd"] == [600, 0, -1, 600]


def test_of_those_who_share_an_engine_the_longest_time_holds(database: Path) -> None:
    ServiceConfig.objects.update(keep_alive=600)
    _model("long", "a", 900)
    _model("ever", "a", -1)
    _model("short", "b", 60)
    _model("silent", "b", None)
    _model("other-context", "b", 60, 512)
    assert loading.rules().own_keep_alive == {"a": -1, "b:512": 60}
    ServiceConfig.objects.update(keep_alive=-1)
    assert loading.rules().own_keep_alive == {"b:512": 60}
