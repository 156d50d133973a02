"""Section 5: a session ends S and 1 % after the last answer received; pings come in slots of a third."""

from coordinator.core.decide import load
from coordinator.core.events import ConnectionClosed, ConnectionId, Say
from coordinator.core.native.beats import hasten
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core.records import MemberRemoved
from muster.kernel.instants import Instant
from muster.messages.member import PingRequest
from muster.messages.partitions import Partition, Position
from tests.unit.coordinator_core.group import (
    SESSION_MS,
    Group,
    hung_up,
    ping_answer,
    pinged,
    registering,
    said,
)

THIRD_MS = SESSION_MS // 3
ENDS_MS = SESSION_MS + SESSION_MS // 100 + 1


def positions(group: Group, name: str) -> dict[Partition, Position]:
    return {
        partition: Position(5, tenure.since_generation)
        for partition, tenure in group.rows.owned.get(name, {}).items()
    }


def test_a_ping_leaves_at_each_third_and_only_one_is_unanswered() -> None:
    group = Group().settled("ann")
    assert pinged(group.wait(THIRD_MS - 1)) == []
    assert pinged(group.wait(1)) == ["ann/1"]
    assert pinged(group.wait(THIRD_MS)) == []
    group.turn(ping_answer("ann", 1, positions(group, "ann")))
    assert pinged(group.wait(THIRD_MS)) == ["ann/1"]


def test_slots_that_were_slept_through_are_not_made_up() -> None:
    group = Group().settled("ann")
    assert pinged(group.wait(2 * THIRD_MS + 10)) == ["ann/1"]
    assert group.state.memory.sessions["ann"].slot_at == 3 * THIRD_MS


def test_the_session_ends_one_session_after_the_last_answer() -> None:
    group = Group().settled("ann")
    group.wait(THIRD_MS)
    group.turn(ping_answer("ann", 1, positions(group, "ann")))
    assert group.wait(ENDS_MS - 1).records == ()
    decision = group.wait(1)
    assert MemberRemoved("ann", "session over") in decision.records
    assert hung_up(decision) == ["ann/1"]
    assert group.rows.members == {} and group.rows.owned == {} and group.rows.phase == "Empty"


def test_an_answer_with_another_number_proves_nothing() -> None:
    group = Group().settled("ann")
    group.wait(THIRD_MS)
    before = group.state.memory.sessions["ann"].ends_at
    group.turn(ping_answer("ann", 2, {}))
    assert group.state.memory.sessions["ann"].ends_at == before


def test_each_allowed_retry_adds_two_thirds_and_repeats_the_number() -> None:
    group = Group(GroupSettings(ping_max_retries=1)).settled("ann")
    first = group.wait(THIRD_MS)
    assert pinged(group.wait(THIRD_MS)) == []
    second = group.wait(THIRD_MS)
    pings = [
        saying.message for each in (first, second) for saying in each.commands if isinstance(saying, Say)
    ]
    assert [(ping.number, ping.num_retries) for ping in pings if isinstance(ping, PingRequest)] == [
        (1, 0),
        (1, 1),
    ]
    assert group.wait(ENDS_MS - SESSION_MS + 2 * SESSION_MS // 3 - 1).records == ()
    assert group.wait(1).records


def test_a_closed_connection_leaves_the_session_running() -> None:
    group = Group().settled("ann")
    decision = group.turn(ConnectionClosed(ConnectionId("ann/1")))
    assert decision.records == () and "ann" in group.rows.members
    assert pinged(group.wait(THIRD_MS)) == []
    assert group.wait(ENDS_MS - THIRD_MS).records


def test_after_a_stop_members_are_asked_at_once_and_keep_their_sessions() -> None:
    group = Group().settled("ann")
    group.wait(THIRD_MS // 2)
    # Time stood still for a third: the lane's clock did not move meanwhile, ann's did.
    ends_at = group.state.memory.sessions["ann"].ends_at
    group.state = hasten(group.state, THIRD_MS)
    assert pinged(group.turn()) == ["ann/1"]
    assert group.state.memory.sessions["ann"].ends_at == ends_at


def test_after_a_stop_an_unanswered_ping_is_repeated_as_if_time_had_passed() -> None:
    group = Group(GroupSettings(ping_max_retries=1)).settled("ann")
    assert pinged(group.wait(THIRD_MS)) == ["ann/1"]
    group.state = hasten(group.state, 2 * THIRD_MS)
    assert pinged(group.turn()) == ["ann/1"]


def test_a_load_gives_full_sessions_and_the_time_of_the_lease() -> None:
    rows = Group().settled("ann").rows
    settings = GroupSettings(lease_ttl_ms=2_000)
    decision = load(rows, Instant(50), settings, Surroundings())
    session = decision.state.memory.sessions["ann"]
    assert session.ends_at == 50 + ENDS_MS + 2_000
    assert session.connection is None
    assert decision.commands == () and decision.replies == ()


def test_positions_of_a_ping_are_dirty_and_written_when_the_member_goes() -> None:
    group = Group().settled("ann")
    group.wait(THIRD_MS)
    group.turn(ping_answer("ann", 1, positions(group, "ann")))
    assert set(group.state.memory.dirty.values()) == {5} and group.rows.offsets == {}
    group.wait(ENDS_MS)
    assert set(group.rows.offsets.values()) == {5} and group.state.memory.dirty == {}


def test_look_again_is_never_later_than_what_is_due() -> None:
    group = Group().settled("ann", "ben")
    for _ in range(50):
        due = group.turn().look_again_at
        if due is None:
            break
        assert due > group.now
        nothing = Instant(due - 1)
        group.now = nothing
        assert group.turn().commands == ()
        group.now = due
        group.turn()
    assert group.rows.members == {}


def test_a_ping_carries_the_generation() -> None:
    group = Group().settled("ann")
    (saying,) = group.wait(THIRD_MS).commands
    assert said(group.turn(), PingRequest) == []
    assert saying.message.generation == group.rows.generation == 1  # type: ignore[union-attr]


def test_members_that_come_together_are_not_pinged_together() -> None:
    group = Group()
    group.turn(*(registering(f"m-{number}") for number in range(800)))
    assert pinged(group.wait(THIRD_MS // 2 - 1)) == []
    waves = [len(pinged(group.wait(THIRD_MS // 20))) for _ in range(11)]
    assert sum(waves) == 800
    assert max(waves) < 200
