"""FindCoordinator is held for a moment while the group's shard has no owner: a lease moves in less than a
client pauses.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway import listener
from kafkaserver.finding import TRANSACTION
from muster.kafkawire.api_table import ApiKey, RequestHeader, read_request
from muster.kernel.shards import shard_of
from runtime.ports import LiveNode, shard_lane
from tests.unit.gateway.doors import Door, kafka_door
from tests.unit.kafkaserver.kafka_requests import frame

FIND = ApiKey.FIND_COORDINATOR
MINE, OTHER = "readers", "writers"
NODE = LiveNode("a-run", "node-1", "ws://one", node_id=10_001, kafka="one:9302")
NOT_AVAILABLE = 15
INVALID_REQUEST = 42
FOR_EVER = 1 << 30


class Owners:
    """Who holds the leases: the one node, of all shards but those that are free."""

    def __init__(self, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = {shard_lane(shard_of(MINE))}
        self.doubted = asyncio.Event()
        patch: list[tuple[str, Callable[..., object]]] = [
            ("live_nodes", lambda: (NODE,)),
            ("owner_address", lambda lane: None if lane in self.free else NODE.address),
            ("doubt_owner", self.doubted.set),
        ]
        for name, told in patch:
            monkeypatch.setattr(door.node, name, told)

    async def are_asked_for(self) -> None:
        async with asyncio.timeout(10):
            await self.doubted.wait()
        self.doubted.clear()


async def test_it_is_answered_as_soon_as_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HELD_MAX_MS", FOR_EVER)
    async with kafka_door() as door:
        owners, ann = Owners(door, monkeypatch), await door.peer()
        ann.send(FIND, 4, key_type=0, coordinator_keys=(MINE,))
        await owners.are_asked_for()
        # What comes behind it is received where it lay.
        ann.send(FIND, 4, key_type=0, coordinator_keys=(OTHER,))
        await owners.are_asked_for()
        owners.free.clear()
        for key in (MINE, OTHER):
            [found] = (await ann.hear()).coordinators
            assert (found.key, int(found.error_code), found.node_id) == (key, 0, 10_001)


async def test_whoever_asks_for_another_group_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """One shard that nobody can take held up each group of the cluster."""
    monkeypatch.setattr(listener, "HELD_MAX_MS", FOR_EVER)
    async with kafka_door() as door:
        Owners(door, monkeypatch)
        ann, ben = await door.peer(), await door.peer()
        async with asyncio.timeout(10):
            found = await ann.ask(FIND, 3, key_type=0, key=OTHER)
            [also] = (await ben.ask(FIND, 4, key_type=0, coordinator_keys=(OTHER,))).coordinators
        assert (int(found.error_code), found.node_id) == (int(also.error_code), also.node_id) == (0, 10_001)


async def test_nobody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HELD_MAX_MS", listener.HELD_LOOK_MS)
    async with kafka_door() as door:
        Owners(door, monkeypatch)
        ann = await door.peer()
        found = await ann.ask(FIND, 3, key_type=0, key=MINE)
        assert int(found.error_code) == NOT_AVAILABLE


async def test_what_cannot_be_read_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HELD_MAX_MS", FOR_EVER)
    async with kafka_door() as door:
        Owners(door, monkeypatch)
        ann = await door.peer()
        with pytest.raises(asyncio.IncompleteReadError):
            await ann.exchange(bytes(frame(FIND, 3, key_type=0, key=MINE))[:-3])


async def test_who_asks_for_transactions_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused whoever owns which groups."""
    monkeypatch.setattr(listener, "HELD_MAX_MS", FOR_EVER)
    async with kafka_door() as door:
        Owners(door, monkeypatch)
        ann = await door.peer()
        async with asyncio.timeout(10):
            [refused] = (await ann.ask(FIND, 4, key_type=TRANSACTION, coordinator_keys=(MINE,))).coordinators
        assert int(refused.error_code) == INVALID_REQUEST


async def test_ten_thousand_keys_that_wait_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HELD_MAX_MS", listener.HELD_LOOK_MS)
    reads: list[RequestHeader] = []

    def read(header: RequestHeader, frame: memoryview) -> Any:
        reads.append(header)
        return read_request(header, frame)

    monkeypatch.setattr(listener, "read_request", read)
    async with kafka_door() as door:
        Owners(door, monkeypatch)
        keys = tuple(f"{MINE}-{number}" for number in range(9_000))
        answer = await (await door.peer()).ask(FIND, 4, key_type=0, coordinator_keys=keys)
        assert tuple(one.key for one in answer.coordinators) == keys
        assert len(reads) == 1


async def test_a_frozen_node_names_itself_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another may have taken what it held, and it would answer nothing."""
    monkeypatch.setattr(listener, "HELD_MAX_MS", 0)
    async with kafka_door() as door:
        Owners(door, monkeypatch).free.clear()
        ann = await door.peer()
        asked = {"key_type": 0, "coordinator_keys": (MINE,)}
        [found] = (await ann.ask(FIND, 4, **asked)).coordinators
        assert (int(found.error_code), found.node_id) == (0, 10_001)
        monkeypatch.setattr(door.node, "frozen", True)
        [found] = (await ann.ask(FIND, 4, **asked)).coordinators
        assert int(found.error_code) == NOT_AVAILABLE
        monkeypatch.setattr(door.node, "address", "ws://another")
        [found] = (await ann.ask(FIND, 4, **asked)).coordinators
        assert (int(found.error_code), found.node_id) == (0, 10_001), "it is said of itself alone"
