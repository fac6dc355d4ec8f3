"""One look for all dashboards, and none while none is open."""

import asyncio

from clients_app.models import Client
from tasks_app.board.watching import Board
from tests.store.tasks import running


def test_all_that_are_open_share_one_look_and_the_last_one_ends_it(client: Client) -> None:
    task, _ = running(client)

    async def watch() -> None:
        board = Board()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with board.open() as first:
            async with asyncio.timeout(30):
                while len(board.frames) < 3:
                    await first.wait()
                    first.clear()
            with board.open() as second:
                # What has been found out already is there at once.
                assert second.is_set()
                assert len(asyncio.all_tasks()) == 2
            number = board.frames["present"]["number"]
            async with asyncio.timeout(30):
                while board.frames["present"]["number"] == number:
                    await first.wait()
                    first.clear()
            (shown,) = board.frames["present"]["running"]
            assert (shown["id"], shown["text"]) == (task.pk, "")
            assert board.frames["standing"]["models"] == []
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert board.frames == {}

    asyncio.run(watch())
