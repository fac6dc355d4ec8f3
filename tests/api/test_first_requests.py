"""A web server that has just started, and is asked by many at once."""

from concurrent.futures import ThreadPoolExecutor

from tests.service import MODEL, Service


def test_the_first_requests_may_all_come_at_once(own_service: Service) -> None:
    body = {"model": MODEL, "input": "Hi", "max_output_tokens": 1}
    with own_service.http() as http, ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: http.post("/v1/tasks", json=body), range(16)))
    assert {answer.status_code for answer in answers} == {202}
