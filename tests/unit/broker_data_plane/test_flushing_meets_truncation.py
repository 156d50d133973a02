"""Full segments are made durable in a thread while the loop deletes, cuts and goes on."""

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import ORDERS, broker
from tests.unit.broker_log.logs import append


async def test_a_segment_that_was_deleted_during_a_flush_does_not_come_back(tmp_path: Path) -> None:
    """An empty segment under an old name would end the log there at the next start."""
    async with broker(tmp_path) as one:
        one.obey(1, configs={"segment.bytes": "500"})
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        for _ in range(12):
            append(hosted.log, b"x" * 400)
        flushing = asyncio.create_task(one.plane.upkeep.flush_full_segments())
        await asyncio.sleep(0)
        hosted.log.truncate_to(1, now_ms=0)
        await flushing
        (left,) = hosted.log.folder.glob("*.log")
        assert int(left.stem) == 0


async def test_what_was_written_again_during_a_flush_does_not_count_as_durable(tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(file: object) -> None:
        begun.set()
        may_end.wait(10)

    async with broker(tmp_path) as one:
        one.obey(1, configs={"segment.bytes": "1000"})
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        for _ in range(4):
            append(hosted.log, b"x" * 400)
        with patch("os.fsync", slow):
            flushing = asyncio.create_task(one.plane.upkeep.flush_full_segments())
            await asyncio.to_thread(begun.wait, 10)
            hosted.log.truncate_to(1, now_ms=0)
            for _ in range(4):
                append(hosted.log, b"y" * 400, epoch=2)
            may_end.set()
            await flushing
        first_end = sorted(hosted.log.folder.glob("*.log"))[1].stem
        assert hosted.log.recovery_point < int(first_end)


async def test_a_flush_that_failed_closes_the_log_and_is_told(tmp_path: Path) -> None:
    """The kernel tells a lost write once: the next fsync would succeed, and be believed."""

    def fails(_file: object) -> NoReturn:
        raise OSError(errno.EIO, "the disk failed")

    told: list[str] = []
    async with broker(tmp_path) as one:
        one.obey(1, configs={"segment.bytes": "500"})
        one.plane.on_trouble = lambda: told.append("unusable")
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        for _ in range(4):
            append(hosted.log, b"x" * 400)
        with patch("os.fsync", fails):
            await one.plane.upkeep.flush_full_segments()
        await one.plane.upkeep.flush_full_segments()
        assert hosted.log.recovery_point == 0
        assert told == ["unusable"]
        assert one.plane.led("orders", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert one.plane.troubles.unusable == (hosted.key,)
        assert os.path.exists(hosted.log.folder)
        assert not await one.plane.close()
