"""A wake-up costs as much as many pings: what is due in a part of the shortest session leaves together."""

from dataclasses import replace

import pytest
from msgspec import structs

from coordinator.core.native.sessions import LOOKED_AFTER_MAX
from coordinator.core.settings import GroupSettings
from coordinator.service import ShardService
from coordinator.settings import CoordinatorSettings
from muster.kernel.instants import Instant, after
from tests.unit.coordinator.shards import Caller, Shards, eventually, member, readers

KEY = "readers"
NOW = Instant(1_000_000)


def shards_of(members: int, shortest_ms: int = 6_000) -> Shards:
    """With one group of so many members, none of which is connected."""
    names = [f"m-{number}" for number in range(members)]
    rows = replace(readers(KEY), members={name: member(name) for name in names})
    group = GroupSettings(group_min_session_timeout_ms=shortest_ms)
    return Shards([rows], CoordinatorSettings(group=group))


async def served(shards: Shards, apart_ms: int) -> tuple[ShardService, list[Caller]]:
    """All are connected, and are to be pinged so far apart, the first of them now."""
    service = await shards.serve(KEY)
    await shards.settled(KEY)
    state = service._groups.states[KEY]
    callers = [Caller(name) for name in state.rows.members]
    slots = {caller.name: after(NOW, apart_ms * place) for place, caller in enumerate(callers)}
    for caller in callers:
        shards.premises.callers.add(caller, service.shard)
    sessions = {
        caller.name: structs.replace(
            state.memory.sessions[caller.name],
            connection=caller.id,
            slot_at=slots[caller.name],
            armed_at=slots[caller.name],
            ends_at=after(NOW, 60_000),
        )
        for caller in callers
    }
    timers = tuple((slot_at, name) for name, slot_at in slots.items())
    memory = structs.replace(state.memory, sessions=sessions, timers=timers, wanted="")
    service._groups.states[KEY] = structs.replace(state, memory=memory)
    return service, callers


def asked(service: ShardService) -> int:
    """How many members have a ping under way."""
    return sum(one.ping_unanswered for one in service._groups.states[KEY].memory.sessions.values())


@pytest.mark.parametrize(("shortest_ms", "pause_ms"), [(60_000, 100), (6_000, 100), (3_000, 50), (100, 25)])
async def test_the_next_look_waits_for_a_part_of_the_shortest_session(
    shortest_ms: int, pause_ms: int
) -> None:
    async with shards_of(300, shortest_ms) as shards:
        service, callers = await served(shards, apart_ms=1)
        again = service._groups.beat(KEY, NOW)
        assert again == after(NOW, pause_ms)
        assert asked(service) == 1
        assert service._groups.beat(KEY, again) == after(again, pause_ms)
        assert asked(service) == pause_ms + 1
        await eventually(lambda: sum(bool(caller.said) for caller in callers) == pause_ms + 1)


async def test_it_comes_sooner_where_more_are_due_than_are_looked_after_together() -> None:
    async with shards_of(members=LOOKED_AFTER_MAX + 10) as shards:
        service, callers = await served(shards, apart_ms=0)
        again = service._groups.beat(KEY, NOW)
        assert again == after(NOW, 25)
        assert service._groups.beat(KEY, again) == after(NOW, 3_000), "a third of their sessions"
        await eventually(lambda: all(caller.said for caller in callers))


async def test_where_nothing_is_due_before_it_comes_with_the_next_slot() -> None:
    async with shards_of(members=2) as shards:
        service, _ = await served(shards, apart_ms=1_000)
        assert service._groups.beat(KEY, NOW) == after(NOW, 1_000)
