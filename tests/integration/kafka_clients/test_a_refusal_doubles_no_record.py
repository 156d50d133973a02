"""librdkafka has five batches under way, one of them is refused: none that was stored is stored again."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from kafkaserver.cluster_answers import BrokerView, MetadataView, PartitionView, TopicView
from kafkaserver.producer_ids import ProducerIdBlock
from muster.kafkawire.api_table import ApiKey
from tests.unit.broker_data_plane.planes import ORDERS, broker, fetch, follower

RECORDS = 5


class AwayForAMoment:
    """The live brokers; the fourth batch finds the other one away."""

    def __init__(self) -> None:
        self.asked = 0

    def __contains__(self, broker_id: object) -> bool:
        self.asked += 1
        return self.asked != 4


async def await_true(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_refusal_doubles_no_record(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.controller.blocks.append(ProducerIdBlock(100, 1))
        one.obey(1, replicas=(1, 2), configs={"min.insync.replicas": "2"})
        one.plane.view = MetadataView.of(
            "test",
            [BrokerView(1, "127.0.0.1", one.client_port)],
            [TopicView("orders", ORDERS, (PartitionView(1, 1, (1, 2), (1, 2)),))],
        )
        hosted = one.plane.named("orders", 0)
        assert hosted is not None

        async def replicate() -> None:
            end, last = hosted.log.end_offset, hosted.log.last_epoch
            asked = fetch(end, version=16, replica=(2, 1), leader_epoch=1, last_epoch=last)
            await two.ask(ApiKey.FETCH, 16, asked)

        told: list[tuple[bytes | None, int | None]] = []
        settings = {"bootstrap.servers": f"127.0.0.1:{one.client_port}", "log_level": 0, "linger.ms": 0}
        producer = Producer({**settings, "enable.idempotence": True, "retry.backoff.ms": 10})
        moment = one.plane.live = AwayForAMoment()
        for number in range(RECORDS):
            producer.produce(
                "orders",
                b"%d" % number,
                partition=0,
                on_delivery=lambda error, message: told.append((message.value(), message.offset())),
            )
            await await_true(lambda: (producer.poll(0), moment.asked > number)[1])  # noqa: B023
            if number == 0:
                await replicate()
                await await_true(lambda: (producer.poll(0), told)[1])
        # Two are stored and not committed, one is refused, one is behind it. Those that wait are given up.
        one.plane.know_live(frozenset({1}))
        one.plane.live = frozenset({1, 2})
        while len(told) < RECORDS:
            producer.poll(0)
            await replicate()
            await asyncio.sleep(0.01)
        assert told == [(b"%d" % number, number) for number in range(RECORDS)]
        assert hosted.log.end_offset == RECORDS
