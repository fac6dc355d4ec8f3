"""How every engine chooses tokens, and what it says of them, over each that this machine can run."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from models_app.engines import grammar
from models_app.engines.base import GenerateRequest, RequestError
from models_app.engines.messages import Failed, Finished, Tokens
from models_app.engines.sampling import SamplingParams
from tests.engines.driving import GREEDY, HOT, PERSON, SAMPLED, Driver, Outcome, assert_continues
from tests.engines.subjects import Subject


@pytest.fixture
def driver(subject_driver: Driver) -> Driver:
    return subject_driver


def _story(subject: Subject, sampling: SamplingParams = GREEDY, **changes: Any) -> GenerateRequest:
    return GenerateRequest(subject.encode("Write a story about a king."), sampling, **changes)


def _person(subject: Subject, sampling: SamplingParams, **changes: Any) -> GenerateRequest:
    return _story(subject, sampling, grammar=grammar.from_json_schema(PERSON), **changes)


def _assert_person(text: str) -> None:
    jsonschema.validate(json.loads(text), PERSON)


def _said(outcome: Outcome) -> list[Mapping[str, Any]]:
    return [said for message in outcome.messages for said in getattr(message, "logprobs", [])]


def test_whatever_the_seed_the_output_is_what_the_schema_describes(subject: Subject, driver: Driver) -> None:
    requests = [_person(subject, GREEDY)]
    requests += [_person(subject, replace(HOT, seed=seed)) for seed in range(7)]
    outcomes = driver.run(*requests)
    for outcome in outcomes:
        assert outcome.finished.reason == "stop"
        assert subject.vocabulary.is_end(outcome.tokens[-1])
        _assert_person(outcome.text)
    assert len({outcome.text for outcome in outcomes}) > 4, "seeds make a difference"


def test_an_output_that_is_cut_is_the_beginning_of_one_that_is_valid(subject: Subject, driver: Driver) -> None:
    request = _person(subject, HOT)
    whole, cut = (driver.run_alone(one) for one in (request, replace(request, max_tokens=9)))
    assert cut.finished.reason == "length"
    assert cut.tokens == whole.tokens[:9]


def test_an_output_that_is_gone_on_with_follows_its_grammar_to_the_end(subject: Subject, driver: Driver) -> None:
    request = _person(subject, HOT)
    whole = driver.run_alone(request)
    for cut in (1, len(whole.tokens) // 2, len(whole.tokens) - 1):
        resumed = driver.resume(request, whole.resume(cut))
        assert resumed.finished.reason == "stop"
        _assert_person(subject.text([*whole.tokens[:cut], *resumed.tokens]))
        if subject.is_exact:
            assert_continues(whole, resumed, cut)


def test_penalties_and_bias_cannot_lead_out_of_the_grammar(subject: Subject, driver: Driver) -> None:
    quote, other = subject.plain('"')[0], subject.plain("z")[0]
    sampling = replace(GREEDY, repeat_penalty=5.0, frequency_penalty=2.0, logit_bias=[(quote, -100.0), (other, 100.0)])
    _assert_person(driver.run_alone(_person(subject, sampling)).text)


def test_a_grammar_that_this_vocabulary_cannot_follow_fails_its_request_alone(subject: Subject, driver: Driver) -> None:
    free = _story(subject, max_tokens=12)
    broken = replace(free, grammar=grammar.from_lark('start: <|no_such_token|> "x"'))
    neighbour, failed = driver.run(free, broken)
    last = failed.messages[-1]
    assert isinstance(last, Failed)
    assert last.code == "grammar_error"
    assert "no_such_token" in last.message
    assert neighbour.ended
    assert neighbour.text == driver.run_alone(free).text


def test_a_bias_bans_or_demands_a_token(subject: Subject, driver: Driver) -> None:
    request = _story(subject, max_tokens=4)
    first = driver.run_alone(request).tokens[0]
    banned = driver.run_alone(replace(request, sampling=replace(GREEDY, logit_bias=[(first, -100.0)])))
    assert first not in banned.tokens
    wanted = subject.plain("z")[0]
    demanded = driver.run_alone(replace(request, sampling=replace(GREEDY, logit_bias=[(wanted, 100.0)])))
    assert demanded.tokens == [wanted] * 4


def test_a_bias_for_a_token_that_the_model_lacks_is_refused(subject: Subject, driver: Driver) -> None:
    with pytest.raises(RequestError, match="logit_bias"):
        driver.submit(_story(subject, replace(GREEDY, logit_bias=[(subject.vocabulary.size, 1.0)])))


def test_each_token_of_the_output_has_its_log_probability_and_its_end_none(subject: Subject, driver: Driver) -> None:
    outcome = driver.run_alone(_person(subject, GREEDY, top_logprobs=3))
    assert outcome.finished.reason == "stop"
    said = _said(outcome)
    assert len(said) == len(outcome.tokens) - 1
    assert b"".join(bytes(one["bytes"]) for one in said).decode() == outcome.text
    for one in said:
        likeliest = [entry["logprob"] for entry in one["top_logprobs"]]
        assert len(likeliest) == 3
        assert likeliest == sorted(likeliest, reverse=True)
        assert one["logprob"] <= likeliest[0] <= 0


def test_log_probabilities_are_the_models_own_however_a_token_was_chosen(subject: Subject, driver: Driver) -> None:
    request = _story(subject, max_tokens=1, top_logprobs=5)
    [free] = _said(driver.run_alone(request))
    assert {**free, "top_logprobs": []} == {**free["top_logprobs"][0], "top_logprobs": []}, "the likeliest was taken"
    wanted = subject.plain("z")[0]
    for changed in (
        replace(request, sampling=replace(SAMPLED, temperature=1.9, logit_bias=[(wanted, 100.0)])),
        replace(request, grammar=grammar.from_regex("z+")),
    ):
        [forced] = _said(driver.run_alone(changed))
        assert forced["token"].startswith("z")
        assert forced["logprob"] < free["logprob"]
        # Two ways through the same kernels differ by a few hundredths: a prompt that comes again is read otherwise.
        for one, other in zip(forced["top_logprobs"], free["top_logprobs"], strict=True):
            assert one["logprob"] == pytest.approx(other["logprob"], abs=0.08)


def test_nobody_is_told_who_has_not_asked(subject: Subject, driver: Driver) -> None:
    asked = _story(subject, max_tokens=6, top_logprobs=2)
    told, spared = (driver.run_alone(request) for request in (asked, replace(asked, top_logprobs=None)))
    assert told.tokens == spared.tokens
    assert _said(spared) == []
    assert all(len(m.logprobs) == 1 for m in told.messages if isinstance(m, Tokens | Finished))
