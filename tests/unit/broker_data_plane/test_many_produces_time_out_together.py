"""Thousands of parked produces that end at once cost as much as they are, not its square."""

from pathlib import Path

from broker.core.replica import Replica
from broker.core.replica_log import PartitionKey
from broker.hosted import HostedPartition
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.rows import PartitionRow
from tests.unit.broker_log.logs import ORDERS, append, opened


class Producer:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def committed(self, key: PartitionKey) -> None:
        self.heard.append(key)

    def refused(self, key: PartitionKey, error_code: ErrorCode) -> None:
        self.heard.append(error_code)


def _hosted(folder: Path) -> HostedPartition:
    key, log = PartitionKey(ORDERS, 0), opened(folder)
    hosted = HostedPartition(key, "orders", log, Replica(1, log))
    hosted.replica.obey(PartitionRow(ORDERS, 0, (1,), 1, 1, (1,), 1), Instant(0))
    return hosted


def test_the_queue_is_swept_as_they_leave(tmp_path: Path) -> None:
    hosted = _hosted(tmp_path)
    producers = [Producer() for _ in range(20_000)]
    for producer in producers:
        hosted.await_commit(10, producer)
    for producer in producers:
        hosted.forget(producer)
        assert hosted.commits_awaited() <= 20_000
    assert hosted.commits_awaited() == 0


def test_who_left_is_told_nothing_and_who_stayed_is(tmp_path: Path) -> None:
    hosted = _hosted(tmp_path)
    gone, stays, waits_on = Producer(), Producer(), Producer()
    for producer, offset in ((gone, 1), (stays, 1), (gone, 1), (waits_on, 9), (waits_on, 9)):
        hosted.await_commit(offset, producer)
    hosted.forget(gone)
    append(hosted.log, b"a")
    hosted.log_grew()
    hosted.leadership_changed()
    assert gone.heard == []
    assert stays.heard == [hosted.key]
    assert waits_on.heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
