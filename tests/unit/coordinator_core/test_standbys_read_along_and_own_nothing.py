"""A group by the redundant assignor: one owner commits, who stands by is told so and takes over (ADR 14)."""

from dataclasses import replace

from msgspec import structs

from coordinator.core import offsets
from coordinator.core.draft import GroupDecision
from coordinator.core.events import ConnectionId, Heard, Say, SayLater
from groups.core import records
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import LeaveRequest, PingRequest, PingResponse, StartFetcherRequest
from muster.messages.partitions import Partition, Position, by_topic, each_partition, positions_by_topic
from tests.unit.coordinator_core.group import SESSION_MS, Group, orders, registering

ALL = {orders(number) for number in range(6)}


def redundant(*names: str, copies: int = 2, willing: bool = True) -> Group:
    """A settled group in which all stand by if they are `willing`."""
    group = Group(rows=GroupRows("readers", assignor="redundant", copies=copies))
    for name in names:
        group.turn(registering(name, stands_by=willing))
    settle(group)
    return group


def settle(group: Group) -> None:
    for _ in range(6):
        decision = group.rebalance()
        while any(isinstance(saying, Say | SayLater) for saying in decision.commands):
            decision = group.obey(decision)
    assert group.rows.phase == "Stable"


def told(decision: GroupDecision, name: str) -> StartFetcherRequest:
    """The last StartFetcher that this member was sent."""
    sent = [
        saying.message
        for saying in decision.commands
        if isinstance(saying, Say | SayLater) and isinstance(saying.message, StartFetcherRequest)
    ]
    [found] = [one for one in sent if one.consumer_id == name]
    return found


def named(request: StartFetcherRequest) -> dict[Partition, int]:
    return {
        Partition(topic.topic, topic.topic_id, one.partition): one.offset
        for topic in request.standby_info
        for one in topic.partitions
    }


def answer(name: str, number: int, group: Group, standbys: set[Partition]) -> Heard:
    owned = {one: Position(0, tenure.since_generation) for one, tenure in group.rows.owned[name].items()}
    message = PingResponse(
        consumer_id=name,
        number=number,
        offset_info=positions_by_topic(owned),
        standby_info=by_topic(standbys),
    )
    return Heard(ConnectionId(f"{name}/1"), message)


def test_each_partition_has_one_owner_and_a_standby_that_is_told_where_the_owner_began() -> None:
    group = redundant("ann", "ben")
    assert group.rows.standbys == {
        "ann": frozenset(group.rows.owned["ben"]),
        "ben": frozenset(group.rows.owned["ann"]),
    }
    mine = sorted(group.rows.standbys["ben"])[0]
    group.state = offsets.committed(group.state, {mine: 7})
    group.rows = group.state.rows
    again = group.turn(registering("ben", connection="ben/2", stands_by=True))
    assert named(told(again, "ben"))[mine] == 7


def test_a_standby_commits_nothing() -> None:
    group = redundant("ann", "ben")
    [mine, *_] = sorted(group.rows.standbys["ben"])
    judged = offsets.judge(
        group.state, ConnectionId("ben/1"), "ben", [(mine, Position(5, group.rows.generation))]
    )
    assert judged.refused == {mine: ErrorCode.NOT_PARTITION_OWNER} and not judged.accepted


def test_who_is_not_willing_owns_and_does_not_stand_by() -> None:
    group = redundant("ann", "ben", willing=False)
    assert group.rows.standbys == {} and len(group.rows.owned) == 2
    assert not any(isinstance(one, records.StandbysChanged) for one in group.rebalance().records)


def test_more_copies_than_members_are_as_many_as_there_are() -> None:
    group = redundant("ann", "ben", copies=5)
    assert len(group.rows.standbys["ann"]) + len(group.rows.standbys["ben"]) == 6


def test_standbys_inherit_what_a_member_owned_that_left() -> None:
    group = redundant("ann", "ben", "cleo")
    knew = {name: set(mine) for name, mine in group.rows.standbys.items()}
    owned = set(group.rows.owned["cleo"])
    group.turn(Heard(ConnectionId("cleo/1"), LeaveRequest(correlation_id=9, consumer_id="cleo")))
    assert "cleo" not in group.rows.standbys
    settle(group)
    assert all(one in knew["ann"] for one in owned & group.rows.owned["ann"].keys())
    assert all(one in knew["ben"] for one in owned & group.rows.owned["ben"].keys())
    assert group.rows.standbys["ann"] | group.rows.standbys["ben"] == ALL


def test_a_standby_that_was_not_told_is_told_after_its_next_ping() -> None:
    group = redundant("ann", "ben")
    decision = group.wait(SESSION_MS // 3)
    pings = {
        saying.message.consumer_id: saying.message.number
        for saying in decision.commands
        if isinstance(saying, Say | SayLater) and isinstance(saying.message, PingRequest)
    }
    right = group.turn(answer("ann", pings["ann"], group, set(group.rows.standbys["ann"])))
    assert not right.commands
    wrong = group.turn(answer("ben", pings["ben"], group, set()))
    assert named(told(wrong, "ben")).keys() == group.rows.standbys["ben"]


def test_another_assignor_lets_the_standbys_go_and_moves_nothing() -> None:
    group = redundant("ann", "ben")
    owned = group.rows.owned
    group.rows = replace(group.rows, assignor="sticky")
    group.state = structs.replace(group.state, rows=group.rows)
    decision = group.rebalance()
    assert group.rows.standbys == {} and group.rows.owned == owned
    assert not named(told(decision, "ann")) and not named(told(decision, "ben"))
    changed = [one for one in decision.records if isinstance(one, records.StandbysChanged)]
    assert [list(each_partition(mine)) for mine in changed[0].standbys.values()] == [[], []]


def test_who_is_no_longer_willing_is_relieved() -> None:
    group = redundant("ann", "ben", "cleo")
    group.turn(registering("cleo", connection="cleo/2"))
    assert group.rows.handler_asked
    settle(group)
    assert "cleo" not in group.rows.standbys and len(group.rows.owned) == 3
