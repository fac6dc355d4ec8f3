"""Headers by which browsers keep answers to themselves, on whatever is answered."""

import re

import httpx
import pytest

from tests.api.bodies import body, error
from tests.security.arranged import MOST_BYTES, PROXY
from tests.security.plain import ask, head, upgrade
from tests.service import Service

COMMON = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
PAGES = ("/admin/login/", "/v1/docs")


def headers_of(service: Service, name: str) -> httpx.Headers | dict[str, str]:
    match name:
        case "a stream":
            return service.request("POST", "/v1/responses", json=body(stream=True)).headers
        case "a refused host":
            return ask(service, head("GET", "/healthz", host="evil.example")).headers
        case "a refused socket":
            return ask(service, upgrade("/v1/events", host="evil.example")).headers
        case "no HTTP":
            return ask(service, b"nonsense\r\n\r\n").headers
        case "an oversized body":
            return ask(service, head("POST", "/v1/tasks", f"Content-Length: {MOST_BYTES + 1}")).headers
        case "a bad header":
            return ask(service, head("GET", "/healthz", "A\x0bB: c")).headers
    return service.request("GET", name).headers


@pytest.mark.parametrize(
    "name",
    [
        *(*PAGES, "/admin/", "/static/admin/css/base.css", "/v1/models", "/v1/openapi.json", "/healthz", "/nothing"),
        *("a stream", "a refused host", "a refused socket", "no HTTP", "an oversized body", "a bad header"),
    ],
)
def test_every_answer_has_them_once(guarded: Service, name: str) -> None:
    headers = headers_of(guarded, name)
    assert {key: headers[key] for key in COMMON} == COMMON
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["frame-ancestors"]) == ("'none'", "'none'")
    assert "unsafe" not in headers["content-security-policy"]
    assert ("script-src" in policy) == headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", PAGES)
def test_nothing_inline_is_on_a_page_nor_anything_of_another_host(guarded: Service, path: str) -> None:
    page = guarded.request("GET", path).text
    assert not re.findall(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert not [tag for tag in re.findall(r"<script[^>]*>", page) if "src=" not in tag]
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)


def test_private_answers_are_kept_in_no_cache(guarded: Service) -> None:
    assert guarded.request("GET", "/v1/tasks").headers["cache-control"] == "no-store"
    assert "no-store" in guarded.request("GET", "/admin/login/").headers["cache-control"]
    assert guarded.request("GET", "/v1/openapi.json").headers["cache-control"] == "public, max-age=300"


def test_a_form_without_its_token_is_refused_in_the_envelope(guarded: Service) -> None:
    for headers in ({}, {"Origin": "https://evil.example"}):
        answer = guarded.request("POST", "/admin/login/", data={"username": "admin", "password": "x"}, headers=headers)
        assert error(answer, 403)["code"] == "csrf_failed"


def test_cookies_are_for_this_site_and_scripts_do_not_see_them(guarded: Service) -> None:
    cookie = guarded.request("GET", "/admin/login/").headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert "Secure" not in cookie


def test_they_are_secure_behind_a_trusted_proxy_that_speaks_tls_and_only_there(guarded: Service) -> None:
    request = head("GET", "/admin/login/", "X-Forwarded-Proto: https", "X-Forwarded-For: 203.0.113.9")
    assert "Secure" in ask(guarded, request, source=PROXY).headers["set-cookie"].split("; ")
    assert "Secure" not in ask(guarded, request).headers["set-cookie"]


def test_a_form_that_comes_through_tls_is_taken_where_the_proxy_is_trusted_and_only_there(guarded: Service) -> None:
    page = ask(guarded, head("GET", "/admin/login/", "X-Forwarded-Proto: https"), source=PROXY)
    cookie = page.headers["set-cookie"].partition(";")[0]
    form = f"csrfmiddlewaretoken={cookie.partition('=')[2]}&username=nobody&password=nothing".encode()
    request = head(
        "POST",
        "/admin/login/",
        *("X-Forwarded-Proto: https", "Origin: https://127.0.0.1", f"Cookie: {cookie}"),
        *("Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}"),
    )
    taken = ask(guarded, request + form, source=PROXY)
    assert (taken.status, b"correct username" in taken.body) == (200, True)
    refused = ask(guarded, request + form)
    assert (refused.status, refused.code) == (403, "csrf_failed")
    assert b"LMSP_TRUSTED_PROXIES" in refused.body
