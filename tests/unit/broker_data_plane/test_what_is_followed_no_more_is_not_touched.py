"""An answer that was under way when its partition was taken from its follower (KAFKA-13207, KAFKA-8012)."""

from pathlib import Path

import pytest

from broker.core.replica import FetchPosition
from broker.core.replica_log import EpochEnd, PartitionKey
from broker.fetch_session import FetchedAnswer
from broker.replication import take_over
from muster.kafkawire import batches
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker
from tests.unit.kafkawire.made_batches import made_batch


def sent(offset: int, *values: bytes) -> memoryview:
    """A batch as the leader of epoch 1 stored it at `offset`."""
    records = memoryview(made_batch(values))
    batches.stamp(records, 0, offset, 1)
    return records


KEY = PartitionKey(ORDERS, 0)
ASKED = FetchPosition(leader=2, leader_epoch=1, offset=2, last_epoch=1)
NOTHING = memoryview(b"")
ANSWERS = {
    "records": FetchedAnswer(KEY, ASKED, 0, 3, 0, None, sent(2, b"late")),
    "nothing but a high watermark": FetchedAnswer(KEY, ASKED, 0, 2, 0, None, NOTHING),
    "where the logs part": FetchedAnswer(KEY, ASKED, 0, 0, 0, EpochEnd(1, 1), NOTHING),
    "a later start": FetchedAnswer(KEY, ASKED, ErrorCode.OFFSET_OUT_OF_RANGE, 9, 9, None, NOTHING),
}


def follows(one: Broker, high_watermark: int = 1) -> None:
    """Broker 1 holds two records of broker 2, of which so many are committed, and has asked for the next."""
    one.obey(1, leader=2, replicas=(1, 2))
    for offset, value in enumerate((b"a", b"b")):
        asked = FetchPosition(leader=2, leader_epoch=1, offset=offset, last_epoch=-1)
        assert one.plane.append_fetched(KEY, asked, sent(offset, value), high_watermark)


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_it_stops_nobody_and_makes_no_log_when_the_partition_is_here_no_more(
    tmp_path: Path, answer: FetchedAnswer
) -> None:
    async with broker(tmp_path) as one:
        follows(one)
        one.plane.stop(*KEY)
        take_over(one.plane, KEY, answer)
        assert one.plane.hosted(*KEY) is None


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("leader", [1, -1, 3])
async def test_it_changes_no_log_that_follows_that_leader_no_more(
    tmp_path: Path, answer: FetchedAnswer, leader: int
) -> None:
    async with broker(tmp_path) as one:
        follows(one)
        one.obey(2, leader=leader, epoch=2, replicas=(1, 2, 3))
        hosted = one.plane.hosted(*KEY)
        assert hosted is not None
        before = (hosted.log.start_offset, hosted.log.end_offset, hosted.high_watermark)
        take_over(one.plane, KEY, answer)
        assert (hosted.log.start_offset, hosted.log.end_offset, hosted.high_watermark) == before == (0, 2, 1)
