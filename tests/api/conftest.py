"""What the tests of refused requests share."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.bodies import rows
from tests.service import Service


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx.Client]:
    """A client of the shared service."""
    with service.http() as client:
        yield client


@pytest.fixture(scope="module")
def quiet(service: Service) -> Iterator[None]:
    """The shared service while nothing in it changes by itself, and whose log shows no fault of its own."""
    service.settle()
    began = service.log.stat().st_size
    yield
    with service.log.open("rb") as log:
        log.seek(began)
        written = log.read()
    for sign in (b"Traceback", b"unforeseen", b"level=ERROR", b"level=CRITICAL", b"Internal Server Error"):
        assert sign not in written, written[max(0, written.index(sign) - 500) :][:3000].decode()


@pytest.fixture
def nothing_stored(service: Service, quiet: None) -> Iterator[None]:
    """See that the test leaves no row behind."""
    # The job of a scheduled purge comes and goes by itself.
    service.settle()
    before = rows(service)
    yield
    service.settle()
    assert rows(service) == before
