"""Callers that post the same request again and again, each on a connection of its own."""

import http.client
import json
import threading
import time
from typing import Any


def posted(
    address: tuple[str, int], path: str, token: str, body: dict[str, Any], *, connections: int, seconds: float
) -> list[float]:
    """Post from so many connections at once for so many seconds; return how long each accepted request took.

    Raises:
        RuntimeError: a request was answered by anything but 202.
    """
    encoded = json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    took: list[float] = []
    wrong: list[str] = []
    end = time.perf_counter() + seconds

    def post() -> None:
        connection = http.client.HTTPConnection(*address, timeout=30)
        try:
            while (began := time.perf_counter()) < end and not wrong:
                connection.request("POST", path, encoded, headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != http.client.ACCEPTED:
                    wrong.append(f"{answer.status} {text[:300].decode(errors='replace')}")
                    return
                took.append(time.perf_counter() - began)
        except OSError as error:
            wrong.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise RuntimeError(f"POST {path} was not accepted: {wrong[0]}")
    return took
