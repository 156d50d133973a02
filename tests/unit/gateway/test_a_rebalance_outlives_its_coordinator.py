"""The four points of 001 at which a coordinator may fail in the middle of a rebalance, over two doors.

The first door's process is gone: what it had said to nobody is lost, what it had stored the second one finds.
"""

from contextlib import AsyncExitStack

from groups.core.phases import Phase
from groups.core.state import GroupRows
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import KEY, Door, kafka_door
from tests.unit.gateway.pools import REBALANCE_IN_PROGRESS, PoolMember, join_together


async def members(door: Door, count: int) -> list[PoolMember]:
    return [PoolMember(await door.peer(), "consumer", b"m") for _ in range(count)]


async def taken_over(at_the_end: AsyncExitStack, door: Door, *members: PoolMember) -> Door:
    """Another node has read what the first had stored; the members have found it."""
    rows: GroupRows = door.shards.rows(KEY)
    door.close()
    other = await at_the_end.enter_async_context(kafka_door(stored=[rows]))
    for member in members:
        member.peer = await other.peer()
    return other


async def stable(door: Door, *pool: PoolMember) -> PoolMember:
    leader = await join_together(*pool)
    await synced(leader, *pool)
    await eventually(lambda: door.shards.rows(KEY).phase is Phase.STABLE)
    return leader


async def synced(leader: PoolMember, *pool: PoolMember) -> None:
    """All ask for their shares, the leader last."""
    shares = {one.member_id: one.member_id.encode() for one in pool}
    for one in sorted(pool, key=lambda one: one is leader):
        one.sends_sync(shares if one is leader else None)
    for one in pool:
        assert await one.hears_of_sync() == 0
        assert one.given == one.member_id.encode()


async def test_before_all_have_joined_they_join_again() -> None:
    async with AsyncExitStack() as at_the_end:
        door = await at_the_end.enter_async_context(kafka_door())
        ann, ben, cleo = await members(door, 3)
        await stable(door, ann, ben)
        await cleo.asks_to_join()
        await eventually(lambda: door.shards.rows(KEY).phase is Phase.PREPARING_REBALANCE)
        ann.sends_join()
        door = await taken_over(at_the_end, door, ann, ben, cleo)
        before = ben.joined.generation_id
        cleo.sends_join()
        leader = await join_together(ann, ben, cleo)
        assert leader.joined.generation_id == before + 1
        await synced(leader, ann, ben, cleo)


async def test_once_the_generation_is_stored_who_did_not_hear_of_it_joins_it() -> None:
    """Nothing was promised to anybody that another Join would change: nobody else has to join again."""
    async with AsyncExitStack() as at_the_end:
        door = await at_the_end.enter_async_context(kafka_door())
        ann, ben = await members(door, 2)
        leader = await join_together(ann, ben)
        [other] = [one for one in (ann, ben) if one is not leader]
        other.joined = None
        door = await taken_over(at_the_end, door, ann, ben)
        other.sends_join()
        assert await other.hears_of_join() == 0
        assert other.joined.generation_id == leader.joined.generation_id
        await synced(leader, ann, ben)


async def test_somebody_new_ends_what_the_leader_has_begun_to_share() -> None:
    async with AsyncExitStack() as at_the_end:
        door = await at_the_end.enter_async_context(kafka_door())
        ann, ben = await members(door, 2)
        leader = await join_together(ann, ben)
        [other] = [one for one in (ann, ben) if one is not leader]
        door = await taken_over(at_the_end, door, ann, ben)
        other.sends_sync()
        # Ids are given beside the rebalance; only the Join that carries one begins another.
        (cleo,) = await members(door, 1)
        await cleo.asks_to_join()
        assert await other.hears_of_sync() == REBALANCE_IN_PROGRESS
        leader.sends_sync({leader.member_id: b"too late"})
        assert await leader.hears_of_sync() == REBALANCE_IN_PROGRESS
        before = leader.joined.generation_id
        for one in (ann, ben):
            one.sends_join()
        for one in (ann, ben, cleo):
            assert await one.hears_of_join() == 0
            assert one.joined.generation_id == before + 1
        [leader] = [one for one in (ann, ben, cleo) if one.leads]
        await synced(leader, ann, ben, cleo)


async def test_before_the_assignment_is_stored_all_ask_again() -> None:
    async with AsyncExitStack() as at_the_end:
        door = await at_the_end.enter_async_context(kafka_door())
        ann, ben = await members(door, 2)
        leader = await join_together(ann, ben)
        [other] = [one for one in (ann, ben) if one is not leader]
        other.sends_sync()
        door = await taken_over(at_the_end, door, ann, ben)
        await synced(leader, ann, ben)
        assert door.shards.rows(KEY).generation == leader.joined.generation_id


async def test_once_the_assignment_is_stored_each_gets_its_share_at_once() -> None:
    async with AsyncExitStack() as at_the_end:
        door = await at_the_end.enter_async_context(kafka_door())
        ann, ben = await members(door, 2)
        leader = await stable(door, ann, ben)
        [other] = [one for one in (ann, ben) if one is not leader]
        other.given = b""
        door = await taken_over(at_the_end, door, ann, ben)
        other.sends_sync()
        assert await other.hears_of_sync() == 0
        assert other.given == other.member_id.encode()
        assert await leader.beats() == 0
        assert door.shards.rows(KEY).generation == leader.joined.generation_id
