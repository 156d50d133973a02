"""A broker that checks its logs after a kill goes on meanwhile, and no log is opened twice at once."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.log.checkpoints import LEADER_EPOCHS
from broker.replicas import DataPlane
from muster.messages.link.rows import PartitionRow, TopicRow
from tests.unit.broker_data_plane.planes import ORDERS, broker
from tests.unit.kafkawire.made_batches import made_batch, view

ROW = PartitionRow(ORDERS, 0, (1,), 1, 1, (1,), 1)


class SlowFile:
    """A file that whoever opens the log waits for: a pipe in its place, until the content is given."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        self._end = -1

    async def until_somebody_reads(self) -> None:
        """Return as soon as a reader waits; the loop must be free for that."""
        while self._end < 0:
            try:
                self._end = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                await asyncio.sleep(0.001)

    def give(self) -> None:
        os.write(self._end, self._content)
        os.close(self._end)


@asynccontextmanager
async def starting_again(folder: Path) -> AsyncIterator[tuple[DataPlane, SlowFile]]:
    """A broker that was killed with one record in orders-0, as it starts; to read its log takes time."""
    async with broker(folder) as killed:
        killed.obey(1)
        hosted = killed.plane.hosted(ORDERS, 0)
        assert hosted is not None
        hosted.log.append_as_leader(view(made_batch([b"a"])), 1, 0)
    slow = SlowFile(folder / "1" / "orders-0" / LEADER_EPOCHS)
    async with asyncio.timeout(30), broker(folder) as again:
        again.plane.know_topics([TopicRow(ORDERS, "orders", 1, 1, {})])
        yield again.plane, slow


def end_offset(plane: DataPlane) -> int:
    plane.obey(ROW)
    hosted = plane.hosted(ORDERS, 0)
    assert hosted is not None
    return hosted.log.end_offset


async def test_the_loop_goes_on_while_a_log_is_opened(tmp_path: Path) -> None:
    async with starting_again(tmp_path) as (plane, slow):
        opening = asyncio.create_task(plane.open_logs())
        await slow.until_somebody_reads()
        assert not opening.done()
        slow.give()
        await opening
        assert end_offset(plane) == 1


async def test_a_stop_waits_for_the_log_that_is_being_opened(tmp_path: Path) -> None:
    async with starting_again(tmp_path) as (plane, slow):
        opening = asyncio.create_task(plane.open_logs())
        await slow.until_somebody_reads()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        closing = asyncio.create_task(plane.close())
        await asyncio.sleep(0)
        assert not closing.done()
        slow.give()
        assert await closing
