"""High watermarks are written in a thread: while the disk takes its time, the broker serves on."""

import asyncio
import os
from pathlib import Path

import pytest

from broker.core.replica_log import PartitionKey
from broker.log.checkpoints import load_offsets
from broker.log.outcomes import StorageFailed
from broker.log.shelf import HIGH_WATERMARKS
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker
from tests.unit.broker_log.logs import append

FIRST = PartitionKey(ORDERS, 0)


def _with_a_record(one: Broker) -> None:
    one.obey(1)
    hosted = one.plane.hosted(*FIRST)
    assert hosted is not None
    append(hosted.log, b"a")
    hosted.replica.appended()


def _read(fifo: Path) -> str:
    return fifo.read_text(encoding="ascii")


async def test_the_loop_goes_on_while_the_file_cannot_be_written(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        _with_a_record(one)
        slow = one.plane.folder / f"{HIGH_WATERMARKS}.tmp"
        # Nobody writes into it before somebody reads.
        os.mkfifo(slow)
        checkpoint = asyncio.create_task(one.plane.upkeep.checkpoint())
        done, _ = await asyncio.wait((checkpoint,), timeout=0.1)
        assert not done
        assert f"{ORDERS} 0 1" in await asyncio.to_thread(_read, slow)
        await checkpoint


async def test_what_could_not_be_written_is_written_by_the_next(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        _with_a_record(one)
        in_the_way = one.plane.folder / f"{HIGH_WATERMARKS}.tmp"
        in_the_way.mkdir()
        with pytest.raises(StorageFailed):
            await one.plane.upkeep.checkpoint()
        in_the_way.rmdir()
        await one.plane.upkeep.checkpoint()
        assert load_offsets(one.plane.folder / HIGH_WATERMARKS) == {FIRST: 1}
