"""Of producers that are one group one writes (001): the leader; when it is gone its generation fences it."""

from dataclasses import replace
from datetime import timedelta

from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import AT_ONCE, KEY, Door, kafka_door
from tests.unit.gateway.pools import LONG, REBALANCE_IN_PROGRESS, PoolMember, join_together

WRITES, WAITS = b"write", b"wait"
ANY_SESSION = replace(AT_ONCE, group=replace(AT_ONCE.group, group_min_session_timeout_ms=1))
ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID = 22, 25


async def producer(door: Door, session: timedelta = LONG) -> PoolMember:
    return PoolMember(await door.peer(), "single-writer", b"ready", session)


async def choose(*producers: PoolMember) -> PoolMember:
    """They join, and whoever leads says that it writes itself."""
    leader = await join_together(*producers)
    for one in producers:
        shares = {name: WRITES if name == leader.member_id else WAITS for name in leader.told}
        one.sends_sync(shares if one is leader else None)
    for one in producers:
        assert await one.hears_of_sync() == 0
    [writer] = [one for one in producers if one.given == WRITES]
    return writer


async def test_another_writes_when_the_writer_is_silent_and_what_it_says_late_is_refused() -> None:
    async with kafka_door(settings=ANY_SESSION) as door:
        silent = await producer(door, session=timedelta(milliseconds=500))
        ben, cleo = await producer(door), await producer(door)
        assert await choose(silent, ben, cleo) is silent
        old = silent.joined.generation_id
        await eventually(lambda: door.shards.rows(KEY).phase.value == "PreparingRebalance")
        assert await ben.beats() == REBALANCE_IN_PROGRESS
        writer = await choose(ben, cleo)
        assert writer.joined.generation_id > old
        assert await writer.commits(20) == 0
        assert await silent.commits(11) == UNKNOWN_MEMBER_ID
        assert await silent.beats() == UNKNOWN_MEMBER_ID
        assert list(door.shards.rows(KEY).offsets.values()) == [20]


async def test_a_writer_that_came_back_writes_nothing_of_its_old_generation() -> None:
    async with kafka_door() as door:
        ann, ben = await producer(door), await producer(door)
        assert await choose(ann) is ann
        old = ann.joined.generation_id
        await choose(ann, ben)
        assert await ann.commits(10, generation=old) == ILLEGAL_GENERATION
        assert not door.shards.rows(KEY).offsets


async def test_one_that_waits_may_go_and_the_writer_writes_on() -> None:
    async with kafka_door() as door:
        ann, ben = await producer(door), await producer(door)
        assert await choose(ann, ben) is ann
        await ben.leaves()
        # Its generation is good until the next begins: who was chosen writes while they share anew.
        assert await ann.commits(10) == 0
        assert await choose(ann) is ann
        assert await ann.commits(11) == 0
