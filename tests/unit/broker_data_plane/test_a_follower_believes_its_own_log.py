"""What an answer says beside its records changes a follower no further than its own log bears it out."""

from pathlib import Path

import pytest

from broker.core.replica import FetchPosition
from broker.core.replica_log import EpochEnd
from broker.fetch_session import FetchedAnswer
from broker.replication import take_over
from tests.unit.broker_data_plane.planes import broker
from tests.unit.broker_data_plane.test_what_is_followed_no_more_is_not_touched import KEY, NOTHING, follows


async def test_behind_an_empty_answer_the_same_is_asked_again(tmp_path: Path) -> None:
    """KAFKA-15510: without the epoch of its last batch nobody finds where its log parts from the leader's."""
    async with broker(tmp_path) as one:
        follows(one)
        hosted = one.plane.hosted(*KEY)
        assert hosted is not None
        asked = FetchPosition(leader=2, leader_epoch=1, offset=2, last_epoch=1)
        for high_watermark in (1, 2, 2):
            assert hosted.replica.next_fetch() == asked
            take_over(one.plane, KEY, FetchedAnswer(KEY, asked, 0, high_watermark, 0, None, NOTHING))
            assert hosted.high_watermark == high_watermark
        assert hosted.replica.next_fetch() == asked


@pytest.mark.parametrize(("high_watermark", "then"), [(0, 0), (1, 1), (2, 1)])
async def test_an_answer_that_cuts_tells_of_no_record_that_is_committed(
    tmp_path: Path, high_watermark: int, then: int
) -> None:
    """KAFKA-14704: its high watermark counts records of the leader that this log does not hold."""
    async with broker(tmp_path) as one:
        follows(one, high_watermark)
        one.obey(2, leader=3, epoch=2, replicas=(1, 2, 3))
        hosted = one.plane.hosted(*KEY)
        assert hosted is not None
        asked = hosted.replica.next_fetch()
        assert asked is not None and asked.offset == 2
        take_over(one.plane, KEY, FetchedAnswer(KEY, asked, 0, 9, 0, EpochEnd(1, 1), NOTHING))
        assert (hosted.log.end_offset, hosted.high_watermark) == (1, then)
