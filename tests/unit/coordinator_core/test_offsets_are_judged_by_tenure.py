"""Section 6: an offset counts if the row names the member since no later than it was fetched under."""

import pytest

from coordinator.core import offsets
from coordinator.core.events import ConnectionId
from groups.core.state import Tenure
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition, Position
from tests.unit.coordinator_core.group import Group, orders


def commit(
    group: Group, name: str, positions: dict[Partition, Position], connection: str = ""
) -> offsets.Judgement:
    return offsets.judge(group.state, ConnectionId(connection or f"{name}/1"), name, positions.items())


@pytest.mark.parametrize(
    ("since", "stated", "error"),
    [
        (2, 1, ErrorCode.ILLEGAL_GENERATION),
        (2, 2, ErrorCode.NONE),
        (2, 5, ErrorCode.NONE),
        (2, 6, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_the_commit_rule(since: int, stated: int, error: ErrorCode) -> None:
    assert offsets.refusal(Tenure(since, running=True), Position(9, stated), 5) is error


def test_who_does_not_own_does_not_commit() -> None:
    group = Group().settled("ann", "ben")
    mine = next(iter(group.rows.owned["ann"]))
    judgement = commit(group, "ben", {mine: Position(4, group.rows.generation)})
    assert judgement.accepted == {}
    assert judgement.refused == {mine: ErrorCode.NOT_PARTITION_OWNER}


def test_a_connection_speaks_for_its_own_member_only() -> None:
    group = Group().settled("ann")
    position = {orders(0): Position(4, 1)}
    assert commit(group, "ann", position, "stranger/1").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, "ben", position, "ann/1").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_no_offset_is_no_offset_to_commit() -> None:
    group = Group().settled("ann")
    judgement = commit(group, "ann", {orders(0): Position(-1, 1), orders(1): Position(8, 1)})
    assert judgement.accepted == {orders(1): 8}
    assert judgement.refused == {orders(0): ErrorCode.INVALID_REQUEST}


def test_members_that_lose_nothing_never_stop_committing() -> None:
    group = Group().settled("ann")
    kept = min(group.rows.owned["ann"])
    group.register("ben")
    group.rebalance()
    assert group.rows.phase == "PreparingRebalance"
    assert commit(group, "ann", {kept: Position(4, 1)}).accepted == {kept: 4}


def test_the_last_received_wins() -> None:
    group = Group().settled("ann")
    state = offsets.committed(group.state, {orders(0): 4})
    assert state.rows.offsets[orders(0)] == 4
    state = offsets.committed(state, {orders(0): 2})
    assert state.rows.offsets[orders(0)] == 2


def test_the_committer_does_not_overtake_what_came_meanwhile() -> None:
    group = Group().settled("ann")
    group.state = group.state.__class__(
        group.state.rows, group.state.memory.__class__(dirty={orders(0): 9, orders(1): 3})
    )
    state = offsets.flushed(group.state, {orders(0): 7, orders(1): 3})
    assert state.memory.dirty == {orders(0): 9}
    assert state.rows.offsets == {orders(0): 7, orders(1): 3}


def test_a_group_without_a_commit_starts_at_no_offset() -> None:
    group = Group()
    group.register("ann")
    (saying,) = group.rebalance().commands
    thread = saying.message.ownership_info[0]  # type: ignore[union-attr]
    assert {one.offset for topic in thread.assigned_parts for one in topic.partitions} == {offsets.NO_OFFSET}
