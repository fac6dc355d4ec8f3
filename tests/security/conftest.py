"""A service whose limits are small and which knows one page, one name and one proxy: for tests of who is kept out."""

from collections.abc import Iterator

import pytest

from tests.security.arranged import (
    ALLOWED_HOST,
    ALLOWED_ORIGIN,
    MOST_BYTES,
    MOST_HEADERS,
    PATIENCE_SECONDS,
    PROXY,
)
from tests.service import Service


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {
        "LMSP_ALLOWED_ORIGINS": f"https://other.example, {ALLOWED_ORIGIN}",
        "LMSP_ALLOWED_HOSTS": ALLOWED_HOST,
        "LMSP_TRUSTED_PROXIES": f"10.1.0.0/16, {PROXY}",
        "LMSP_MAX_BODY_MB": str(MOST_BYTES >> 20),
        "LMSP_MAX_HEADERS": str(MOST_HEADERS),
        "LMSP_SLOW_REQUEST_SECONDS": str(PATIENCE_SECONDS),
        # As much as there is, for `test_secrets`.
        "LMSP_LOG_LEVEL": "DEBUG",
    }
    with Service(tmp_path_factory.mktemp("guarded") / "data", **settings) as running:
        yield running


@pytest.fixture(scope="package")
def password(guarded: Service) -> str:
    """The password of the user `admin`."""
    made: str = guarded.manage("quickstart")["password"]
    return made
