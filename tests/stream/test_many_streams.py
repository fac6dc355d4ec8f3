"""Many streams on one process."""

import asyncio
import json

from websockets.asyncio.client import connect

from tests.service import Service, eventually
from tests.stream import by_hand
from tests.stream.raw import WebProcess, open_stream, read_to_the_end

STREAMS = 100


def test_streams_take_no_threads_and_all_are_told(impatient: Service) -> None:
    task_id = by_hand.idle(impatient, "many")
    path = f"/v1/tasks/{task_id}/events"
    web = WebProcess(impatient)
    # What the first calls leave behind is there already.
    impatient.finished(impatient.create("Hi", max_output_tokens=1)["id"])
    few = [open_stream(impatient, path, websocket=False) for _ in range(10)]
    assert all(reader.recv(1 << 16) for reader in few)
    threads, sockets, memory = web.threads, web.sockets, web.megabytes
    readers = [open_stream(impatient, path, websocket=False) for _ in range(STREAMS)]
    heads = [reader.recv(1 << 16) for reader in readers]
    assert all(head.startswith(b"HTTP/1.1 200 ") for head in heads)

    async def on_sockets() -> list[list[str]]:
        headers = {"Authorization": f"Bearer {impatient.token}"}
        url = f"ws://127.0.0.1:{impatient.port}{path}"
        opened_ones = [await connect(url, additional_headers=headers, open_timeout=30) for _ in range(STREAMS)]
        for opened in opened_ones:
            for _ in range(2):
                await asyncio.wait_for(opened.recv(), 30)
        assert web.sockets - sockets >= 2 * STREAMS
        assert web.threads <= threads + 2
        assert (web.megabytes - memory) / (2 * STREAMS) < 0.25
        ran = await asyncio.to_thread(lambda: impatient.finished(impatient.create("Hi", max_output_tokens=4)["id"]))
        assert ran["status"] == "completed"
        await asyncio.to_thread(impatient.request, "POST", f"/v1/tasks/{task_id}/cancel")
        return [[json.loads(message)["type"] async for message in opened] for opened in opened_ones]

    assert asyncio.run(on_sockets()) == [["response.cancelled"]] * STREAMS
    assert all(read_to_the_end(reader).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n") for reader in few)
    for reader, head in zip(readers, heads, strict=True):
        told = head + read_to_the_end(reader)
        assert told.count(b"event: response.cancelled") == told.count(b"data: [DONE]") == 1
    eventually(lambda: web.sockets <= sockets, 30, "no connection is left over")
