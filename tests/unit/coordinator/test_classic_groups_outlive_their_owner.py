"""A classic group goes on in whatever phase its owner leaves it: by a takeover, a freeze, a failed turn."""

import asyncio

from coordinator.core.events import JoinAnswer, SyncAnswer
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from tests.unit.coordinator.kafka_clients import AT_ONCE, KEY, KafkaClient, completing, stable
from tests.unit.coordinator.shards import Shards, eventually


async def taken_over(shards: Shards, client: KafkaClient) -> None:
    """The shard is given up, and loaded anew from what is stored."""
    shards.store.single_loads.clear()
    await client.service.give_up("ws://other")
    await client.service.accept(shards.held[client.service.shard])


async def test_a_stable_group_goes_on_without_a_turn() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann, ben)
        turns = len(shards.database.tables["journal"])
        await taken_over(shards, ann)
        assert (ann.beats(), ben.beats()) == (ErrorCode.NONE, ErrorCode.NONE)
        assert (await ben.synced(ben.asks_for_its_share())).assignment == ben.member_id.encode()
        assert shards.store.single_loads == []
        assert len(shards.database.tables["journal"]) == turns


async def test_in_preparing_rebalance_who_waits_is_sent_away_and_all_join_again() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann)
        parked = ben.asks_to_join()
        await shards.settled(KEY)
        await taken_over(shards, ann)
        assert ben.seat.deserted == [(parked, ErrorCode.NOT_COORDINATOR)]
        assert shards.rows(KEY).phase is Phase.PREPARING_REBALANCE
        assert ann.beats() is ErrorCode.REBALANCE_IN_PROGRESS
        assert shards.store.single_loads == []
        # The row of ben's first Join stands; a client that never heard its id has another one.
        ben.member_id = next(one for one in members(shards) if one != ann.member_id)
        await completing(ann, ben)
        assert ann.generation == 2


async def test_in_completing_rebalance_the_generation_stays_and_the_leader_assigns() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await completing(ann, ben)
        leader, follower = (ann, ben) if ann.leader == ann.member_id else (ben, ann)
        parked = follower.asks_for_its_share()
        await shards.settled(KEY)
        await taken_over(shards, ann)
        assert follower.seat.deserted == [(parked, ErrorCode.NOT_COORDINATOR)]
        assert (ann.beats(), ben.beats()) == (ErrorCode.NONE, ErrorCode.NONE)
        again = follower.asks_for_its_share()
        await leader.synced(leader.asks_for_its_share({follower.member_id: b"all"}))
        assert (await follower.synced(again)).assignment == b"all"
        assert shards.rows(KEY).generation == ann.generation == 1
        assert shards.store.single_loads == []


async def test_time_that_stands_still_answers_nobody_and_ends_no_session() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann)
        shards.freshness.freeze()
        joins, beat = ben.asks_to_join(), ann.beats()
        later = asyncio.create_task(
            ann.service.heartbeat_later(KEY, ann.member_id, ann.instance, ann.generation)
        )
        await asyncio.sleep(0)
        assert beat is None
        assert not later.done()
        shards.freshness.thaw()
        ann.service.thaw(60_000)
        assert await later in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        await shards.settled(KEY)
        assert ann.member_id in members(shards)
        await completing(ann)
        await ben.joined(joins)


async def test_a_turn_that_is_lost_is_decided_again_and_who_waited_before_comes_again() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben, cleo = (KafkaClient(shards, name) for name in ("ann", "ben", "cleo"))
        await stable(ann)
        parked = ben.asks_to_join()
        await shards.settled(KEY)
        for link in shards.database.links:
            link.lose_request = True
        joins = cleo.asks_to_join()
        told = await ben.joined(parked)
        assert told.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await eventually(lambda: len(members(shards)) == 3)
        ben.member_id = told.member_id
        await completing(ann, ben)
        assert (await cleo.joined(joins)).generation == 2


async def test_a_turn_whose_answer_is_lost_is_decided_once() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann)
        for link in shards.database.links:
            link.lose_answer = True
        waits = ben.asks_to_join()
        await eventually(lambda: len(members(shards)) == 2)
        await completing(ann)
        await ben.joined(waits)
        assert len(members(shards)) == 2


async def test_our_own_mistake_is_answered_to_who_asked_and_nobody_else_loses_its_place() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann)
        shards.store.fails_for = "ben"
        assert (await ben.joined(ben.asks_to_join())).error is ErrorCode.UNKNOWN_SERVER_ERROR
        shards.store.fails_for = ""
        assert ann.beats() in (None, ErrorCode.NONE)
        assert await ann.service.heartbeat_later(KEY, ann.member_id, None, 1) is ErrorCode.NONE
        assert list(members(shards)) == [ann.member_id]


async def test_a_database_that_is_away_for_too_long_is_a_coordinator_that_is_not_available() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await shards.serve(KEY)
        shards.store.loses_connections = True
        waits = ann.asks_to_join()
        assert await ann.answer_to(waits) == JoinAnswer(waits, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        shards.store.loses_connections = False
        await stable(ann)


async def test_a_parked_sync_of_a_dropped_cache_comes_again() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await completing(ann, ben)
        follower = ben if ann.leader == ann.member_id else ann
        parked = follower.asks_for_its_share()
        await shards.settled(KEY)
        follower.service._groups.drop(KEY)
        assert await follower.synced(parked) == SyncAnswer(parked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert follower.beats() is None
        beat = follower.service.heartbeat_later(KEY, follower.member_id, None, follower.generation)
        assert await beat is ErrorCode.NONE


def members(shards: Shards) -> list[str]:
    classic = shards.rows(KEY).classic
    assert classic is not None
    return list(classic.members)
