"""The door looks at a member's token again and again: topics that it names no more are taken away."""

from typing import Any

from access.grants import Role
from access.tokens import Caller
from coordinator.connections import MemberConnection
from coordinator.door import LOOKED_AT_TOGETHER, VERIFY_AGAIN_MS, ConsumerDoor
from coordinator.history import History
from coordinator.service import ShardService
from groups.core.records import MemberChanged
from groups.core.state import GroupRows
from muster.kernel.instants import Instant
from muster.kernel.scopes import Scope
from muster.messages.member import PingResponse, TopicCount
from runtime.ports import shard_lane
from tests.unit.coordinator import shards
from tests.unit.coordinator.shards import Shards, eventually, registering

KEY = "readers"


class Node(shards.Node):
    """A node whose clock and token are the test's."""

    topics: tuple[str, ...] = ("orders", "clicks")
    at = Instant(0)
    kafka_callers: Any = None
    token_lives = True

    def now(self) -> Any:
        return self.at

    def verify_token(self, presented: str) -> Any:
        return Caller("ann", Role.CONSUMER, "ann", Scope.of(self.topics)) if self.token_lives else None


async def _send(message: dict[str, Any]) -> None: ...


def _admitted(door: ConsumerDoor) -> MemberConnection:
    connection = door.admit({b"authorization": b"Bearer x"}, "127.0.0.1", _send, lambda _: True)
    assert isinstance(connection, MemberConnection)
    return connection


def _door(node: Node, service: ShardService) -> tuple[ConsumerDoor, MemberConnection]:
    door = ConsumerDoor(node, {shard_lane(service.shard): service})
    connection = _admitted(door)
    door.register(connection, registering(KEY, "ann", "orders", "clicks"))
    return door, connection


async def test_it_loses_them_at_the_next_look() -> None:
    async with Shards() as held:
        service, node = await held.serve(KEY), Node()
        door, connection = _door(node, service)
        await held.settled(KEY)
        node.topics = ("orders",)
        door.heard(connection, PingResponse(consumer_id="ann", number=9))
        await held.settled(KEY)
        assert len(held.rows(KEY).members["ann"].topic_count) == 2
        node.at = Instant(VERIFY_AGAIN_MS)
        door.heard(connection, PingResponse(consumer_id="ann", number=9))
        await eventually(lambda: held.rows(KEY).members["ann"].topic_count == (TopicCount("orders"),))
        # The row fits: nothing more is asked at the look after it.
        before = held.rows(KEY).version
        node.at = Instant(2 * VERIFY_AGAIN_MS)
        door.heard(connection, PingResponse(consumer_id="ann", number=9))
        await held.settled(KEY)
        assert held.rows(KEY).version == before
        assert not connection.closing


async def test_quiet_members_are_looked_at_when_tokens_are_others() -> None:
    """A member says nothing for a third of its session, which may be half an hour."""
    async with Shards() as held:
        service, node = await held.serve(KEY), Node()
        door, connection = _door(node, service)
        await held.settled(KEY)
        node.topics = ("orders",)
        node.kafka_callers = ("narrower",)
        door.tick()
        await eventually(lambda: held.rows(KEY).members["ann"].topic_count == (TopicCount("orders"),))
        node.token_lives = False
        door.tick()
        assert not connection.closing
        node.kafka_callers = ()
        door.tick()
        assert connection.closing


async def test_whoever_has_not_registered_yet_goes_with_its_token() -> None:
    async with Shards() as held:
        service, node = await held.serve(KEY), Node()
        door = ConsumerDoor(node, {shard_lane(service.shard): service})
        connection = _admitted(door)
        node.kafka_callers = ("another",)
        door.tick()
        assert not connection.closing
        node.token_lives, node.kafka_callers = False, ()
        door.tick()
        assert connection.closing


async def test_many_are_looked_at_one_portion_after_the_other() -> None:
    """Ten thousand at once would hold up the loop, and with it everybody's pings, for most of a second."""
    async with Shards() as held:
        service, node = await held.serve(KEY), Node()
        door = ConsumerDoor(node, {shard_lane(service.shard): service})
        many = [_admitted(door) for _ in range(3 * LOOKED_AT_TOGETHER)]
        node.token_lives, node.kafka_callers = False, ("first",)
        closed = []
        for _ in range(3):
            door.tick()
            closed.append(sum(one.closing for one in many))
        assert closed == [LOOKED_AT_TOGETHER, 2 * LOOKED_AT_TOGETHER, 3 * LOOKED_AT_TOGETHER]


async def test_the_last_has_its_turn_though_tokens_are_made_at_each_tick() -> None:
    async with Shards() as held:
        service, node = await held.serve(KEY), Node()
        door = ConsumerDoor(node, {shard_lane(service.shard): service})
        many = [_admitted(door) for _ in range(3 * LOOKED_AT_TOGETHER)]
        for number in range(2):
            node.kafka_callers = (number,)
            door.tick()
        node.token_lives, node.kafka_callers = False, ("another",)
        door.tick()
        assert many[-1].closing


def test_the_journal_says_why() -> None:
    changed = MemberChanged(
        member_id="ann",
        topic_count=(),
        session_timeout_ms=9_000,
        why="lost topic clicks: its token is not good for that any more",
    )
    rows = GroupRows(KEY)
    state: Any = type("State", (), {"rows": rows})
    entry = History(rows).entry([changed], state, Instant(0))
    assert entry.cause == "ann lost topic clicks: its token is not good for that any more"
