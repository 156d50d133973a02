"""AlterPartitionReassignments is answered by hand: in each version it says what the controller said."""

import asyncio
from typing import Any

import pytest

from kafkaserver.admin.reassignments import ReassignmentHandlers
from kafkaserver.callers import ANYBODY
from kafkaserver.later import Later
from muster.kafkawire.api_table import SERVED, ApiKey, read_request_header
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import AlterReassignments
from muster.messages.link.to_broker import ReassignmentResult, ReassignmentResults
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts
from tests.unit.kafkaserver.test_elections_and_quotas_are_worded_for_each_version import Place

KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS
WANTED = [("orders", (0, 7)), ("clicks", ()), ("ä", (1,)), ("orders", (2,))]


class Controller:
    """It says of every other partition why not."""

    async def ask(self, wish: AlterReassignments) -> ReassignmentResults:
        errors = {number: ErrorCode.INVALID_REPLICA_ASSIGNMENT for number in (1, 7)}
        return ReassignmentResults(
            correlation_id=wish.correlation_id,
            results=tuple(
                ReassignmentResult(
                    topic=one.topic,
                    partition=one.partition,
                    error=errors.get(one.partition, ErrorCode.NONE),
                    text="es fehlt Broker 9 für diese" if one.partition in errors else "",
                )
                for one in wish.partitions
            ),
        )


async def asked(version: int, **fields: Any) -> Any:
    topics = tuple(
        parts(
            KEY,
            version,
            "ReassignableTopic",
            name=name,
            partitions=tuple(
                parts(KEY, version, "ReassignablePartition", partition_index=one, replicas=(1, 9))
                for one in numbers
            ),
        )
        for name, numbers in WANTED
    )
    question, place = frame(KEY, version, topics=topics, **fields), Place(ANYBODY)
    handlers = ReassignmentHandlers(Controller(), Later())  # type: ignore[arg-type]
    handlers.alter(read_request_header(question), question, place)  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        while not place.pieces:
            await asyncio.sleep(0)
    return body_of(KEY, version, b"".join(place.pieces))


@pytest.mark.parametrize("version", range(SERVED[KEY].minimum, SERVED[KEY].maximum + 1))
async def test_each_version_tells_of_each_partition_in_its_order(version: int) -> None:
    told = await asked(version)
    assert (int(told.error_code), told.error_message, told.throttle_time.total_seconds()) == (0, None, 0)
    assert [
        (topic.name, tuple(one.partition_index for one in topic.partitions)) for topic in told.responses
    ] == WANTED
    outcomes = [
        (int(one.error_code), one.error_message) for topic in told.responses for one in topic.partitions
    ]
    refused = int(ErrorCode.INVALID_REPLICA_ASSIGNMENT), "es fehlt Broker 9 für diese"
    assert outcomes == [(0, None), refused, refused, (0, None)]


@pytest.mark.parametrize("may", [True, False])
async def test_the_newest_says_again_whether_the_factor_may_change(may: bool) -> None:
    told = await asked(SERVED[KEY].maximum, allow_replication_factor_change=may)
    assert told.allow_replication_factor_change is may
