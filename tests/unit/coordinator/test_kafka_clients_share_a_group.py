"""The whole road of Kafka clients through a shard: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

import asyncio

import pytest

from coordinator.core.events import JoinAnswer, SyncAnswer
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from tests.unit.coordinator.kafka_clients import AT_ONCE, KEY, KafkaClient, completing, stable
from tests.unit.coordinator.shards import Shards, eventually


async def test_two_members_share_a_group_and_the_one_that_stays_shares_anew() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann, ben)
        assert shards.rows(KEY).phase is Phase.STABLE
        assert (ann.beats(), ben.beats()) == (ErrorCode.NONE, ErrorCode.NONE)
        leaver, stays = (ann, ben) if ann.leader == ann.member_id else (ben, ann)
        assert await leaver.left(leaver.asks_to_leave()) == [ErrorCode.NONE]
        assert stays.beats() is ErrorCode.REBALANCE_IN_PROGRESS
        await stable(stays)
        assert (stays.leader, stays.generation) == (stays.member_id, 2)
        assert leaver.beats() is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_that_is_given_its_id_joins_with_it() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await shards.serve(KEY)
        told = await ann.joined(ann.asks_to_join(must_know_id=True))
        assert told.error is ErrorCode.MEMBER_ID_REQUIRED
        ann.member_id = told.member_id
        assert ann.beats() is ErrorCode.UNKNOWN_MEMBER_ID
        await stable(ann)
        assert ann.member_id == told.member_id


async def test_a_heartbeat_is_answered_while_a_turn_of_its_group_is_being_written_and_counts() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann)
        shards.store.gate.clear()
        waiter = ben.asks_to_join()
        await asyncio.to_thread(shards.store.at_the_gate.wait, 10)
        assert ann.beats() is ErrorCode.NONE
        heard_at = ann.service._groups.states[KEY].classic.heard_at[ann.member_id]
        shards.store.gate.set()
        await eventually(lambda: shards.rows(KEY).phase is Phase.PREPARING_REBALANCE)
        await shards.settled(KEY)
        assert ann.service._groups.states[KEY].classic.heard_at[ann.member_id] == heard_at
        assert ann.beats() is ErrorCode.REBALANCE_IN_PROGRESS
        assert waiter not in ben.seat.answers


async def test_a_static_member_comes_back_under_a_new_id_without_a_rebalance() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann", "i-ann"), KafkaClient(shards, "ben")
        await stable(ann, ben)
        again = KafkaClient(shards, "ann", "i-ann")
        await again.joined(again.asks_to_join())
        assert (again.generation, ben.beats()) == (ann.generation, ErrorCode.NONE)
        assert (await again.synced(again.asks_for_its_share())).assignment == ann.member_id.encode()
        assert ann.beats() is ErrorCode.FENCED_INSTANCE_ID
        assert again.beats() is ErrorCode.NONE


async def test_what_one_connection_says_is_decided_in_its_order() -> None:
    """A client may send the next request before the last was answered."""
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await stable(ann)
        joins, leaves = ann.asks_to_join(), ann.asks_to_leave()
        await ann.left(leaves)
        assert ann.seat.answers[joins] == JoinAnswer(joins, ErrorCode.UNKNOWN_MEMBER_ID, "")
        assert shards.rows(KEY).phase is Phase.EMPTY


@pytest.mark.parametrize("serves", [True, False])
async def test_an_empty_group_id_is_no_group(serves: bool) -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann", key="")
        service = await shards.serve("")
        if not serves:
            await service.give_up(None)
        assert (await ann.joined(ann.asks_to_join())).error is ErrorCode.INVALID_GROUP_ID
        assert ann.beats() is ErrorCode.INVALID_GROUP_ID


async def test_who_does_not_serve_a_group_says_so_to_each_request() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await stable(ann)
        await ann.service.give_up(None)
        refused = JoinAnswer(ann.asks_to_join(), ErrorCode.NOT_COORDINATOR, ann.member_id)
        assert await ann.answer_to(refused.waiter) == refused
        assert (await ann.synced(ann.asks_for_its_share())).error is ErrorCode.NOT_COORDINATOR
        assert (await ann.answer_to(ann.asks_to_leave())).error is ErrorCode.NOT_COORDINATOR
        assert ann.beats() is ErrorCode.NOT_COORDINATOR


async def test_while_a_shard_is_loading_nobody_is_scared_into_a_rebalance() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await stable(ann)
        await ann.service.give_up(None)
        async with shards.loading(ann.service) as accepting:
            assert ann.beats() is ErrorCode.NONE
            joins, syncs = ann.asks_to_join(), ann.asks_for_its_share()
            assert (await ann.joined(joins)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert await ann.synced(syncs) == SyncAnswer(syncs, ErrorCode.REBALANCE_IN_PROGRESS)
            await accepting
            assert ann.beats() is ErrorCode.NONE


async def test_who_says_too_much_at_once_is_told_to_come_again() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await shards.serve(KEY)
        waiters = [ann.asks_to_join(must_know_id=True) for _ in range(1_001)]
        assert (await ann.joined(waiters[-1])).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await ann.joined(waiters[0])).error is ErrorCode.MEMBER_ID_REQUIRED


async def test_a_group_of_native_members_refuses_kafka_clients_and_stays_as_it_is() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        await shards.registered(KEY, "ann")
        before = shards.rows(KEY)
        ben = KafkaClient(shards, "ben")
        assert (await ben.joined(ben.asks_to_join())).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert ben.beats() is ErrorCode.UNKNOWN_MEMBER_ID
        assert shards.rows(KEY) == before


async def test_one_members_join_after_another_is_held_back_until_all_have_joined() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann)
        waits = ben.asks_to_join()
        await shards.settled(KEY)
        assert waits not in ben.seat.answers
        await completing(ann)
        await ben.joined(waits)
        assert ben.generation == ann.generation == 2
