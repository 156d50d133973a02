"""What an election lost is told of the partition that has the number now, not of one that was removed."""

from pathlib import Path

from broker.core.replica import FetchPosition
from broker.core.replica_log import PartitionKey
from muster.messages.link.losses import LossAsked, LossReport
from muster.messages.link.rows import PartitionRow
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
