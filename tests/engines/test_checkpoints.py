"""The cache of a long generation, kept in a file: a resume is as exact with it as without, and never depends on it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from models_app.engines.base import Checkpoint, GenerateRequest, ModelSpec, RequestError, Resume
from models_app.engines.checkpoints import Origin, read
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.scheduler import SlotScheduler
from tests.engines.driving import GREEDY, SAMPLED, CacheReader, Driver, Outcome, chat_prompt
from tests.service import eventually

STORY = "Write a story about a king."
_EVERY = 10


class _Model(CacheReader):
    """The real model, which also counts the tokens that it computes."""

    computed = 0

    def prefill(self, slot: int, tokens: Sequence[int], *, last: bool) -> bool:
        self.computed += len(tokens)
        return super().prefill(slot, tokens, last=last)

    def decode(self, rows: Sequence[int | None], *, logits: bool) -> None:
        self.computed += sum(row is not None for row in rows)
        super().decode(rows, logits=logits)


@pytest.fixture(scope="module")
def model(spec: ModelSpec) -> Iterator[_Model]:
    loaded = _Model(replace(spec, context_length=256))
    yield loaded
    loaded.close()


@pytest.fixture
def driver(model: _Model) -> Driver:
    return Driver(SlotScheduler(model))


@pytest.fixture
def request_(tokenizer: Tokenizer, tmp_path: Path) -> GenerateRequest:
    checkpoint = Checkpoint(str(tmp_path / "cache"), every=_EVERY)
    return GenerateRequest(chat_prompt(tokenizer, STORY), SAMPLED, max_tokens=40, checkpoint=checkpoint)


@pytest.fixture
def outcome(driver: Driver, request_: GenerateRequest) -> Outcome:
    """A whole run, whose last checkpoint lies at some token after the first ten."""
    whole = driver.run_alone(request_)
    _held(request_)
    return whole


def _held(request: GenerateRequest) -> Origin:
    """Return what the request's checkpoint holds, once it is there."""
    assert request.checkpoint is not None
    path = Path(request.checkpoint.path)
    found = eventually(lambda: read(path), 10, "a checkpoint is written")
    assert found is not None
    return found[0]


def _resume(driver: Driver, request: GenerateRequest, resume: Resume) -> tuple[Outcome, int]:
    """Resume without overwriting the checkpoint; return also how many tokens were computed."""
    assert request.checkpoint is not None
    model = driver.engine._model
    assert isinstance(model, _Model)
    before = model.computed
    resumed = driver.resume(replace(request, checkpoint=replace(request.checkpoint, every=10_000)), resume)
    return resumed, model.computed - before


def test_a_resume_takes_from_the_checkpoint_what_it_holds_and_replays_the_rest(
    driver: Driver, request_: GenerateRequest, outcome: Outcome
) -> None:
    held = _held(request_)
    saved = len(held.tokens)
    assert _EVERY <= saved < 40
    assert list(held.tokens) == outcome.tokens[:saved]
    cut = 38
    resumed, computed = _resume(driver, request_, outcome.resume(cut))
    assert resumed.replayed.restored == saved
    assert outcome.tokens[:cut] + resumed.tokens == outcome.tokens
    assert outcome.text_after(cut) + resumed.text == outcome.text
    # From the checkpoint to the last token that had to be fed: nothing of it twice, and no prompt.
    assert computed == 39 - saved


def test_a_restored_cache_has_the_bits_that_a_replay_gives(
    driver: Driver, model: _Model, request_: GenerateRequest, outcome: Outcome
) -> None:
    digests = []
    for checkpoint in (request_.checkpoint, None):
        request = replace(request_, checkpoint=checkpoint and replace(checkpoint, every=10_000))
        _key, resumed = driver.submit(replace(request, resume=outcome.resume(38)))
        while not resumed.tokens:
            driver.step()
        digests.append((model.lengths[resumed.slot], model.digest(resumed.slot)))
        driver.finish()
    assert digests[0] == digests[1]


def test_a_checkpoint_ahead_of_the_journal_is_cut_to_it(
    driver: Driver, request_: GenerateRequest, outcome: Outcome
) -> None:
    """The engine saves a token before its commit: after a kill the file may know more than the log."""
    saved = len(_held(request_).tokens)
    for cut in (1, saved - 3, saved, saved + 1):
        resumed, computed = _resume(driver, request_, outcome.resume(cut))
        assert outcome.tokens[:cut] + resumed.tokens == outcome.tokens
        assert resumed.replayed.restored == min(saved, cut - 1)
        assert computed == 39 - min(saved, cut - 1)


def test_an_altered_journal_is_followed_from_the_token_on_that_was_altered(
    driver: Driver, request_: GenerateRequest, outcome: Outcome, tokenizer: Tokenizer
) -> None:
    request = replace(request_, sampling=GREEDY)
    [queen] = tokenizer.encode(" queen", add_special=False, parse_special=False)
    altered = Resume(outcome.slot, [*outcome.tokens[:6], queen, *outcome.tokens[7:20]], outcome.rows[:20])
    with_checkpoint, _ = _resume(driver, request, altered)
    assert with_checkpoint.replayed.restored == 6
    without = driver.resume(replace(request, checkpoint=None), altered)
    assert with_checkpoint.tokens == without.tokens
    untouched = driver.resume(replace(request, checkpoint=None), outcome.resume(20))
    assert without.tokens != untouched.tokens


def test_a_journal_of_other_row_counts_is_decoded_with_them(
    driver: Driver, request_: GenerateRequest, outcome: Outcome
) -> None:
    rows = [*outcome.rows[:5], 3, *outcome.rows[6:30]]
    resumed, _ = _resume(driver, request_, Resume(outcome.slot, outcome.tokens[:30], rows))
    assert resumed.replayed.restored == 4


def _cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)


def _rename_the_engine(file: Path) -> None:
    header, state = file.read_bytes().split(b"\n", 1)
    file.write_bytes(json.dumps(json.loads(header) | {"fingerprint": "another"}).encode() + b"\n" + state)


def _change_the_prompt(file: Path) -> None:
    header, state = file.read_bytes().split(b"\n", 1)
    fields = json.loads(header)
    file.write_bytes(json.dumps(fields | {"prompt": fields["prompt"][1:]}).encode() + b"\n" + state)


@pytest.mark.parametrize(
    "damage",
    [
        _cut_short,
        _flip_a_bit,
        _rename_the_engine,
        _change_the_prompt,
        Path.unlink,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"[1, 2]\nabc"),
        lambda file: file.write_bytes(b"\xff" * 1000),
    ],
    ids=["cut short", "a bit flipped", "another engine", "another prompt", "missing", "empty", "a list", "no text"],
)
def test_what_cannot_be_trusted_is_decoded_again(
    driver: Driver, request_: GenerateRequest, outcome: Outcome, damage: Callable[[Path], object]
) -> None:
    assert request_.checkpoint is not None
    damage(Path(request_.checkpoint.path))
    resumed, computed = _resume(driver, request_, outcome.resume(38))
    assert outcome.tokens[:38] + resumed.tokens == outcome.tokens
    assert resumed.replayed.restored == 0
    assert computed == len(request_.prompt) + 39


def test_checkpoints_come_at_growing_distances_and_are_for_their_owner_alone(
    driver: Driver, request_: GenerateRequest
) -> None:
    _key, outcome = driver.submit(replace(request_, max_tokens=120, sampling=GREEDY))
    saved: list[int] = []
    while not outcome.ended:
        driver.step()
        driver.engine._checkpoints.wait()
        sequence = next(filter(None, driver.engine._slots), None)
        if sequence and sequence.saved_at not in (*saved, len(request_.prompt)):
            saved.append(sequence.saved_at)
            assert len(_held(request_).tokens) == sequence.saved_at - len(request_.prompt)
    distances = [after - before for before, after in zip([len(request_.prompt), *saved], saved, strict=False)]
    assert distances == [max(_EVERY, before // 4) for before in [len(request_.prompt), *saved][: len(saved)]]
    assert distances[-1] > distances[0]
    assert request_.checkpoint is not None
    assert Path(request_.checkpoint.path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("fault", ["no room", "no directory"])
def test_a_checkpoint_that_cannot_be_written_hinders_nothing(
    driver: Driver, request_: GenerateRequest, tmp_path: Path, fault: str
) -> None:
    path = tmp_path / ("missing" if fault == "no directory" else "") / "cache"
    checkpoint = Checkpoint(str(path), keep_free=2**62 if fault == "no room" else 0, every=_EVERY)
    outcome = driver.run_alone(replace(request_, checkpoint=checkpoint))
    driver.engine._checkpoints.wait()
    assert outcome.tokens == driver.run_alone(replace(request_, checkpoint=None)).tokens
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fields", [{"path": "relative"}, {"path": "/x", "every": 0}, {"path": "/x", "keep_free": -1}])
def test_a_checkpoint_that_cannot_be_meant_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(RequestError, match="checkpoint"):
        GenerateRequest.from_dict({"prompt": [1], "checkpoint": fields})
