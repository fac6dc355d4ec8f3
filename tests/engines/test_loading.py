"""What the engine host loads, keeps and lets go, by the rules it was given."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models_app.engines.base import EngineAddress, GenerateRequest, ModelSpec
from models_app.engines.client import EngineUnavailable, Generation, HostClient, ModelLoadFailed
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.loading_rules import FOR_EVER, LoadingRules
from tests import hostile_models
from tests.engines.driving import GREEDY, chat_prompt
from tests.service import eventually

pytestmark = pytest.mark.usefixtures("host")
AT_ONCE = LoadingRules(keep_alive=0)


@pytest.fixture
def client(run_dir: Path) -> HostClient:
    return HostClient(run_dir)


@pytest.fixture
def small(spec: ModelSpec) -> ModelSpec:
    return replace(spec, context_length=256, slots=1)


@contextmanager
def _generating(address: EngineAddress, tokenizer: Tokenizer) -> Iterator[Generation]:
    request = GenerateRequest(chat_prompt(tokenizer, "Write a long story."), GREEDY)
    with Generation(address, request) as generation:
        assert generation.next(30) is not None
        yield generation


def _use(client: HostClient, spec: ModelSpec, tokenizer: Tokenizer, rules: LoadingRules | None = None) -> EngineAddress:
    """Have something generated, and wait until the host knows that it is over."""
    address = client.ensure_loaded(spec, rules=rules)
    with _generating(address, tokenizer):
        pass
    eventually(lambda: all(model["key"] != spec.key or _is_idle(model) for model in client.list()), 10)
    return address


def _is_idle(model: dict[str, Any]) -> bool:
    return bool(model["state"] == "ready" and model["idle_seconds"] is not None)


def _keys(client: HostClient) -> set[str]:
    return {model["key"] for model in client.list() if model["state"] == "ready"}


def test_an_idle_engine_goes_and_one_that_generates_stays(
    client: HostClient, small: ModelSpec, tokenizer: Tokenizer
) -> None:
    used, busy = _use(client, small, tokenizer), client.ensure_loaded(replace(small, key="busy"))
    with _generating(busy, tokenizer):
        client.govern(AT_ONCE)
        eventually(lambda: _keys(client) == {"busy"}, 10, "the idle one has gone")
        with pytest.raises(EngineUnavailable):
            Generation(used, GenerateRequest([1], GREEDY))
    eventually(lambda: not _keys(client), 10, "and the other, when it was idle")
    assert client.describe()["deaths"] == {}


def test_an_engine_is_kept_for_the_time_of_its_own_model(
    client: HostClient, small: ModelSpec, tokenizer: Tokenizer
) -> None:
    for key in ("own", "others"):
        _use(client, replace(small, key=key), tokenizer)
    client.govern(LoadingRules(keep_alive=0, own_keep_alive={"own": FOR_EVER}))
    eventually(lambda: _keys(client) == {"own"}, 10, "the other goes at once")
    client.govern(LoadingRules(keep_alive=FOR_EVER, own_keep_alive={"own": 0}))
    eventually(lambda: not _keys(client), 10)


def test_an_engine_is_kept_until_whoever_had_it_loaded_has_come(
    client: HostClient, small: ModelSpec, tokenizer: Tokenizer
) -> None:
    address = client.ensure_loaded(small, rules=AT_ONCE)
    with _generating(client.ensure_loaded(replace(small, key="used")), tokenizer):
        pass
    eventually(lambda: _keys(client) == {"demo"}, 10, "the other has been used, and goes at once")
    with _generating(address, tokenizer):
        pass
    eventually(lambda: not _keys(client), 10)


def test_the_one_that_was_idle_longest_makes_room(client: HostClient, small: ModelSpec, tokenizer: Tokenizer) -> None:
    rules = LoadingRules(max_loaded=2)
    for key in ("first", "second", "first"):
        _use(client, replace(small, key=key), tokenizer, rules)
    reasons: list[str] = []
    client.ensure_loaded(replace(small, key="third"), on_wait=reasons.append)
    assert _keys(client) == {"first", "third"}
    assert reasons


def test_a_newcomer_waits_while_all_are_busy_and_is_told_why(
    client: HostClient, small: ModelSpec, tokenizer: Tokenizer
) -> None:
    with ExitStack() as stack:
        stack.enter_context(_generating(client.ensure_loaded(small, rules=LoadingRules(max_loaded=1)), tokenizer))
        reasons: list[str] = []
        loaded: list[EngineAddress] = []
        newcomer = replace(small, key="newcomer")
        thread = threading.Thread(target=lambda: loaded.append(client.ensure_loaded(newcomer, on_wait=reasons.append)))
        thread.start()
        eventually(lambda: reasons, 10)
        assert "in use" in reasons[-1]
        assert {(model["key"], model["state"]) for model in client.list()} == {
            ("demo", "ready"),
            ("newcomer", "waiting"),
        }
        stack.close()
        thread.join(30)
    assert loaded
    assert _keys(client) == {"newcomer"}


def test_a_newcomer_whom_nobody_waits_for_any_more_is_not_loaded(
    client: HostClient, small: ModelSpec, tokenizer: Tokenizer
) -> None:
    class Impatient(Exception):
        pass

    def give_up(_reason: str) -> None:
        raise Impatient

    with _generating(client.ensure_loaded(small, rules=LoadingRules(max_loaded=1)), tokenizer):
        with pytest.raises(Impatient):
            client.ensure_loaded(replace(small, key="newcomer"), on_wait=give_up)
        eventually(lambda: [model["key"] for model in client.list()] == ["demo"], 5)


def test_what_cannot_fit_is_refused_and_what_fits_when_idle_ones_go_is_loaded(
    client: HostClient, small: ModelSpec, tokenizer: Tokenizer
) -> None:
    # Some 170 MB each: one of them fits.
    rules = LoadingRules(memory_bytes=256 << 20)
    _use(client, small, tokenizer, rules)
    large = replace(small, key="large", context_length=8192, slots=4)
    with pytest.raises(ModelLoadFailed, match=r"needs about 8\d\d MB .* 256 MB") as refusal:
        client.ensure_loaded(large)
    assert refusal.value.code == "insufficient_memory"
    assert _keys(client) == {"demo"}, "nobody was unloaded in vain"
    client.ensure_loaded(replace(small, key="other"))
    assert _keys(client) == {"other"}


def test_a_model_that_crashes_again_and_again_is_left_alone_until_its_file_changes(
    client: HostClient, small: ModelSpec, crashing_model: Path, model_path: Path
) -> None:
    bad = replace(small, key="bad", path=str(crashing_model))
    messages = []
    for _ in range(5):
        with pytest.raises(ModelLoadFailed) as failure:
            client.ensure_loaded(bad)
        assert failure.value.code == "engine_crashed"
        messages.append(str(failure.value))
    starts = client.describe()["starts"]["bad"]
    assert starts == 3
    assert "3 times in a row" in messages[-1]
    assert "tried again in" in messages[-1]
    with pytest.raises(ModelLoadFailed):
        client.ensure_loaded(bad, insist=True)
    assert client.describe()["starts"]["bad"] == 4
    crashing_model.write_bytes(model_path.read_bytes())
    assert client.ensure_loaded(bad).slots == 1


@pytest.fixture
def crashing_model(model_path: Path, tmp_path: Path) -> Path:
    return hostile_models.write_crashing(model_path, tmp_path / "crashing.gguf")
