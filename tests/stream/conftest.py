"""A service whose readers' patience is short, for tests of slow readers, many streams and old sockets."""

from collections.abc import Iterator

import pytest

from tests.service import Service

PATIENCE_SECONDS = 4.0
SOCKET_MINUTES = 0.1
ORIGIN = "https://app.example"


@pytest.fixture(scope="package")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of these tests' own; its database holds tasks that were written there by hand."""
    settings = {
        "LMSP_SLOW_READER_SECONDS": str(PATIENCE_SECONDS),
        "LMSP_SOCKET_MINUTES": str(SOCKET_MINUTES),
        "LMSP_ALLOWED_ORIGINS": f"https://other.example, {ORIGIN}",
    }
    with Service(tmp_path_factory.mktemp("impatient") / "data", **settings) as running:
        yield running
