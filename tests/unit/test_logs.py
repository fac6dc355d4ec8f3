"""Log lines: one record, one line, whatever is in it."""

import json
import logging
import os
import re
import subprocess
import sys
from io import StringIO

import pytest
from django.test import RequestFactory

from clients_app import tokens
from lmsp_site import logs


class Written:
    """A logger and the lines that it wrote."""

    def __init__(self, log_format: str) -> None:
        self.stream = StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(logs.FORMATTERS[log_format]())
        # Not a registered logger: pytest puts handlers of its own on those.
        self.logger = logging.Logger("tests.logs")  # noqa: LOG001
        self.logger.addHandler(handler)

    @property
    def text(self) -> str:
        return self.stream.getvalue()


@pytest.fixture
def keyvalue() -> Written:
    return Written("keyvalue")


@pytest.fixture
def as_json() -> Written:
    return Written("json")


@pytest.fixture(params=logs.FORMATTERS)
def either(request: pytest.FixtureRequest) -> Written:
    return Written(request.param)


def test_a_line_says_time_level_logger_event_and_task(keyvalue: Written) -> None:
    keyvalue.logger.info("claimed %s", "it", extra={"task": "task_1", "attempt": 2, "seconds": 0.25})

    assert re.fullmatch(
        r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO logger=tests\.logs "
        r'event="claimed it" task=task_1 attempt=2 seconds=0\.25\n',
        keyvalue.text,
    )


def test_the_same_fields_as_json(as_json: Written) -> None:
    as_json.logger.warning("lost", extra={"task": "task_1", "attempt": 2, "cause": None})

    line = json.loads(as_json.text)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "WARNING",
        "logger": "tests.logs",
        "event": "lost",
        "task": "task_1",
        "attempt": 2,
        "cause": None,
    }


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\u2028b", "a\x85b", "a\tb", "a\udc80b"])
def test_no_value_breaks_the_line(either: Written, text: str) -> None:
    either.logger.info("%s", text, extra={"value": text})

    line = either.text
    assert line.removesuffix("\n").isprintable()
    assert line.count("\n") == 1


@pytest.mark.parametrize("text", ["", "two words", 'say "hi"', "a=b", "back\\slash", "grün", "plain"])
def test_a_value_can_be_read_back(keyvalue: Written, text: str) -> None:
    keyvalue.logger.info("e", extra={"value": text})

    word = keyvalue.text.removesuffix("\n").partition(" value=")[2]
    assert (json.loads(word) if word.startswith('"') else word) == text


def test_an_exception_is_one_field(either: Written) -> None:
    try:
        int("first\nsecond")
    except ValueError:
        either.logger.exception("failed")

    line = either.text
    assert line.count("\n") == 1
    assert "exception" in line
    assert "ValueError: invalid literal" in line


def test_an_extra_never_hides_what_every_line_has(either: Written) -> None:
    either.logger.info("true event", extra={"event": "false event", "level": 7})

    assert "true event" in either.text
    assert "event_" in either.text
    assert "INFO" in either.text


def test_numbers_json_does_not_know_are_text(as_json: Written) -> None:
    as_json.logger.info("e", extra={"value": float("nan")})

    assert json.loads(as_json.text)["value"] == "nan"


def test_a_process_logs_to_standard_error_only() -> None:
    program = "from lmsp_site import logs; import logging; logs.configure(); logging.info('here')"
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LMSP_LOG_FORMAT": "json", "LMSP_LOG_LEVEL": "INFO"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert process.stdout == ""
    assert json.loads(process.stderr)["event"] == "here"


def test_calls_that_are_refused_on_purpose_are_no_errors_and_faults_are() -> None:
    program = (
        "from lmsp_site import logs; import logging; logs.configure()\n"
        "for status in (503, 500): logging.getLogger('django.request').error('here', extra={'status_code': status})"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LMSP_LOG_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [json.loads(line)["status_code"] for line in process.stderr.splitlines()] == [500]


@pytest.mark.parametrize("cut", [0, 20])
def test_a_token_is_masked_wherever_it_stands_and_an_id_is_not(either: Written, cut: int) -> None:
    token = tokens.generate()
    shown = token[: len(token) - cut]
    either.logger.warning(
        "used %s", shown, extra={"given": shown, shown: "name", "task": "task_01m8qt55m7m08tnberks22ewsh"}
    )
    try:
        int(shown)
    except ValueError:
        either.logger.exception("lmsp_time_per_output_token_seconds")
    assert shown[:16] not in either.text
    assert either.text.count("lmsp_[token]") == 4
    assert "task_01m8qt55m7m08tnberks22ewsh" in either.text
    assert "lmsp_time_per_output_token_seconds" in either.text


def test_a_request_is_shown_without_its_query(either: Written) -> None:
    request = RequestFactory().get("/nothing", {"password": "hidden"})
    either.logger.warning("Not Found", extra={"status_code": 404, "request": request})
    assert "GET /nothing" in either.text
    assert "hidden" not in either.text
