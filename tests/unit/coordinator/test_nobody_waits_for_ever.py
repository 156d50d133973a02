"""Whoever waits behind something is answered, too, when the shard goes: his connection answers in order."""

import asyncio

from coordinator.classic_commits import ClassicCommit, Committed
from coordinator.core.offsets import Judgement
from muster.kernel.error_codes import ErrorCode
from tests.unit.coordinator.kafka_clients import AT_ONCE, KafkaClient, stable
from tests.unit.coordinator.shards import Shards
from tests.unit.coordinator_core.group import orders


def commits(client: KafkaClient, answers: list[Judgement]) -> None:
    """The client commits for one partition."""
    asked = ClassicCommit(
        key=client.key,
        connection=client.seat.id,
        member_id=client.member_id,
        group_instance_id=None,
        generation=client.generation,
        positions={orders(0): Committed(7)},
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
