"""What an election lost is told of the partition that has the number now, not of one that was removed."""

from pathlib import Path

import pytest

from broker.core.replica import FetchPosition
from broker.core.replica_log import PartitionKey
from muster.messages.link.losses import NOT_KNOWN, LossAsked, LossReport
from muster.messages.link.rows import PartitionRow, TopicRow
from muster.messages.link.to_broker import SnapshotChunk
from tests.unit.broker_data_plane.planes import ORDERS, broker
from tests.unit.broker_log.logs import append

KEY = PartitionKey(ORDERS, 0)


async def test_whoever_comes_back_with_a_removed_one_answers_for_the_next(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1)
        hosted = one.plane.hosted(*KEY)
        assert hosted is not None
        append(hosted.log, b"of the partition that was removed", epoch=1)
        # It was away: partitions of this number up to epoch 3 are no more, and 2 was elected in epoch 5.
        asked = LossAsked(ORDERS, 0, 5, 2)
        one.plane.losses.hear(SnapshotChunk(metadata_version=7, number=0, last=True, losses=(asked,)), (KEY,))
        row = PartitionRow(ORDERS, 0, (2, 1), 2, 5, (2,), 7, base_epoch=3)
        one.plane.obey(row, from_snapshot=True)
        assert one.plane.append_fetched(KEY, FetchPosition(2, 5, 0, -1), None, 0)
        assert one.plane.losses.reports() == (LossReport(ORDERS, 0, 5, 0, 0, 0, 0),)


@pytest.mark.parametrize("base_epoch", [0, 3])
async def test_a_log_from_which_the_partition_moved_away_meanwhile_answers_if_it_is_of_this_one(
    tmp_path: Path, base_epoch: int
) -> None:
    async with broker(tmp_path) as before:
        before.obey(1)
        hosted = before.plane.hosted(*KEY)
        assert hosted is not None
        append(hosted.log, b"acknowledged", epoch=1)
        hosted.replica.appended()
    async with broker(tmp_path) as one:
        one.plane.know_topics([TopicRow(ORDERS, "orders", 1, 1, {})])
        asked = LossAsked(ORDERS, 0, 5, 2)
        one.plane.losses.hear(SnapshotChunk(metadata_version=7, number=0, last=True, losses=(asked,)), (KEY,))
        elsewhere = PartitionRow(ORDERS, 0, (2, 3), 2, 5, (2, 3), 7, base_epoch=base_epoch)
        assert one.plane.obey(elsewhere, from_snapshot=True)
        held = LossReport(ORDERS, 0, 5, 1, NOT_KNOWN, 1, NOT_KNOWN)
        assert one.plane.losses.reports() == (() if base_epoch else (held,))
        assert (one.plane.hosted(*KEY), one.plane.keys_on_disk) == (None, frozenset())
        assert not one.plane.obey(elsewhere, from_snapshot=True), "it is gone"
