"""After an unclean election thousands of logs are cut below what was committed: the file says so once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.core.replica_log import PartitionKey
from broker.log import checkpoints, shelf, stated_offsets
from broker.replication import Replication
from tests.unit.broker_data_plane.planes import KEY, ORDERS, broker
from tests.unit.broker_data_plane.test_a_follower_goes_on_after_a_mistake import _leader_at, _settings
from tests.unit.broker_log.logs import append

COUNT = 20
KEYS = [PartitionKey(ORDERS, number) for number in range(COUNT)]


async def test_what_was_committed_is_stated_anew_once_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Mapping[PartitionKey, int]] = []

    def noted(path: Path, offsets: Mapping[PartitionKey, int]) -> None:
        if path.name == shelf.HIGH_WATERMARKS:
            saved.append(dict(offsets))
        checkpoints.save_offsets(path, offsets)

    monkeypatch.setattr(stated_offsets, "save_offsets", noted)
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two:
        for each, written in ((one, 4), (two, 9)):
            each.obey(1, leader=2, replicas=(1, 2), partitions=COUNT)
            for key in KEYS:
                hosted = each.plane.hosted(*key)
                assert hosted is not None
                for _ in range(written):
                    append(hosted.log, b"old")
                hosted.replica.high_watermark = written
        await two.plane.upkeep.checkpoint()
        assert saved.pop() == dict.fromkeys(KEYS, 9) and not saved
        for each in (one, two):
            each.obey(2, epoch=2, replicas=(1, 2), isr=(1,), partitions=COUNT)
        for key in KEYS:
            leads = one.plane.hosted(*key)
            assert leads is not None
            append(leads.log, b"new", epoch=2)
        replication = Replication(two.plane, _settings(tmp_path))
        replication.know_self(1, KEY)
        try:
            replication.know_brokers(_leader_at(str(one.replication_port)))
            for key in KEYS:
                replication.look_at(key)
            async with asyncio.timeout(20):
                while any(hosted.log.last_epoch != 2 for hosted in two.plane.partitions()):
                    await asyncio.sleep(0.01)
        finally:
            await replication.close()
        assert saved[-1] == dict.fromkeys(KEYS, 4)
        assert len(saved) < 4, "once for each answer, not for each log"
