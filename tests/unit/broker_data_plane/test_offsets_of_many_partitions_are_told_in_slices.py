"""Who asks for the offsets of thousands of partitions holds nobody up, and is answered in every version."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.handlers_offsets import AT_ONCE
from muster.kafkawire.api_table import SERVED, ApiKey, build, part, read_request_header, request_class
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import broker, client, produce
from tests.unit.kafkaserver.kafka_requests import Kept, body_of, frame

KEY = ApiKey.LIST_OFFSETS
ENDS = ApiKey.OFFSET_FOR_LEADER_EPOCH
LATEST, EARLIEST = -1, -2
VERSIONS = range(SERVED[KEY].minimum, SERVED[KEY].maximum + 1)


class Place(Kept):
    identity, peer = None, "a test"
    parked = 0

    def park(self, elements: int, _when_gone: Any) -> None:
        self.parked = elements


def asked(version: int, **topics: dict[int, int]) -> dict[str, Any]:
    """The fields of a request for these partitions, each at its time."""
    shape = request_class(KEY, version)
    named = tuple(
        build(
            part(shape, "ListOffsetsTopic"),
            name=name,
            partitions=tuple(
                build(
                    part(shape, "ListOffsetsPartition"),
                    partition_index=number,
                    current_leader_epoch=-1,
                    timestamp=time,
                )
                for number, time in partitions.items()
            ),
        )
        for name, partitions in topics.items()
    )
    return {"replica_id": -1, "isolation_level": 0, "topics": named, "timeout": timedelta(0)}


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_tells_the_same(tmp_path: Path, version: int) -> None:
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        fields = asked(version, orders={0: LATEST, 1: EARLIEST}, nothing={5: LATEST})
        body = await ann.ask(KEY, version, build(request_class(KEY, version), **fields))
        told = {
            (topic.name, found.partition_index): (int(found.error_code), int(found.offset))
            for topic in body.topics
            for found in topic.partitions
        }
        assert told == {("orders", 0): (0, 1), ("orders", 1): (unknown, -1), ("nothing", 5): (unknown, -1)}
        (orders, _) = body.topics
        assert getattr(orders.partitions[0], "leader_epoch", 1) == 1


async def test_many_are_answered_beside_the_loop_and_few_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port):
        for count, waits in ((AT_ONCE, False), (AT_ONCE + 1, True)):
            question, place = frame(KEY, 9, **asked(9, nothing=dict.fromkeys(range(count), LATEST))), Place()
            one.client._handle(read_request_header(question), question, place)  # type: ignore[arg-type]
            assert (place.pieces == [], place.parked) == (waits, count if waits else 0)
            if not waits:
                (topic,) = body_of(KEY, 9, b"".join(place.pieces)).topics
                assert len(topic.partitions) == count


def asked_for_ends(version: int, **topics: dict[int, int]) -> dict[str, Any]:
    """The fields of an OffsetForLeaderEpoch for these partitions, each with its leader epoch."""
    shape = request_class(ENDS, version)
    named = tuple(
        build(
            part(shape, "OffsetForLeaderTopic"),
            topic=name,
            partitions=tuple(
                build(part(shape, "OffsetForLeaderPartition"), partition=number, leader_epoch=epoch)
                for number, epoch in partitions.items()
            ),
        )
        for name, partitions in topics.items()
    )
    return {"replica_id": -1, "topics": named}


@pytest.mark.parametrize("version", range(SERVED[ENDS].minimum, SERVED[ENDS].maximum + 1))
async def test_each_version_tells_the_same_of_epochs(tmp_path: Path, version: int) -> None:
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        fields = asked_for_ends(version, orders={0: 1, 7: 1}, nothing={5: 1})
        body = await ann.ask(ENDS, version, build(request_class(ENDS, version), **fields))
        told = [
            (topic.topic, end.partition, int(end.error_code), end.leader_epoch, end.end_offset)
            for topic in body.topics
            for end in topic.partitions
        ]
        refused = (unknown, -1, -1)
        assert told == [("orders", 0, 0, 1, 1), ("orders", 7, *refused), ("nothing", 5, *refused)]


async def test_whoever_fetches_many_partitions_may_ask_where_their_epochs_end(tmp_path: Path) -> None:
    """Its reader looks at all of them when leaders have moved, and reads nothing before it is answered."""
    most = SERVED[ApiKey.FETCH].limit_elements - 1
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        fields = asked_for_ends(4, nothing=dict.fromkeys(range(most), 0))
        body = await ann.ask(ENDS, 4, build(request_class(ENDS, 4), **fields))
        (topic,) = body.topics
        assert [end.partition for end in topic.partitions] == list(range(most))
        for count, waits in ((AT_ONCE, False), (AT_ONCE + 1, True)):
            fields = asked_for_ends(4, nothing=dict.fromkeys(range(count), 0))
            question, place = frame(ENDS, 4, **fields), Place()
            one.client._handle(read_request_header(question), question, place)  # type: ignore[arg-type]
            assert (place.pieces == [], place.parked) == (waits, count if waits else 0)
