"""Section 2: adopt, close, fail; what is written, who is told, and what a handler is asked for."""

import pytest

from coordinator.core import rebalance
from coordinator.core.events import (
    ConnectionClosed,
    ConnectionId,
    GroupEvent,
    Heard,
    ItemFailed,
    ItemFinished,
    Say,
    SayLater,
    TopicsChanged,
)
from coordinator.core.proposal import Proposal
from coordinator.core.settings import GroupSettings
from groups.core import records
from groups.core.state import GroupRows
from muster.messages.member import LeaveRequest, StartFetcherRequest, StopFetcherRequest, TopicCount
from tests.unit.coordinator_core.group import LAYOUTS, SESSION_MS, Group, hung_up, registering, said


def kinds(decision_records: tuple[records.GroupRecord, ...]) -> list[str]:
    return [type(record).__name__ for record in decision_records]


def compute(group: Group) -> Proposal:
    """What a handler that reads the group now will hand in."""
    return rebalance.compute(group.rows, LAYOUTS, group.surroundings.matches)


def leaving(name: str) -> Heard:
    return Heard(ConnectionId(f"{name}/1"), LeaveRequest(correlation_id=5, consumer_id=name))


def test_nobody_who_keeps_everything_is_stopped() -> None:
    group = Group().settled("ann", "ben")
    group.register("cleo")
    decision = group.rebalance()
    assert sorted(said(decision, StopFetcherRequest)) == ["ann/1", "ben/1"]
    decision = group.obey(decision, offset=12)
    assert group.rows.owned["cleo"].keys() == group.rows.offsets.keys()
    assert set(group.rows.offsets.values()) == {12}


def test_offsets_generation_and_ownership_are_one_turn() -> None:
    group = Group().settled("ann")
    group.register("ben")
    generation = group.rows.generation
    decision = group.obey(group.rebalance())
    assert kinds(decision.records) == [
        "OffsetsFlushed",
        "GenerationOpened",
        "PartitionsReleased",
        "PartitionsAssigned",
        "PhaseEntered",
    ]
    assert group.rows.generation == generation + 1
    assert sorted(said(decision, StartFetcherRequest)) == ["ann/1", "ben/1"]


def test_a_target_that_is_stored_already_says_and_changes_nothing() -> None:
    group = Group().settled("ann", "ben")
    group.turn(TopicsChanged())
    before = group.rows
    decision = group.rebalance()
    assert kinds(decision.records) == ["ItemAdopted"]
    assert decision.commands == ()
    assert (group.rows.owned, group.rows.generation) == (before.owned, before.generation)


def test_one_handler_at_a_time_is_asked_and_no_cause_is_forgotten() -> None:
    group = Group()
    assert "HandlerAsked" in kinds(group.register("ann").records)
    seen = compute(group)
    assert "HandlerAsked" not in kinds(group.register("ben").records)
    assert "HandlerAsked" in kinds(group.turn(ItemFinished("item-1", seen)).records)


def test_who_came_before_the_handler_read_the_group_needs_no_other() -> None:
    group = Group()
    group.register("ann")
    group.register("ben")
    group.register("cleo", "clicks")
    group.turn(leaving("cleo"))
    adopted = group.rebalance()
    assert "HandlerAsked" not in kinds(adopted.records) and not group.state.memory.wanted
    assert group.rows.generation == 1 and set(group.rows.owned) == {"ann", "ben"}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_cause_that_no_row_tells_is_not_forgotten_beside_one_that_rows_tell(is_first: bool) -> None:
    group = Group()
    group.register("ann")
    causes: list[GroupEvent] = [TopicsChanged(), registering("ben")]
    for cause in causes if is_first else reversed(causes):
        group.turn(cause)
    # Which topics there were when it read them, nobody knows.
    assert "HandlerAsked" in kinds(group.rebalance().records)


def test_who_leaves_behind_the_handler_has_another_asked() -> None:
    group = Group()
    group.register("ann")
    group.register("ben")
    seen = compute(group)
    group.turn(leaving("ben"))
    assert "HandlerAsked" in kinds(group.turn(ItemFinished("item-1", seen)).records)


def test_an_item_that_is_handed_in_twice_changes_nothing_the_second_time() -> None:
    group = Group().settled("ann")
    group.items -= 1
    before = group.rows.owned
    group.rebalance()
    assert group.rows.owned == before


def test_a_handler_that_broke_is_asked_again_after_the_backoff() -> None:
    group = Group(GroupSettings(rebalance_backoff_ms=100))
    group.register("ann")
    decision = group.turn(ItemFailed("item-1", "out of memory"))
    assert kinds(decision.records) == ["ItemAdopted"]
    assert decision.look_again_at == 100
    assert "HandlerAsked" in kinds(group.wait(100).records)


def test_a_closed_connection_fails_the_attempt_and_losers_hear_their_rows() -> None:
    group = Group().settled("ann")
    group.register("ben")
    group.rebalance()
    decision = group.turn(ConnectionClosed(ConnectionId("ben/1")))
    assert group.state.memory.attempt is None
    assert said(decision, StartFetcherRequest) == ["ann/1"]
    assert group.rows.phase == "Stable" and len(group.rows.owned["ann"]) == 6


def test_the_backoff_doubles_and_the_session_bounds_it() -> None:
    group = Group(GroupSettings(rebalance_backoff_ms=100)).settled("ann")
    group.register("ben")
    waits = []
    for number in range(2, 12):
        group.rebalance()
        failed = group.turn(ConnectionClosed(ConnectionId(f"ben/{number - 1}")))
        assert failed.look_again_at is not None
        waits.append(group.state.memory.wanted_from - group.now)
        group.register("ben", connection=f"ben/{number}")
        group.register("ann", connection=f"ann/{number}")
        group.wait(waits[-1])
        assert group.rows.handler_asked
    assert waits[:4] == [100, 200, 400, 800]
    assert waits[-1] == SESSION_MS


def test_a_share_whose_receiver_unsubscribed_stays_with_its_owner() -> None:
    group = Group().settled("ann")
    group.register("ben")
    proposal = rebalance.compute(group.rows, LAYOUTS, group.surroundings.matches)
    group.register("ben", "clicks", connection="ben/2")
    decision = group.turn(ItemFinished("item-9", proposal))
    assert said(decision, StopFetcherRequest) == []
    assert len(group.rows.owned["ann"]) == 6


def test_leave_is_answered_frees_the_rows_and_closes_the_connection() -> None:
    group = Group().settled("ann", "ben")
    decision = group.turn(Heard(ConnectionId("ben/1"), LeaveRequest(correlation_id=5, consumer_id="ben")))
    assert records.MemberRemoved("ben", "left") in decision.records
    assert [type(saying.message).__name__ for saying in decision.replies] == ["LeaveResponse"]  # type: ignore[union-attr]
    assert hung_up(decision) == ["ben/1"]
    assert "ben" not in group.rows.owned and group.rows.handler_asked


def test_a_member_that_says_why_it_goes_is_journalled_with_its_words() -> None:
    group = Group().settled("ann", "ben")
    leave = LeaveRequest(correlation_id=5, consumer_id="ben", reason="its handler does not return")
    decision = group.turn(Heard(ConnectionId("ben/1"), leave))
    assert records.MemberRemoved("ben", "left: its handler does not return") in decision.records


def test_an_ephemeral_group_ends_when_it_is_empty() -> None:
    group = Group()
    group.register("ann", ephemeral=True)
    decision = group.turn(Heard(ConnectionId("ann/1"), LeaveRequest(correlation_id=5, consumer_id="ann")))
    assert isinstance(decision.records[-1], records.GroupDeleted)
    assert group.rows.offsets == {} and not group.rows.ephemeral


def test_a_group_that_was_there_before_is_not_made_ephemeral() -> None:
    group = Group(rows=GroupRows("readers", generation=4, version=9))
    group.register("ann", ephemeral=True)
    assert not group.rows.ephemeral


def test_eager_mode_stops_those_who_lose_nothing_too() -> None:
    group = Group(rows=GroupRows("readers", rebalance_mode="eager")).settled("ann", "ben")
    group.register("cleo", "clicks")
    decision = group.rebalance()
    assert sorted(said(decision, StopFetcherRequest)) == ["ann/1", "ben/1", "cleo/1"]
    closed = group.obey(decision)
    assert group.rows.phase == "CompletingRebalance"
    assert sorted(said(closed, StartFetcherRequest)) == ["ann/1", "ben/1", "cleo/1"]


@pytest.mark.parametrize("offset", [0, 41])
def test_start_offsets_are_the_last_known_positions(offset: int) -> None:
    group = Group().settled("ann")
    group.register("ben")
    decision = group.obey(group.rebalance(), offset=offset)
    (start,) = [
        saying.message
        for saying in decision.commands
        if isinstance(saying, Say | SayLater)
        and saying.connection == "ben/1"
        and isinstance(saying.message, StartFetcherRequest)
    ]
    parts = [one for topic in start.ownership_info[0].assigned_parts for one in topic.partitions]
    assert {part.offset for part in parts} == {offset}


def test_a_patterns_topics_are_dealt_to_its_threads() -> None:
    group = Group()
    group.register("ann", topic_count=(TopicCount("or", threads=2, is_pattern=True),))
    (saying,) = group.rebalance().commands
    start = saying.message  # type: ignore[union-attr]
    assert isinstance(start, StartFetcherRequest)
    assert start.num_threads == 2
    assert [
        [one.partition for topic in thread.assigned_parts for one in topic.partitions]
        for thread in start.ownership_info
    ] == [[0, 2, 4], [1, 3, 5]]
    assert [thread.consumer_thread_id for thread in start.ownership_info] == ["ann-0", "ann-1"]
