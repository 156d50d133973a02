"""A group without members changes between the native and the classic world; one with members never does."""

import pytest

from coordinator.core.events import (
    ConnectionId,
    GroupEvent,
    Heard,
    ItemFailed,
    ItemFinished,
    JoinAnswer,
    LeaveAnswer,
    Say,
    SyncAnswer,
)
from coordinator.core.proposal import Proposal
from groups.core.phases import Phase
from groups.core.requests import Asked, DeleteGroup, GroupRequest
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import LeaveRequest, RegisterConsumerResponse
from tests.unit.classic_core.group import ClassicGroup
from tests.unit.coordinator_core.group import orders, registering

OFFSETS = {orders(0): 5}
INCONSISTENT, UNKNOWN = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.UNKNOWN_MEMBER_ID


def native_leave(name: str) -> Heard:
    return Heard(ConnectionId(f"{name}/1"), LeaveRequest(correlation_id=1, consumer_id=name))


def errors(group: ClassicGroup) -> list[int]:
    found: list[int] = []
    for saying in group.decision.replies:
        assert isinstance(saying, Say)
        if isinstance(saying.message, RegisterConsumerResponse):
            found.append(saying.message.error_code)
        elif isinstance(saying.message, JoinAnswer | SyncAnswer | LeaveAnswer):
            found.append(saying.message.error)
    return found


def test_an_empty_native_group_becomes_classic_and_keeps_its_offsets() -> None:
    group = ClassicGroup(rows=GroupRows("billing", generation=4, version=9, offsets=OFFSETS))
    group.stable("a")
    assert (group.rows.protocol, group.rows.generation, group.rows.offsets) == ("classic", 6, OFFSETS)


def test_a_generation_is_skipped_with_the_first_that_comes_though_it_never_joins() -> None:
    group = ClassicGroup(rows=GroupRows("billing", generation=4, version=9, offsets=OFFSETS))
    group.join(knows_ids=True)
    assert (group.rows.protocol, group.rows.generation) == ("classic", 5)
    group.join(knows_ids=True)
    assert group.rows.generation == 5


def test_a_group_that_begins_as_a_classic_one_begins_at_the_generation_of_any_other() -> None:
    group = ClassicGroup(rows=GroupRows("billing", generation=4))
    group.join(knows_ids=True)
    assert group.rows.generation == 4


def test_a_join_that_is_refused_changes_no_world() -> None:
    rows = GroupRows("billing", generation=4, version=9, offsets=OFFSETS)
    group = ClassicGroup(rows=rows)
    group.join("app-1")
    group.join(protocols={})
    assert errors(group) == [INCONSISTENT] and group.rows is rows and group.state.classic.sessions == {}


def test_an_empty_classic_group_becomes_native_and_keeps_its_offsets() -> None:
    group = ClassicGroup(rows=GroupRows("billing", generation=4, version=9, offsets=OFFSETS))
    (ann,) = group.stable("a")
    group.leave(ann)
    group.turn(registering("nina"))
    assert (group.rows.protocol, group.rows.classic, group.rows.offsets) == ("native", None, OFFSETS)
    assert group.is_in(Phase.STABLE) and list(group.rows.members) == ["nina"]


def test_a_register_that_is_refused_leaves_ids_that_have_not_joined() -> None:
    group = ClassicGroup()
    given = group.join(knows_ids=True)
    assert given is not None
    group.turn(registering("nina", session_timeout_ms=1))
    assert errors(group) == [ErrorCode.INVALID_SESSION_TIMEOUT]
    assert group.join(given.member_id) is not None and group.members == [given.member_id]


def test_a_native_member_is_refused_by_a_classic_group() -> None:
    group = ClassicGroup()
    group.stable("a")
    before = group.rows
    group.turn(registering("nina"), native_leave("nina"))
    assert errors(group) == [INCONSISTENT] and group.rows is before


def test_kafka_clients_are_refused_by_a_native_group() -> None:  # 17
    group = ClassicGroup()
    group.turn(registering("nina"))
    before = group.rows
    join, sync, leave = group.joining("app-1"), group.syncing("app-1"), group.leaving("app-1")
    group.turn(join, sync, leave)
    assert errors(group) == [INCONSISTENT, UNKNOWN, ErrorCode.NONE] and group.rows is before
    answer = group.join_answer(join)
    assert answer is not None and answer.member_id == ""
    assert group.beat("app-1") is UNKNOWN


def test_one_turn_goes_there_and_back_and_is_one_version() -> None:
    group = ClassicGroup()
    group.turn(registering("nina"))
    version = group.rows.version
    join = group.joining()
    group.turn(native_leave("nina"), join, registering("otto"), group.leaving(join.fresh_member_id))
    assert errors(group) == [INCONSISTENT, UNKNOWN, ErrorCode.NONE]
    assert group.rows.members == {} and group.members == []
    assert group.rows.version == version + 1 and group.rows.protocol == "classic"


def test_a_request_that_is_refused_beside_a_join_that_is_makes_no_version() -> None:
    group = ClassicGroup()
    group.turn(group.joining("app-1"), GroupRequest("r-1", "olga", "it stalls", Asked(DeleteGroup())))
    assert [type(one).__name__ for one in group.decision.records] == ["RequestDecided"]
    assert group.rows.version == group.state.rows.version == 0


def test_an_ephemeral_group_ends_before_somebody_joins() -> None:  # 16
    group = ClassicGroup()
    group.turn(registering("nina", ephemeral=True))
    join = group.joining()
    group.turn(native_leave("nina"), join)
    answer = group.join_answer(join)
    assert answer is not None and answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert type(group.decision.records[-1]).__name__ == "GroupDeleted"


@pytest.mark.parametrize(
    "finished", [ItemFinished("7", Proposal(version=1, members=(), moves=())), ItemFailed("7", "broke")]
)
def test_what_a_handler_computed_for_the_native_world_is_of_no_use(finished: GroupEvent) -> None:
    group = ClassicGroup()
    group.turn(registering("nina"))
    group.turn(native_leave("nina"))
    group.stable("a")
    before = group.rows
    assert before.handler_asked
    group.turn(finished)
    assert not group.rows.handler_asked and group.is_in(Phase.STABLE)
