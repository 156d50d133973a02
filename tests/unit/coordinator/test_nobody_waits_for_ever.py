"""Whoever waits is answered when the shard goes, for his connection answers in order; never from nothing."""

import asyncio

import pytest

from coordinator.classic_commits import ClassicCommit, Committed, Stated
from coordinator.core.offsets import Judgement
from coordinator.service import NotServed
from muster.kernel.error_codes import ErrorCode
from tests.unit.coordinator.kafka_clients import AT_ONCE, KEY, KafkaClient, stable
from tests.unit.coordinator.shards import Shards, eventually
from tests.unit.coordinator_core.group import orders


def commits(client: KafkaClient, answers: list[Judgement]) -> None:
    """The client commits for one partition."""
    asked = ClassicCommit(
        key=client.key,
        connection=client.seat.id,
        member_id=client.member_id,
        group_instance_id=None,
        generation=client.generation,
        stated=Stated.of({orders(0): Committed(7)}),
        answer=answers.append,
    )
    assert client.service.commit(asked)


async def test_a_commit_that_waits_for_a_turn_is_refused_when_the_shard_is_given_up() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, answers = KafkaClient(shards, "ann"), list[Judgement]()
        await stable(ann)
        shards.store.gate.clear()
        ann.asks_to_join()
        await asyncio.to_thread(shards.store.at_the_gate.wait, 10)
        commits(ann, answers)
        await ann.service.give_up(None)
        assert [one.error for one in answers] == [ErrorCode.NOT_COORDINATOR]
        shards.store.gate.set()


async def test_a_commit_in_the_batch_under_way_is_answered_when_the_shard_is_given_up() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, answers = KafkaClient(shards, "ann"), list[Judgement]()
        await stable(ann)
        shards.store.gate.clear()
        commits(ann, answers)
        await asyncio.to_thread(shards.store.at_the_gate.wait, 10)
        await ann.service.give_up(None)
        assert [one.error for one in answers] == [ErrorCode.NOT_COORDINATOR]
        shards.store.gate.set()
        await shards.lanes.stop()
        assert len(answers) == 1


async def test_what_a_batch_left_behind_when_the_shard_went_keeps_no_commit_waiting_when_it_is_back() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, answers = KafkaClient(shards, "ann"), list[Judgement]()
        await stable(ann)
        shards.store.gate.clear()
        commits(ann, answers)
        await asyncio.to_thread(shards.store.at_the_gate.wait, 10)
        await ann.service.give_up(None)
        rows = shards.database.tables.pop("groups")
        shards.store.gate.set()
        await eventually(lambda: answers)
        assert answers[0].error is not ErrorCode.NONE
        shards.database.tables["groups"] = rows
        await ann.service.accept(shards.held[ann.service.shard])
        commits(ann, answers)
        await eventually(lambda: len(answers) == 2)
        assert answers[1].error is ErrorCode.NONE


async def test_a_question_is_not_answered_from_a_cache_that_was_given_up_while_it_waited() -> None:
    """The answer would be that nothing was ever committed, and a consumer would begin where it likes."""
    async with Shards(settings=AT_ONCE) as shards:
        ann, answers = KafkaClient(shards, "ann"), list[Judgement]()
        await stable(ann)
        commits(ann, answers)
        await eventually(lambda: answers)
        service, gone = ann.service, list[asyncio.Task[None]]()
        service._groups.drop(KEY)

        def goes(key: str) -> None:
            gone.append(asyncio.create_task(service.give_up(None)))

        service._groups.on_turn_over(goes)
        with pytest.raises(NotServed) as refused:
            await service.read(KEY, lambda state: state.rows.offsets)
        assert refused.value.error is ErrorCode.NOT_COORDINATOR
