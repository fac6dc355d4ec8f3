"""The line over which each client reaches the shared service, and what is set up for clients of other worlds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.clients import installing
from tests.clients.line import Line
from tests.service import Service


@pytest.fixture(scope="module")
def line(service: Service) -> Iterator[Line]:
    """A line to the shared service, one for each module."""
    with Line(service.port) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _all_that_is_seen_is_valid(line: Line) -> Iterator[None]:
    yield
    line.check()


@pytest.fixture(scope="module")
def official(line: Line, service: Service) -> Iterator[OpenAI]:
    """The official Python client."""
    with OpenAI(base_url=f"{line.url}/v1", api_key=service.token, max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def agents_python() -> Path:
    """The interpreter of an environment that has the Agents SDK."""
    return installing.agents_environment()


@pytest.fixture(scope="session")
def node_tests() -> Path:
    """The folder of the JavaScript tests, beside the modules that they need."""
    return installing.node_modules()
