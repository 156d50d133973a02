"""This room runs real shards on real lanes over a database in memory, with callers of a test's making."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import msgspec

from access import tokens
from access.grants import Role
from coordinator.cluster_view import ClusterView
from coordinator.commits import Commit
from coordinator.core.events import ClassicAnswer, ConnectionId, Waiter
from coordinator.core.memory import GroupState
from coordinator.core.offsets import Judgement, judge
from coordinator.core.proposal import Proposal
from coordinator.core.rebalance import moves
from coordinator.service import Premises, ShardService
from coordinator.settings import CoordinatorSettings
from coordinator.store import REBALANCE, GroupStore
from coordinator.store_offsets import GroupOffsets
from coordinator.store_outlived import Outlived
from groups.core.classic import ClassicMember, ClassicRows
from groups.core.consumer_protocol import assignment, subscription
from groups.core.phases import Phase
from groups.core.records import GroupDeleted, GroupRecord, HandlerAsked, ItemAdopted
from groups.core.rows import apply
from groups.core.state import GroupRows, Member, Tenure
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.shards import shard_of
from muster.messages.link.callers import CallerRow
from muster.messages.member import RegisterConsumerRequest, TopicCount
from muster.messages.partitions import Partition, Position
from runtime import clock, work
from runtime.freshness import Freshness
from runtime.lanes import HeldLane, Lanes
from runtime.memory import MemoryDatabase
from runtime.ports import ConnectionLost, LiveNode, VersionConflict, shard_lane
from tests.unit.coordinator_core.group import orders

RUN = "a" * 16
SESSION_MS = 9_000


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until it is true; it must become so."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


class Node:
    """As much of a node as a shard asks."""

    node, address, frozen, tokens_known = "node-1", "ws://one", False, True

    def now(self) -> Any:
        return clock.now()

    def live_nodes(self) -> tuple[LiveNode, ...]:
        return ()

    def owners(self) -> Mapping[str, LiveNode]:
        return {}

    def owner_address(self, lane: str) -> str | None:
        return None

    def doubt_owner(self) -> None:
        """Nobody is there to look."""

    async def query(self, function: Callable[[Any], Any]) -> Any:
        """What a shard asks of the other tables: there is no topic, and no broker."""
        return {}, ()

    def wake(self, name: str, key: str = "") -> None:
        pass

    kafka_callers: tuple[CallerRow, ...] | None = None
    kafka_callers_at = Instant(0)

    def verify_token(self, presented: str) -> None:
        return None

    async def find_token(self, presented: str, address: str) -> bool:
        return False

    async def find_caller(self, name: str, address: str) -> bool:
        return False


class KnowingNode(Node):
    """Everybody may consume."""

    def verify_token(self, presented: str) -> Any:
        return tokens.Caller(presented, Role.CONSUMER, presented)


class MemoryGroups(GroupStore):
    """Group rows in a table in memory. `gate` holds up whoever writes offsets or a turn, until it is set."""

    def __init__(self) -> None:
        super().__init__("node-1")
        self.gate = threading.Event()
        self.gate.set()
        self.at_the_gate = threading.Event()
        self.single_loads: list[str] = []
        self.fails_for = ""
        self.loses_connections = False
        self.found = Outlived({}, {}, {})

    def load(self, connection: Any, key: str) -> GroupRows:
        self.single_loads.append(key)
        floor = connection.table("floor").get("generation", 0)
        rows: GroupRows = connection.table("groups").get(key) or GroupRows(key, generation=floor)
        return rows

    def load_shard(self, connection: Any, shard: int) -> Mapping[str, GroupRows | None]:
        return {key: rows for key, rows in connection.table("groups").items() if shard_of(key) == shard}

    def outlived(self, connection: Any, shard: int, retention_minutes: int) -> Outlived:
        return self.found

    def save(self, connection: Any, key: str, before: GroupRows, records: Sequence[GroupRecord]) -> None:
        self._pass_the_gate()
        if self.loses_connections:
            raise ConnectionLost("the database is away")
        if self.fails_for and self.fails_for in repr(records):
            raise ValueError("no database stores this")
        table = connection.table("groups")
        now = table.get(key) or GroupRows(key, generation=before.generation)
        if now.version != before.version:
            raise VersionConflict(key)
        table[key] = apply(now, records)
        for record in records:
            if isinstance(record, HandlerAsked):
                work.offer(connection, REBALANCE, key, now.version, {})
            elif isinstance(record, ItemAdopted):
                work.adopt(connection, record.item_id)
            elif isinstance(record, GroupDeleted):
                del table[key]
                connection.table("floor")["generation"] = before.generation + 1

    def save_all(
        self, connection: Any, turns: Sequence[tuple[str, GroupRows, Sequence[GroupRecord]]]
    ) -> None:
        for key, before, records in turns:
            self.save(connection, key, before, records)

    def write_offsets(self, connection: Any, offsets: GroupOffsets) -> None:
        self._pass_the_gate()
        table = connection.table("groups")
        for (key, partition), stored in offsets.items():
            offset, note = (stored, None) if isinstance(stored, int) else stored
            rows = table[key]
            notes = {one: kept for one, kept in rows.offset_notes.items() if one != partition}
            if note is not None:
                notes[partition] = note
            table[key] = replace(rows, offsets={**rows.offsets, partition: offset}, offset_notes=notes)

    def write_waiting(self, connection: Any, rows: Mapping[str, Any]) -> None:
        connection.table("waiting").update(rows)

    def _pass_the_gate(self) -> None:
        if not self.gate.is_set():
            self.at_the_gate.set()
            assert self.gate.wait(10)


class Caller:
    """Somebody who keeps all that is said to it."""

    _numbers = count(1)

    def __init__(self, name: str) -> None:
        self.id = ConnectionId(f"{name}/{next(self._numbers)}")
        self.name = name
        self.closing = False
        self.said: list[Any] = []
        self.judged: list[Judgement] = []
        self.hung_up: list[tuple[ErrorCode, str]] = []

    def say(self, message: Any) -> None:
        self.said.append(message)

    def hang_up(self, error: ErrorCode, text: str) -> None:
        self.closing = True
        self.hung_up.append((error, text))


class Seat:
    """A Kafka connection in one group: keeps each answer by its waiter, once (coordinator.callers.Caller)."""

    _numbers = count(1)

    def __init__(self) -> None:
        self.id = ConnectionId(f"kafka/{next(self._numbers)}")
        self.closing = False
        self.answers: dict[Waiter, ClassicAnswer] = {}
        self.parked: list[Waiter] = []
        self.deserted: list[tuple[Waiter, ErrorCode]] = []

    def waiter(self) -> Waiter:
        """A new one, for a request that is about to be sent."""
        waiter = Waiter(next(self._numbers))
        self.parked.append(waiter)
        return waiter

    def say(self, message: ClassicAnswer) -> None:
        if message.waiter in self.parked:
            self.parked.remove(message.waiter)
            self.answers[message.waiter] = message

    def hang_up(self, error: ErrorCode, text: str) -> None:
        """Nothing is closed: everybody who waits here is told."""
        self.deserted += [(waiter, error) for waiter in self.parked]
        self.parked.clear()


class Shards:
    """The lanes of one node, and the services that a test asks for."""

    def __init__(self, groups: Iterable[GroupRows] = (), settings: CoordinatorSettings | None = None) -> None:
        self.database = MemoryDatabase([shard_lane(shard) for shard in range(64)])
        self.database.tables["groups"] = {rows.group_id: rows for rows in groups}
        self.freshness = Freshness(clock.now, lease_ttl_ms=3_600_000)
        self.freshness.confirm(clock.now())
        self.freshness.thaw()
        self.database.connect(RUN, "session").begin_run(RUN, "node-1", "ws://one")
        self.lanes = Lanes(self.database, "node-1", RUN, self.freshness, clock.now, lambda items: None)
        self.store = MemoryGroups()
        self.premises = Premises(Node(), settings or CoordinatorSettings())
        self.premises.store = self.store
        self.premises.view = ClusterView(Node())
        self.services: dict[int, ShardService] = {}
        self.held: dict[int, HeldLane] = {}

    async def __aenter__(self) -> "Shards":
        self.lanes.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.store.gate.set()
        await self.lanes.stop()

    async def serve(self, key: str) -> ShardService:
        """Take the lease of the group's shard, and accept."""
        shard = shard_of(key)
        if shard not in self.services:
            service = self.services[shard] = ShardService(shard, self.premises)
            lane = await self.lanes.take(shard_lane(shard), shard, 0, None, lambda: None)
            assert lane is not None
            self.held[shard] = lane
            await service.accept(lane)
        return self.services[shard]

    @asynccontextmanager
    async def loading(self, service: ShardService) -> AsyncIterator[asyncio.Task[None]]:
        """It is given its lane again, and loads; whatever becomes of that, nobody is left who tells of it."""
        accepting = asyncio.create_task(service.accept(self.held[service.shard]))
        try:
            await asyncio.sleep(0)
            yield accepting
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)

    def rows(self, key: str) -> GroupRows:
        """What is stored."""
        rows: GroupRows = self.database.tables["groups"][key]
        return rows

    async def settled(self, key: str) -> None:
        """Whatever was handed in about the group before is decided."""
        await self.held[shard_of(key)].submit_turn(self.services[shard_of(key)]._groups, key)

    async def registered(self, key: str, name: str, *topics: str) -> Caller:
        """A caller that has registered as this member."""
        service, caller = await self.serve(key), Caller(name)
        self.premises.callers.add(caller, shard_of(key))
        service.hear(caller, key, registering(key, name, *topics))
        await self.settled(key)
        return caller

    async def finish(self, key: str, shares: Mapping[str, Sequence[int]]) -> None:
        """A worker does the group's work item: each member should own these numbers of `orders`."""
        link = self.database.connect(RUN, "worker")
        lane = shard_lane(shard_of(key))
        [open_item] = link.transaction(lambda connection: connection.work_table.open_items([lane]))
        claimed = link.transaction(lambda connection: connection.work_table.claim(open_item.id, "worker"))
        assert claimed is not None
        rows = self.rows(key)
        stored = {partition: name for name, tenures in rows.owned.items() for partition in tenures}
        target = {orders(number): name for name, mine in shares.items() for number in mine}
        proposal = Proposal(
            rows.version,
            tuple(rows.members),
            moves(stored, target),
        )
        result = msgspec.to_builtins(proposal)
        link.transaction(
            lambda connection: connection.work_table.finish(open_item.id, claimed.claim_epoch, result, "")
        )
        self.services[shard_of(key)].woken("work", f"{REBALANCE} {key}")

    def commit(self, caller: Caller, key: str, positions: dict[Partition, Position]) -> None:
        """The caller commits; how it was judged is kept with it."""
        judged = partial(_judge, caller, positions)
        commit = Asked(key, caller.id, judged, caller.judged.append, len(positions))
        assert self.services[shard_of(key)].commit(commit)


class Asked(Commit):
    """A commit that is judged and answered as a test says."""

    def __init__(
        self,
        key: str,
        connection: ConnectionId,
        judged: Callable[[GroupState], Judgement],
        answered: Callable[[Judgement], None],
        partitions: int = 1,
    ) -> None:
        super().__init__(key, connection, partitions)
        self._judged, self._answered = judged, answered

    def judge(self, state: GroupState) -> Judgement:
        return self._judged(state)

    def answer(self, judgement: Judgement) -> None:
        self._answered(judgement)


def _judge(caller: Caller, positions: dict[Partition, Position], state: GroupState) -> Judgement:
    return judge(state, caller.id, caller.name, positions.items())


def token_of(name: str) -> str:
    return f"token of {name}".ljust(43, ".")


def member(name: str) -> Member:
    """The row of a member that registers with `registering`."""
    return Member(
        member_id=name,
        token_hash=hashlib.sha256(token_of(name).encode()).hexdigest(),
        topic_count=(TopicCount("orders"),),
        session_timeout_ms=SESSION_MS,
    )


def registering(key: str, name: str, *topics: str) -> RegisterConsumerRequest:
    return RegisterConsumerRequest(
        correlation_id=1,
        group_id=key,
        consumer_id=name,
        token=token_of(name),
        topic_count=tuple(map(TopicCount, topics or ("orders",))),
        session_timeout_ms=SESSION_MS,
    )


def kafka_member(name: str, assignment: bytes = b"") -> ClassicMember:
    """The row of a member of a classic group."""
    return ClassicMember(
        member_id=name,
        client_id=f"client of {name}",
        client_host="/127.0.0.1",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocols=(("range", subscription(["orders"])), ("roundrobin", b"\xff")),
        assignment=assignment,
    )


def kafka_readers(
    key: str = "kafka-readers", phase: Phase = Phase.STABLE, **owned: Sequence[int]
) -> GroupRows:
    """A classic group whose first member leads: each by name, with its numbers of `orders`."""
    members = {name: kafka_member(name, assignment({"orders": mine})) for name, mine in owned.items()}
    return GroupRows(
        key,
        generation=1,
        version=1,
        phase=phase,
        protocol="classic",
        classic=ClassicRows("consumer", "range", next(iter(members), None), members),
    )


def readers(key: str = "readers", mode: str = "incremental", **owned: Sequence[int]) -> GroupRows:
    """A stable group: each member by name, with the numbers of what it owns of `orders`."""
    return GroupRows(
        key,
        generation=1,
        version=1,
        phase=Phase.STABLE,
        rebalance_mode=mode,
        members={name: member(name) for name in owned},
        owned={name: {orders(one): Tenure(1, running=True) for one in mine} for name, mine in owned.items()},
    )
