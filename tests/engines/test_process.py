"""An engine in a process of its own: what a worker sees of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from models_app.engines import wire
from models_app.engines.base import EngineAddress, GenerateRequest, ModelSpec, Resume
from models_app.engines.client import (
    EngineDied,
    EngineUnavailable,
    Generation,
    GenerationFailed,
    engine_info,
)
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.messages import Admitted, Finished, Message, Progress, Replayed, Tokens
from tests.engines.conftest import StartEngine
from tests.engines.driving import GREEDY, SAMPLED, Outcome, chat_prompt
from tests.service import REPOSITORY, eventually

HELLO = "Write hello in Russian, Chinese and Arabic."
STORY = "Write a story about a king."


def _read(generation: Generation, outcome: Outcome, tokens: int = 2**31) -> Outcome:
    """Read on until the end, or until there are that many tokens."""
    deadline = time.monotonic() + 60
    while generation.finished is None and len(outcome.tokens) < tokens:
        message = generation.next(1.0)
        if message is not None:
            outcome.add(message)
        assert time.monotonic() < deadline
    return outcome


def _generate(address: EngineAddress, request: GenerateRequest) -> Outcome:
    with Generation(address, request) as generation:
        return _read(generation, Outcome())


def _busy(address: EngineAddress) -> int:
    return int(engine_info(address)["busy_slots"])


def test_a_run_killed_in_the_middle_resumes_on_a_new_process_as_if_nothing_had_been(
    start_engine: StartEngine, tokenizer: Tokenizer
) -> None:
    requests = [GenerateRequest(chat_prompt(tokenizer, q), SAMPLED, max_tokens=40) for q in (HELLO, STORY)]
    first = start_engine()
    undisturbed = [_generate(first, request) for request in requests]

    outcomes = [Outcome(), Outcome()]
    with Generation(first, requests[0]) as one, Generation(first, requests[1]) as other:
        _read(one, outcomes[0], tokens=15)
        _read(other, outcomes[1], tokens=8)
        os.kill(first.pid, signal.SIGKILL)
        for generation, outcome in zip((one, other), outcomes, strict=True):
            with pytest.raises(EngineDied):
                _read(generation, outcome)  # first what it had sent
    assert all(len(outcome.tokens) < 40 for outcome in outcomes)

    second = start_engine()
    assert second.fingerprint == first.fingerprint
    for request, outcome, whole in zip(requests, outcomes, undisturbed, strict=True):
        resume = Resume(outcome.slot, outcome.tokens, outcome.rows)
        resumed = _generate(second, replace(request, resume=resume))
        assert resumed.slot == outcome.slot
        assert resumed.replayed.text == outcome.text
        assert outcome.tokens + resumed.tokens == whole.tokens
        assert outcome.text + resumed.text == whole.text


def test_the_first_token_comes_alone_and_later_ones_together(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    address = start_engine(flush_interval=0.25)
    outcome = _generate(address, GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=50))
    admitted, first, *later = [message for message in outcome.messages if not isinstance(message, Progress)]
    assert isinstance(admitted, Admitted)
    assert isinstance(first, Tokens)
    assert len(first.tokens) == 1
    assert len(later) <= 50 / 2
    assert isinstance(later[-1], Finished)
    assert {"queued", "prefill", "decode"} <= later[-1].timings.keys()
    assert len(outcome.tokens) == len(outcome.rows) == 50
    assert outcome.text == b"".join(map(tokenizer.piece, outcome.tokens)).decode()


def test_a_long_prefill_reports_progress_and_can_be_cancelled_in_the_middle(
    start_engine: StartEngine, tokenizer: Tokenizer
) -> None:
    address = start_engine(context_length=2048)
    prompt = chat_prompt(tokenizer, "Tell me about the sea. " * 300)
    with Generation(address, GenerateRequest(prompt, GREEDY)) as generation:
        messages: list[Message] = []
        while not any(isinstance(message, Progress) for message in messages):
            messages += filter(None, [generation.next(10)])
        began = time.monotonic()
        generation.cancel()
        while generation.finished is None:
            messages += filter(None, [generation.next(10)])
        took = time.monotonic() - began
    progress = next(message for message in messages if isinstance(message, Progress))
    assert progress.phase == "prefill"
    assert progress.done % 64 == 0
    assert progress.total == len(prompt)
    assert generation.finished.reason == "cancelled"
    assert took < 0.5
    short = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=3)
    assert _generate(address, short).slot == 0


def test_hanging_up_frees_the_slot(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    address = start_engine()
    request = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY)
    with Generation(address, request) as generation:
        _read(generation, Outcome(), tokens=3)
        assert _busy(address) == 1
    eventually(lambda: _busy(address) == 0, timeout=5, what="the slot is free")


def test_a_worker_that_is_killed_frees_its_slot(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    address = start_engine()
    request = {"op": "generate", "prompt": chat_prompt(tokenizer, STORY), "sampling": {"temperature": 0}}
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(sys.argv[2].encode() + b'\\n'); [s.recv(99) for _ in iter(int, 1)]"
    )
    with subprocess.Popen([sys.executable, "-c", script, address.socket, json.dumps(request)]) as worker:
        eventually(lambda: _busy(address) == 1, timeout=10, what="it generates")
        worker.kill()
    eventually(lambda: _busy(address) == 0, timeout=5, what="the slot is free")


def test_an_engine_that_generates_does_not_retire(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    address = start_engine()
    request = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY)
    outcome = Outcome()
    with Generation(address, request) as generation:
        _read(generation, outcome, tokens=3)
        os.kill(address.pid, signal.SIGUSR1)
        _read(generation, outcome, tokens=20)
        assert len(_generate(address, replace(request, max_tokens=3)).tokens) == 3, "it takes others on, too"


def test_an_engine_that_retires_serves_who_has_connected_and_nobody_else(
    start_engine: StartEngine, tokenizer: Tokenizer
) -> None:
    address = start_engine()
    request = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=3)
    with wire.connect(address.socket, 5) as early, early.makefile("rb") as replies:
        os.kill(address.pid, signal.SIGUSR1)
        eventually(lambda: not Path(address.socket).exists(), 10, "its socket is gone")
        with pytest.raises(EngineUnavailable):
            Generation(address, request)
        early.sendall(wire.encode({"op": "generate", **request.to_dict()}))
        kinds: list[str] = []
        while not kinds or kinds[-1] not in ("finished", "error"):
            kinds.append(json.loads(replies.readline())["type"])
        assert kinds[-1] == "finished"
    eventually(lambda: _has_ended(address.pid), 10, "and it goes when the last one has")


def _has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_reader_that_never_reads_is_dropped_and_slows_nobody(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    # Every token is a message; the kernel takes some 280 of them before the outbox begins to fill.
    address = start_engine("--max-outbox", "500", flush_interval=0)
    request = GenerateRequest(chat_prompt(tokenizer, "Write a long story about a king."), GREEDY)
    with Generation(address, request):
        outcome = _generate(address, replace(request, max_tokens=100))
        assert len(outcome.tokens) == 100
        assert _busy(address) == 1
        eventually(lambda: _busy(address) == 0, timeout=60, what="the reader is dropped")
        generated = engine_info(address)["tokens_generated"]
    assert 300 < generated < 100 + 494, "dropped before the context was full"


def test_requests_beyond_the_slots_wait_their_turn(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    address = start_engine(slots=2)
    request = GenerateRequest(chat_prompt(tokenizer, STORY), SAMPLED, max_tokens=12)
    expected = _generate(address, request).tokens
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda: outcomes.append(_generate(address, request))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.tokens for outcome in outcomes] == [expected] * 5
    assert {outcome.slot for outcome in outcomes} == {0, 1}


def test_a_resume_says_what_it_has_replayed_before_it_goes_on(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    address = start_engine()
    request = GenerateRequest(chat_prompt(tokenizer, HELLO), GREEDY, max_tokens=20)
    whole = _generate(address, request)
    resumed = _generate(address, replace(request, resume=whole.resume(16)))
    kinds = [type(message) for message in resumed.messages if not isinstance(message, Progress)]
    assert kinds[:3] == [Admitted, Replayed, Tokens]
    assert whole.tokens[:16] + resumed.tokens == whole.tokens


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"prompt": [1] * 600}, "context_length_exceeded"),
        ({"prompt": []}, "invalid_request"),
        ({"prompt": "text"}, "invalid_request"),
        ({"prompt": [49152]}, "invalid_request"),
        ({"sampling": {"temperature": -1}}, "invalid_request"),
        ({"sampling": {"colour": 1}}, "invalid_request"),
        ({"max_tokens": 0}, "invalid_request"),
        ({"stop": [""]}, "invalid_request"),
        ({"resume": {"slot": 0, "tokens": [1], "rows": []}}, "invalid_request"),
    ],
)
def test_what_cannot_be_run_fails_and_the_engine_goes_on(
    shared_engine: EngineAddress, changes: dict[str, object], code: str
) -> None:
    message = {"op": "generate", "prompt": [1, 2], "sampling": {"temperature": 0}, "max_tokens": 1, **changes}
    connection = wire.connect(shared_engine.socket, 5)
    with connection, connection.makefile("rb") as replies:
        connection.sendall(wire.encode(message))
        reply = json.loads(replies.readline())
    assert (reply["type"], reply["code"]) == ("error", code)
    assert _busy(shared_engine) == 0


def test_a_failed_generation_is_raised(shared_engine: EngineAddress) -> None:
    with Generation(shared_engine, GenerateRequest([1] * 600, GREEDY)) as generation:
        with pytest.raises(GenerationFailed) as failure:
            _read(generation, Outcome())
        assert failure.value.code == "context_length_exceeded"


@pytest.mark.parametrize("nonsense", [b"nonsense\n", b"[]\n", b'{"op": "dance"}\n', b'{"op": "cancel"}\n'])
def test_nonsense_does_not_hurt_the_engine(shared_engine: EngineAddress, nonsense: bytes) -> None:
    with wire.connect(shared_engine.socket, 5) as connection:
        connection.sendall(nonsense)
        answer = connection.recv(4096)
    assert not answer or json.loads(answer)["type"] == "error"
    assert _busy(shared_engine) == 0


def test_draining_hands_out_everything_once_and_does_not_wait(
    shared_engine: EngineAddress, tokenizer: Tokenizer
) -> None:
    request = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=10)
    outcome = Outcome()
    with Generation(shared_engine, request) as generation:
        began = time.monotonic()
        generation.drain()
        assert time.monotonic() - began < 0.5
        while generation.finished is None:
            for message in generation.drain():
                outcome.add(message)
        assert generation.drain() == []
        assert generation.next(5) is None
    assert len(outcome.tokens) == 10


def test_an_engine_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    nowhere = EngineAddress(str(tmp_path / "none.sock"), "", 1, 1, 1)
    with pytest.raises(EngineUnavailable):
        Generation(nowhere, GenerateRequest([1], GREEDY))
    with pytest.raises(EngineUnavailable):
        engine_info(nowhere)


def test_unused_context_costs_no_memory(start_engine: StartEngine, tokenizer: Tokenizer) -> None:
    """A cache of 4 slots of 8192 tokens is 720 MiB, which is there only as far as it is used."""
    address = start_engine(context_length=8192)
    outcome = _generate(address, GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=20))
    assert len(outcome.tokens) == 20
    assert engine_info(address)["rss"] < 250 * 2**20


def test_every_setting_that_decides_the_bits_is_in_the_fingerprint(start_engine: StartEngine, spec: ModelSpec) -> None:
    plain = start_engine()
    assert start_engine(context_length=256, slots=2).fingerprint == plain.fingerprint
    assert start_engine(threads=2).fingerprint != plain.fingerprint
    assert start_engine(digest="sha256:other").fingerprint != plain.fingerprint


def test_an_engine_does_not_outlive_its_parent(spec: ModelSpec, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "models_app.engines.process", "--spec", json.dumps(spec.to_dict())]
    command += ["--socket", str(tmp_path / "e.sock"), "--parent", "1"]
    orphan = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=20, check=False)
    assert orphan.returncode == 1
    assert b"parent" in orphan.stderr
