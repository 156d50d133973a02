"""A shard's service on real PostgreSQL: what conflicts, lost lanes and doubled wake-ups must not cost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.core.management import call_command

from coordinator.connections import MemberConnection
from coordinator.core import rebalance
from coordinator.core.events import Heard, ItemFinished
from coordinator.core.proposal import Proposal
from coordinator.door import ConsumerDoor
from coordinator.service import Premises, ShardService
from coordinator.settings import CoordinatorSettings
from coordinator.store import REBALANCE, GroupStore, Unreadable
from groups.core.records import GroupRecord
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.ids import TopicId, TopicName
from muster.kernel.instants import Instant
from muster.kernel.shards import shard_of
from muster.kernel.topology import Layouts, TopicLayout
from muster.messages import codec
from muster.messages.member import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    Frame,
    LeaveRequest,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    TopicCount,
)
from muster.messages.partitions import Partition, Position, positions_by_topic
from runtime import clock, work
from runtime.freshness import Freshness
from runtime.lanes import HeldLane, Lanes
from runtime.ports import VersionConflict, shard_lane
from runtime.postgres import Postgres, PostgresLink, open_connection
from tests.unit.coordinator.shards import KnowingNode

SHARD = 7
GROUP = next(name for number in count() if shard_of(name := f"departures-{number}") == SHARD)
ORDERS = Partition("orders", UUID(int=1), 0)
LAYOUT = TopicLayout(TopicName(ORDERS.topic), TopicId(ORDERS.topic_id), 1)
BOUND_S = 90.0


class TroubledStore(GroupStore):
    """Somebody else changes the group's row just before it is written, or it cannot be read, as often as a
    test says.
    """

    conflicts = 0
    unreadable = 0

    def load(self, connection: Any, key: str) -> GroupRows:
        if self.unreadable:
            self.unreadable -= 1
            raise ValueError("a row that nobody understands")
        return super().load(connection, key)

    def save(self, connection: Any, key: str, before: GroupRows, records: Sequence[GroupRecord]) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise VersionConflict(key)
        super().save(connection, key, before, records)


class Shard:
    """The service of one shard on its lane, and members that say what a test makes them say."""

    def __init__(self, url: str, lane: HeldLane) -> None:
        self.premises = Premises(KnowingNode(), CoordinatorSettings())
        self.store = self.premises.store = TroubledStore("node-1")
        self.service = ShardService(SHARD, self.premises)
        self.door = ConsumerDoor(KnowingNode(), {shard_lane(SHARD): self.service})
        self.lane = lane
        self.said: dict[MemberConnection, list[dict[str, Any]]] = {}
        self.link = PostgresLink(open_connection(url, "muster-test"))
        self._numbers = count(1)

    @property
    def groups(self) -> Any:
        return self.service._groups

    def connect(self) -> MemberConnection:
        heard: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            heard.append(msgspec.json.decode(message["text"]) if "text" in message else message)

        connection = MemberConnection(send, "127.0.0.1:1", "tests", "mst_")
        connection.group_id, connection.shard = GROUP, SHARD
        self.premises.callers.add(connection, SHARD)
        self.said[connection] = heard
        connection.begin(lambda: None)
        return connection

    async def turn(self, *events: Any) -> None:
        await self.lane.submit_turn(self.groups, GROUP, *events)

    def registering(self, connection: MemberConnection, name: str, **wishes: Any) -> Heard:
        connection.consumer_id = name
        request = RegisterConsumerRequest(
            correlation_id=next(self._numbers),
            group_id=GROUP,
            consumer_id=name,
            token=name.ljust(43, "."),
            topic_count=(TopicCount("orders"),),
            session_timeout_ms=6_000,
            **wishes,
        )
        return Heard(connection.id, request)

    def commit(self, connection: MemberConnection, offset: int) -> int:
        """Commit the offset of the first partition; the correlation id."""
        number = next(self._numbers)
        generation = self.groups.states[GROUP].rows.generation if GROUP in self.groups.states else 1
        positions = positions_by_topic({ORDERS: Position(offset, generation)})
        self.send(
            connection,
            CommitOffsetsRequest(
                correlation_id=number, consumer_id=connection.consumer_id or "", offset_info=positions
            ),
        )
        return number

    def send(self, connection: MemberConnection, message: Any) -> None:
        """What the door does with a frame of a registered member."""
        if isinstance(message, CommitOffsetsRequest):
            self.door.commit(connection, message, len(codec.encode(message)))
        else:
            self.door.heard(connection, message)

    async def answers(self, connection: MemberConnection, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The answers to these commits."""
        async with asyncio.timeout(BOUND_S):
            while not {one.get("correlation_id") for one in self.said[connection]}.issuperset(numbers):
                await asyncio.sleep(0.005)
        return [one for one in self.said[connection] if one.get("correlation_id") in numbers]

    def open_items(self) -> list[str]:
        rows = self.link.transaction(lambda connection: connection.work_table.open_items([shard_lane(SHARD)]))
        return [row.id for row in rows]

    def finish(self, item: str, layouts: Layouts | None = None) -> ItemFinished:
        """A worker does the item; the event that tells of it."""
        claimed = self.link.transaction(lambda connection: connection.work_table.claim(item, "worker"))
        assert claimed is not None
        rows = self.link.transaction(lambda connection: self.store.load(connection, GROUP))
        proposal = rebalance.compute(rows, layouts or {}, lambda pattern, topic: False)
        result = msgspec.to_builtins(proposal)
        self.link.transaction(
            lambda connection: connection.work_table.finish(item, claimed.claim_epoch, result, "")
        )
        return ItemFinished(item, msgspec.convert(result, Proposal))

    async def heard(self, connection: MemberConnection, kind: type[Frame]) -> dict[str, Any]:
        name = kind.__struct_config__.tag
        async with asyncio.timeout(BOUND_S):
            while not (found := [one for one in self.said[connection] if one.get("type") == name]):
                await asyncio.sleep(0.005)
        return found[-1]

    async def stop(self) -> None:
        for connection in self.said:
            await connection.end()
        self.link.close()


@pytest.fixture
async def shard(fresh_database: str) -> AsyncIterator[Shard]:
    """A shard whose lane is held and accepted."""
    call_command("initialise_cluster", verbosity=0)
    freshness = Freshness(clock.now, lease_ttl_ms=60_000)
    freshness.confirm(clock.now())
    freshness.thaw()
    database = Postgres(fresh_database, "node-1")
    lanes = Lanes(database, "node-1", "a" * 16, freshness, clock.now, lambda items: None)
    lanes.start()
    lane = await lanes.take(shard_lane(SHARD), SHARD, 0, None, lambda: None)
    assert lane is not None
    made = Shard(fresh_database, lane)
    await made.service.accept(lane)
    yield made
    await made.stop()
    await lanes.stop()


async def test_members_stay_bound_when_also_the_load_conflicts(shard: Shard) -> None:
    ann, ben = shard.connect(), shard.connect()
    await shard.turn(shard.registering(ann, "ann"))
    [item] = shard.open_items()
    await shard.turn(shard.finish(item))
    # Ben's turn conflicts, and so does what the load after it writes.
    shard.store.conflicts = 2
    await shard.turn(shard.registering(ben, "ben"))
    bound = shard.groups.states[GROUP].memory.bound
    assert bound == {ann.id: "ann", ben.id: "ben"}


async def test_an_item_that_was_told_of_twice_costs_nobody_his_connection(shard: Shard) -> None:
    ann, ben = shard.connect(), shard.connect()
    await shard.turn(shard.registering(ann, "ann"))
    [item] = shard.open_items()
    told = shard.finish(item)
    await shard.turn(told)
    version = shard.groups.states[GROUP].rows.version
    await shard.turn(told, shard.registering(ben, "ben"))
    assert shard.groups.states[GROUP].rows.version == version + 1
    assert not ann.closing and not ben.closing
    # Ben's own item is open now, and the old one is told of once more.
    await shard.turn(told)
    assert not ann.closing and not ben.closing
    assert shard.groups.states[GROUP].rows.version == version + 1


async def test_a_deleted_group_is_not_brought_back_by_work_that_was_under_way(shard: Shard) -> None:
    ann = shard.connect()
    await shard.turn(shard.registering(ann, "ann", ephemeral=True))
    [item] = shard.open_items()
    told = shard.finish(item)
    await shard.turn(Heard(ann.id, LeaveRequest(correlation_id=9, consumer_id="ann")))
    assert shard.open_items() == []
    await shard.turn(told)
    stored = shard.link.call(lambda connection: shard.store.load_shard(connection, SHARD))
    assert stored == {}
    assert shard.link.transaction(lambda one: work.finished(one, REBALANCE, [GROUP])) == []


async def test_a_commit_on_a_lost_lane_is_answered(shard: Shard) -> None:
    ann = shard.connect()
    await shard.turn(shard.registering(ann, "ann"))
    await shard.heard(ann, StartFetcherRequest)
    shard.lane.abandon()
    request = CommitOffsetsRequest(correlation_id=77, consumer_id="ann", offset_info=())
    read_on: list[str] = []
    ann.rest_until_answered(lambda: partial(read_on.append, "read on"))
    shard.send(ann, request)
    shard.service.tick(Instant(0))
    async with asyncio.timeout(BOUND_S):
        while not any(one.get("correlation_id") == 77 for one in shard.said[ann]):
            await asyncio.sleep(0.005)
    [answer] = [one for one in shard.said[ann] if one.get("correlation_id") == 77]
    assert answer["error_code"] == ErrorCode.NOT_COORDINATOR
    assert (ann.unanswered_commits, ann.unanswered_characters, read_on) == (0, 0, ["read on"])


async def owner(shard: Shard) -> MemberConnection:
    """Ann, who owns the only partition and fetches it."""
    ann = shard.connect()
    await shard.turn(shard.registering(ann, "ann"))
    [item] = shard.open_items()
    await shard.turn(shard.finish(item, {LAYOUT.name: LAYOUT}))
    assert ORDERS in shard.groups.states[GROUP].rows.owned["ann"]
    return ann


async def test_commits_wait_in_their_order_until_the_group_is_loaded_again(shard: Shard) -> None:
    ann = await owner(shard)
    shard.groups.drop(GROUP)
    numbers = [shard.commit(ann, offset) for offset in (5, 9, 7)]
    answers = await shard.answers(ann, numbers)
    assert [one.get("error_code", 0) for one in answers] == [0, 0, 0]
    stored = shard.link.call(lambda connection: shard.store.load(connection, GROUP))
    assert stored.offsets == shard.groups.states[GROUP].rows.offsets == {ORDERS: 7}


async def test_commits_of_a_group_that_cannot_be_loaded_are_refused_at_once(shard: Shard) -> None:
    ann = await owner(shard)
    shard.groups.drop(GROUP)
    shard.store.unreadable = 1_000
    answers = await shard.answers(ann, [shard.commit(ann, 5), shard.commit(ann, 6)])
    assert {one["error_code"] for one in answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    # One attempt, and at most one that time asked for.
    assert shard.store.unreadable >= 998
    shard.store.unreadable = 0
    [answer] = await shard.answers(ann, [shard.commit(ann, 8)])
    assert answer.get("error_code", 0) == 0


async def test_rows_read_before_a_turn_do_not_replace_what_it_left(shard: Shard) -> None:
    before = shard.link.call(lambda connection: shard.store.load(connection, GROUP))
    await shard.turn(shard.registering(shard.connect(), "ann"))
    shard.groups.preload(before, clock.now())
    assert "ann" in shard.groups.states[GROUP].rows.members


async def test_a_ping_answer_takes_nothing_back_from_the_commit_after_it(shard: Shard) -> None:
    ann = await owner(shard)
    state = shard.groups.states[GROUP]
    pinged = msgspec.structs.replace(state.memory.sessions["ann"], ping_number=1, ping_unanswered=True)
    memory = msgspec.structs.replace(state.memory, sessions={"ann": pinged})
    shard.groups.states[GROUP] = msgspec.structs.replace(state, memory=memory)
    # Both lie in the socket's buffer: what is acknowledged stays.
    before, after = (positions_by_topic({ORDERS: Position(offset, 1)}) for offset in (5, 6))
    shard.send(ann, PingResponse(consumer_id="ann", number=1, offset_info=before))
    shard.send(ann, CommitOffsetsRequest(correlation_id=7, consumer_id="ann", offset_info=after))
    await shard.heard(ann, CommitOffsetsResponse)
    await shard.turn()
    assert not shard.groups.states[GROUP].memory.sessions["ann"].ping_unanswered
    assert shard.groups.states[GROUP].memory.dirty == {}
    assert shard.groups.states[GROUP].rows.offsets == {ORDERS: 6}


async def test_keys_go_on_when_a_group_is_deleted_and_comes_back(shard: Shard) -> None:
    keys = []
    for _ in range(2):
        ann = shard.connect()
        await shard.turn(shard.registering(ann, "ann", ephemeral=True))
        told = await shard.heard(ann, StartFetcherRequest)
        keys.append((told["generation"], told["version"]))
        await shard.turn(Heard(ann.id, LeaveRequest(correlation_id=9, consumer_id="ann")))
    # The consumer process may be the same, and obeys no key below the last one.
    assert keys[0] < keys[1]


async def test_a_group_of_another_protocol_is_refused_in_words(shard: Shard) -> None:
    shard.link.transaction(
        lambda connection: connection.execute(
            "INSERT INTO consumer_group (name, shard, protocol, phase, generation, version, rebalance_mode,"
            " assignor, error, ephemeral) VALUES (%s, %s, 'classic', 'Stable', 3, 9, 'incremental', 'range',"
            " '', false)",
            (GROUP, SHARD),
        )
    )
    ann = shard.connect()
    await shard.turn(shard.registering(ann, "ann"))
    answer = await shard.heard(ann, RegisterConsumerResponse)
    assert answer["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not ann.closing


async def test_a_group_that_cannot_be_read_leaves_the_others_of_its_shard_served(shard: Shard) -> None:
    ann = await owner(shard)
    shard.link.transaction(
        lambda connection: connection.execute("UPDATE group_member SET subscription = '[{\"x\": 1}]'")
    )
    await shard.service.accept(shard.lane)
    assert shard.service.accepting and GROUP not in shard.groups.states
    await shard.turn(shard.registering(shard.connect(), "ann"))
    assert ann.closing is False
    with pytest.raises(Unreadable):
        shard.link.call(lambda connection: shard.store.load(connection, GROUP))
