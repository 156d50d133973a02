"""A ping needs no turn: it leaves when its slot comes, however long the lane's queue is."""

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec import structs

from coordinator.core.events import TopicsChanged
from coordinator.service import ShardService
from muster.kernel.instants import Instant
from muster.messages.member import PingRequest
from tests.unit.coordinator.shards import Caller, Shards, eventually, readers

KEY = "readers"


def slots_come(shards: Shards, service: ShardService, *names: str) -> None:
    """The slots of these members have come, and the lane looks."""
    groups = service._groups
    state, lane = groups.states[KEY], shards.held[service.shard]
    now = lane.now()
    sessions = dict(state.memory.sessions)
    for name in names:
        sessions[name] = structs.replace(sessions[name], slot_at=now, armed_at=now)
    timers = tuple((now, name) for name in names)
    memory = structs.replace(state.memory, sessions=sessions, timers=timers)
    groups.states[KEY] = structs.replace(state, memory=memory)
    lane.look_again(groups, KEY, now)


def pings(caller: Caller) -> int:
    return sum(isinstance(one, PingRequest) for one in caller.said)


def watched(service: ShardService) -> list[Iterable[Any]]:
    """The events of each turn of a group from now on."""
    turns: list[Iterable[Any]] = []
    decide = service._groups.decide

    def decided(key: str, state: Any, events: Any, now: Instant) -> Any:
        turns.append(events)
        return decide(key, state, events, now)

    service._groups.decide = decided  # type: ignore[method-assign]
    return turns


async def quiet(shards: Shards) -> tuple[ShardService, Caller]:
    """A service whose group has one member and nothing to do."""
    service = await shards.serve(KEY)
    ann = await shards.registered(KEY, "ann")
    await shards.finish(KEY, {"ann": [0]})
    await eventually(lambda: not service._groups.states[KEY].rows.handler_asked)
    return service, ann


async def test_a_ping_takes_no_turn() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service, ann = await quiet(shards)
        turns = watched(service)
        slots_come(shards, service, "ann")
        await eventually(lambda: pings(ann) == 1)
        assert turns == []
        session = service._groups.states[KEY].memory.sessions["ann"]
        assert session.ping_unanswered and session.ping_number == 1
        # And the lane looks again.
        assert (id(service._groups), KEY) in shards.held[service.shard]._timers


async def test_while_a_turn_is_written_its_state_is_left_alone() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service, ann = await quiet(shards)
        shards.store.gate.clear()
        service._hand_in(KEY, TopicsChanged())
        await eventually(shards.store.at_the_gate.is_set)
        slots_come(shards, service, "ann")
        state = service._groups.states[KEY]
        await eventually(lambda: (id(service._groups), KEY) not in shards.held[service.shard]._timers)
        assert service._groups.states[KEY] is state
        assert pings(ann) == 0
        shards.store.gate.set()
        await shards.settled(KEY)


async def test_no_ping_leaves_while_time_stands_still() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service, ann = await quiet(shards)
        shards.freshness.freeze()
        slots_come(shards, service, "ann")
        await eventually(lambda: (id(service._groups), KEY) not in shards.held[service.shard]._timers)
        assert pings(ann) == 0
        shards.freshness.thaw()
        await eventually(lambda: pings(ann) == 1)


async def test_a_ping_that_cannot_be_said_drops_the_cache() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service, ann = await quiet(shards)
        shards.store.single_loads.clear()

        def say(message: Any) -> None:
            raise RuntimeError("a mistake of ours")

        ann.say = say  # type: ignore[method-assign]
        slots_come(shards, service, "ann")
        await eventually(lambda: shards.store.single_loads)
        await asyncio.sleep(0)
        await eventually(lambda: KEY in service._groups.states)
