"""A ping answer counts when it comes: no queue, no batch and no turn that is being written makes it late."""

from dataclasses import replace

from msgspec import structs

from coordinator.core.events import TopicsChanged
from coordinator.core.memory import Session
from coordinator.service import ShardService
from muster.kernel.instants import Instant
from muster.kernel.shards import shard_of
from muster.messages.member import (
    PingRequest,
    PingResponse,
    StartFetcherRequest,
    StartFetcherResponse,
)
from muster.messages.partitions import Position, positions_by_topic
from tests.unit.coordinator.shards import Caller, Shards, eventually, kafka_readers, member, readers
from tests.unit.coordinator_core.group import orders

KEY = "readers"


def session_of(service: ShardService, name: str) -> Session:
    return service._groups.states[KEY].memory.sessions[name]


def pinged(service: ShardService, name: str) -> None:
    """The member's slot has come: ping 1 is under way."""
    state = service._groups.states[KEY]
    session = structs.replace(
        session_of(service, name), ping_number=1, ping_unanswered=True, ends_at=Instant(1)
    )
    sessions = {**state.memory.sessions, name: session}
    memory = structs.replace(state.memory, sessions=sessions)
    service._groups.states[KEY] = structs.replace(state, memory=memory)


def answer(offset: int, *numbers: int) -> PingResponse:
    positions = {orders(number): Position(offset, 1) for number in numbers}
    return PingResponse(consumer_id="ann", number=1, offset_info=positions_by_topic(positions))


async def test_an_answer_takes_no_turn() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service = await shards.serve(KEY)
        ann = await shards.registered(KEY, "ann")
        pinged(service, "ann")
        service.hear(ann, KEY, answer(7, 0))
        # Nothing was awaited.
        assert not session_of(service, "ann").ping_unanswered
        assert session_of(service, "ann").ends_at > 1
        assert service._groups.states[KEY].memory.dirty == {orders(0): 7}


async def test_an_answer_that_differs_is_repaired_at_once() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service = await shards.serve(KEY)
        ann = await shards.registered(KEY, "ann")
        pinged(service, "ann")
        told = starts(ann)
        service.hear(ann, KEY, answer(7))
        assert starts(ann) == told + 1


async def test_whose_start_answer_still_waits_is_not_told_again() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service = await shards.serve(KEY)
        ann = await shards.registered(KEY, "ann")
        pinged(service, "ann")
        told = starts(ann)
        service.hear(ann, KEY, StartFetcherResponse(consumer_id="ann", generation=1, version=1))
        service.hear(ann, KEY, answer(7))
        assert starts(ann) == told
        assert not session_of(service, "ann").ping_unanswered


async def test_what_comes_while_a_turn_is_written_counts_from_when_it_came() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service = await shards.serve(KEY)
        ann = await shards.registered(KEY, "ann")
        await shards.finish(KEY, {"ann": [0]})
        await eventually(lambda: not service._groups.states[KEY].rows.handler_asked)
        pinged(service, "ann")
        state = service._groups.states[KEY]
        shards.store.gate.clear()
        service._hand_in(KEY, TopicsChanged())
        await eventually(shards.store.at_the_gate.is_set)
        came_at = shards.held[service.shard].now()
        service.hear(ann, KEY, answer(7, 0))
        assert service._groups.states[KEY] is state
        shards.store.gate.set()
        await eventually(lambda: service._groups.states[KEY].rows.handler_asked)
        session = session_of(service, "ann")
        assert not session.ping_unanswered
        assert came_at < session.ends_at
        assert service._groups.states[KEY].memory.dirty == {orders(0): 7}


async def test_a_group_that_is_not_in_the_cache_is_loaded_for_it() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service = await shards.serve(KEY)
        ann = await shards.registered(KEY, "ann")
        service._groups.drop(KEY)
        service.hear(ann, KEY, answer(7, 0))
        await eventually(lambda: KEY in service._groups.states)
        assert session_of(service, "ann").connection == ann.id


async def test_thousands_of_pings_are_sent_a_few_hundred_a_turn() -> None:
    members = [f"m-{number}" for number in range(1_200)]
    rows = replace(readers(), members={name: member(name) for name in members})
    async with Shards([rows]) as shards:
        service = await shards.serve(KEY)
        callers = [Caller(name) for name in members]
        state = service._groups.states[KEY]
        sessions = {
            caller.name: structs.replace(
                state.memory.sessions[caller.name],
                connection=caller.id,
                slot_at=Instant(1),
                armed_at=Instant(1),
            )
            for caller in callers
        }
        for caller in callers:
            shards.premises.callers.add(caller, service.shard)
        timers = tuple((Instant(1), name) for name in members)
        memory = structs.replace(state.memory, sessions=sessions, timers=timers)
        service._groups.states[KEY] = structs.replace(state, memory=memory)
        await shards.settled(KEY)
        assert sum(bool(caller.said) for caller in callers) == 500
        await eventually(lambda: all(caller.said for caller in callers))
        assert all(isinstance(caller.said[0], PingRequest) for caller in callers)


def starts(caller: Caller) -> int:
    return sum(isinstance(one, StartFetcherRequest) for one in caller.said)


async def test_a_sign_of_life_in_a_group_of_the_other_world_changes_nothing() -> None:
    """Whoever was refused there may say so all the same; it is heard by a turn, which knows both worlds."""
    async with Shards([kafka_readers(KEY, ann=[0])]) as shards:
        service, eve = await shards.serve(KEY), Caller("eve")
        shards.premises.callers.add(eve, shard_of(KEY))
        before = shards.rows(KEY)
        await shards.settled(KEY)
        assert service.hear(eve, KEY, PingResponse(consumer_id="ann", number=1))
        await shards.settled(KEY)
        assert shards.rows(KEY) == before
