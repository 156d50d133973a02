"""This room speaks for Kafka clients to the shards of a test: requests, and who waits for their answers."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from coordinator.core.events import Join, JoinAnswer, Leave, LeaveAnswer, Leaver, Sync, SyncAnswer, Waiter
from coordinator.core.settings import GroupSettings
from coordinator.service import ShardService
from coordinator.settings import CoordinatorSettings
from groups.core.consumer_protocol import subscription
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from tests.unit.coordinator.shards import SESSION_MS, Seat, Shards, eventually

KEY = "kafka-readers"
AT_ONCE = CoordinatorSettings(group=GroupSettings(group_initial_rebalance_delay_ms=0))
"""The first rebalance of a group waits for nobody."""

PROTOCOLS = (("range", subscription(["orders"])),)


class KafkaClient:
    """One client in one group: what it knows of itself, and its seat."""

    _fresh = count(1)

    def __init__(self, shards: Shards, name: str, instance: str | None = None, key: str = KEY) -> None:
        self.shards = shards
        self.name = name
        self.instance = instance
        self.key = key
        self.seat = Seat()
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        shards.premises.callers.add(self.seat, shard_of(key))

    @property
    def service(self) -> ShardService:
        return self.shards.services[shard_of(self.key)]

    # -- requests: each returns who waits for its answer --------------------------------------

    def asks_to_join(self, *, protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS, **how: Any) -> Waiter:
        event = Join(
            connection=self.seat.id,
            waiter=self.seat.waiter(),
            fresh_member_id=f"{self.instance or self.name}-{next(self._fresh)}",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            client_id=self.name,
            client_host="/127.0.0.1",
            protocol_type="consumer",
            protocols=protocols,
            **how,
        )
        self.service.request(self.seat, self.key, event)
        return event.waiter

    def asks_for_its_share(self, assignments: Mapping[str, bytes] | None = None) -> Waiter:
        event = Sync(
            connection=self.seat.id,
            waiter=self.seat.waiter(),
            member_id=self.member_id,
            generation=self.generation,
            group_instance_id=self.instance,
            assignments=assignments or {},
        )
        self.service.request(self.seat, self.key, event)
        return event.waiter

    def asks_to_leave(self) -> Waiter:
        event = Leave(
            connection=self.seat.id,
            waiter=self.seat.waiter(),
            members=(Leaver(self.member_id, self.instance),),
        )
        self.service.request(self.seat, self.key, event)
        return event.waiter

    def hangs_up(self) -> None:
        """Its connection ends."""
        self.service.deserted(self.seat)
        self.shards.premises.callers.remove(self.seat, shard_of(self.key))

    def beats(self) -> ErrorCode | None:
        return self.service.heartbeat(self.key, self.member_id, self.instance, self.generation)

    # -- answers ------------------------------------------------------------------------------

    async def joined(self, waiter: Waiter) -> JoinAnswer:
        """The answer to a Join, of which the client remembers what it has to."""
        answer = await self.answer_to(waiter)
        assert isinstance(answer, JoinAnswer)
        if answer.error is ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation
            self.leader = answer.leader
        return answer

    async def synced(self, waiter: Waiter) -> SyncAnswer:
        answer = await self.answer_to(waiter)
        assert isinstance(answer, SyncAnswer)
        return answer

    async def left(self, waiter: Waiter) -> list[ErrorCode]:
        answer = await self.answer_to(waiter)
        assert isinstance(answer, LeaveAnswer)
        return [one.error for one in answer.members]

    async def answer_to(self, waiter: Waiter) -> Any:
        await eventually(lambda: waiter in self.seat.answers)
        return self.seat.answers[waiter]


async def completing(*clients: KafkaClient) -> None:
    """All join in one turn, those that are there again. Nobody has its share yet."""
    await clients[0].shards.serve(clients[0].key)
    waiting = [(client, client.asks_to_join()) for client in clients]
    for client, waiter in waiting:
        assert (await client.joined(waiter)).error is ErrorCode.NONE


async def stable(*clients: KafkaClient) -> None:
    """All have joined and have their shares: each its own id."""
    await completing(*clients)
    shares = {client.member_id: client.member_id.encode() for client in clients}
    leader = next(client for client in clients if client.member_id == client.leader)
    waiting = [(client, client.asks_for_its_share()) for client in clients if client is not leader]
    waiting.append((leader, leader.asks_for_its_share(shares)))
    for client, waiter in waiting:
        assert (await client.synced(waiter)).assignment == client.member_id.encode()
