"""The metrics of a node say when the certificate of its Kafka listener ends, as of its last tick."""

from kafkaserver.guard import Guard
from kafkaserver.tls import Certificate
from runtime import clock, metrics
from tests.unit.gateway.doors import kafka_door
from tests.unit.kafkaserver.test_the_end_of_a_certificate_is_told import ENDED_AT, FOLDER


async def test_it_is_told_of_one_that_has_ended() -> None:
    guard = Guard(certificate=Certificate(FOLDER / "expired.crt", FOLDER / "expired.key"))
    async with kafka_door(guard=guard) as door:
        door.listener.tick(clock.now())
    told = metrics.REGISTRY.get_sample_value("muster_certificate_ends_seconds", {"listener": "kafka"})
    assert told == ENDED_AT
