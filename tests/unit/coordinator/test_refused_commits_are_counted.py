"""Whoever asks why a commit was refused finds it counted by its error, in part or whole."""

from coordinator.core.events import ConnectionId
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Position
from runtime.metrics import REGISTRY
from tests.unit.coordinator.shards import Shards, eventually, readers
from tests.unit.coordinator_core.group import orders

KEY = "readers"


def counted(error: ErrorCode) -> float:
    return REGISTRY.get_sample_value("muster_commits_refused_total", {"error": error.name}) or 0.0


async def test_offsets_of_somebody_elses_partitions_count_once_for_each_error() -> None:
    before = {error: counted(error) for error in ErrorCode}
    async with Shards([readers(ann=[0], ben=[1, 2])]) as shards:
        ann = await shards.registered(KEY, "ann")
        positions = {orders(0): Position(7, 1), orders(1): Position(3, 1), orders(2): Position(3, 1)}
        shards.commit(ann, KEY, positions)
        await eventually(lambda: ann.judged)
        shards.commit(ann, KEY, {orders(0): Position(8, 1)})
        await eventually(lambda: len(ann.judged) == 2)
    grown = {error: counted(error) - before[error] for error in ErrorCode if counted(error) != before[error]}
    assert grown == {ErrorCode.NOT_PARTITION_OWNER: 1}


async def test_a_commit_that_is_refused_whole_counts() -> None:
    before = counted(ErrorCode.UNKNOWN_MEMBER_ID)
    async with Shards([readers(ann=[0])]) as shards:
        ann = await shards.registered(KEY, "ann")
        ann.id = ConnectionId("somebody/1")
        shards.commit(ann, KEY, {orders(0): Position(7, 1)})
        await eventually(lambda: ann.judged)
        assert ann.judged[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert counted(ErrorCode.UNKNOWN_MEMBER_ID) == before + 1
