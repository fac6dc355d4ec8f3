"""Settings that would open a door by mistake are refused, and the message says which."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from lmsp_site import address, configuration


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("LMSP_ALLOWED_HOSTS", value) for value in ("*", "a.example, *", "https://a.example", "a.example:8000", ".")],
        *[("LMSP_ALLOWED_ORIGINS", value) for value in ("*", "null", "a.example", "https://*.example", "https://a/b")],
        *[("LMSP_TRUSTED_PROXIES", value) for value in ("*", "proxy.example", "10.0.0.1/8", "127.0.0.1:80")],
        ("LMSP_SLOW_REQUEST_SECONDS", "0"),
        ("LMSP_MAX_HEADERS", "0"),
        ("LMSP_MAX_HEADER_KB", "1e9"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured, match=name):
        configuration.from_environment()


def test_what_can_be_meant_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMSP_ALLOWED_HOSTS", "a.example, .b.example,[fd00::1], machine_1")
    monkeypatch.setenv("LMSP_ALLOWED_ORIGINS", "https://a.example,http://localhost:3000, chrome-extension://abc")
    monkeypatch.setenv("LMSP_TRUSTED_PROXIES", "127.0.0.1, ::1,10.0.0.0/8")
    read = configuration.from_environment()
    assert read.allowed_hosts == ("a.example", ".b.example", "[fd00::1]", "machine_1")
    assert read.allowed_origins == ("https://a.example", "http://localhost:3000", "chrome-extension://abc")
    assert [str(network) for network in read.trusted_proxies] == ["127.0.0.1/32", "::1/128", "10.0.0.0/8"]


def test_without_settings_nobody_else_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LMSP_ALLOWED_HOSTS", "LMSP_ALLOWED_ORIGINS", "LMSP_TRUSTED_PROXIES", "LMSP_HOST"):
        monkeypatch.delenv(name, raising=False)
    read = configuration.from_environment()
    assert (read.allowed_hosts, read.allowed_origins, read.trusted_proxies) == ((), (), ())
    assert read.host == "127.0.0.1"


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert [address.in_url(host) for host in ("fd00::1", "127.0.0.1", "a.example")] == [
        "[fd00::1]",
        "127.0.0.1",
        "a.example",
    ]
