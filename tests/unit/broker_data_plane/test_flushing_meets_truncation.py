"""Full segments are made durable in a thread while the loop deletes, cuts and goes on."""

import asyncio
from pathlib import Path

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
        flushing = asyncio.create_task(one.plane.flush_full_segments())
        await asyncio.sleep(0)
        hosted.log.truncate_to(1, now_ms=0)
        await flushing
        (left,) = hosted.log.folder.glob("*.log")
        assert int(left.stem) == 0
