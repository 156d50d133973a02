"""Whoever may not read a topic is told so first: neither whether it is there, nor how many partitions it has,
nor who leads them since when.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafkaserver.callers import KafkaCaller
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import EVERYTHING, Scope
from muster.messages.link.rows import PartitionRow, TopicRow
from tests.unit.broker_data_plane.planes import ORDERS, Broker, Client, broker, client, produce

NOBODYS = UUID(int=9)
ANN = KafkaCaller("ann", "ann", "", frozenset({"consume"}), Scope.of(("clicks",)), EVERYTHING)
HERE, NOT_THERE = 0, 7
OLD, PRESENT, COMING, UNSTATED = 0, 1, 9, -1
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def fetch(
    asked: Mapping[str | UUID, int],
    *,
    epoch: int = UNSTATED,
    version: int,
    session: tuple[int, int] = (0, -1),
    wait_ms: int = 0,
    rack: str = "",
) -> Any:
    """A Fetch of one partition of each of these topics, by name or id."""
    shape = request_class(ApiKey.FETCH, version)
    return build(
        shape,
        replica_id=-1,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        max_bytes=1_000_000,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        rack_id=rack,
        topics=tuple(
            build(
                part(shape, "FetchTopic"),
                topic=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, UUID) else None,
                partitions=(
                    build(
                        part(shape, "FetchPartition"),
                        partition=number,
                        current_leader_epoch=epoch,
                        fetch_offset=0,
                        partition_max_bytes=1_000_000,
                    ),
                ),
            )
            for topic, number in asked.items()
        ),
        forgotten_topics_data=(),
    )


async def told(ann: Client, body: Any, version: int) -> list[int]:
    """The error of each partition, in the order of the answer."""
    answer = await ann.ask(ApiKey.FETCH, version, body)
    return [int(one.error_code) for topic in answer.responses for one in topic.partitions]


async def comes_in(one: Broker, ann: Client, caller: KafkaCaller = ANN) -> None:
    """Whoever is connected by now is this one."""
    await ann.ask(ApiKey.API_VERSIONS, 0, build(request_class(ApiKey.API_VERSIONS, 0)))
    for connection in one.client.server._connections:
        connection.identity = caller


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize("number", [HERE, NOT_THERE])
@pytest.mark.parametrize("epoch", [OLD, PRESENT, COMING, UNSTATED])
@pytest.mark.parametrize("leader", [1, 2])
async def test_by_name_a_topic_that_is_there_is_told_as_one_that_is_not(
    tmp_path: Path, version: int, number: int, epoch: int, leader: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, leader=leader, replicas=(1, 2))
        await comes_in(one, ann)
        for topic in ("orders", "nothing"):
            assert await told(ann, fetch({topic: number}, epoch=epoch, version=version), version) == [REFUSED]


@pytest.mark.parametrize("number", [HERE, NOT_THERE])
@pytest.mark.parametrize("epoch", [OLD, PRESENT, COMING, UNSTATED])
@pytest.mark.parametrize("leader", [1, 2, 3])
async def test_by_its_id_all_partitions_of_a_topic_are_refused_alike(
    tmp_path: Path, number: int, epoch: int, leader: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, leader=leader, replicas=(1, 2) if leader < 3 else (3,))
        await comes_in(one, ann)
        for rack in ("", "a"):
            body = fetch({ORDERS: number}, epoch=epoch, version=13, rack=rack)
            assert await told(ann, body, 13) == [REFUSED]
        # As Kafka's brokers say: an id that nobody bears is nobody's.
        body = fetch({NOBODYS: number}, epoch=epoch, version=13)
        assert await told(ann, body, 13) == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("leader", [1, 2])
async def test_before_the_cluster_is_told_of_a_topic_whose_log_is_here_it_is_refused(
    tmp_path: Path, leader: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.plane.know_topics([TopicRow(ORDERS, "orders", 1, 1, {})])
        one.plane.obey(PartitionRow(ORDERS, 0, (1, 2), leader, 1, (1, 2), 1))
        await comes_in(one, ann)
        body = fetch({ORDERS: HERE}, epoch=COMING, version=13)
        assert await told(ann, body, 13) == [REFUSED]


@pytest.mark.parametrize("wait_ms", [0, 60_000])
async def test_beside_a_refused_topic_the_others_are_read(tmp_path: Path, wait_ms: int) -> None:
    anybody = KafkaCaller("ann", "ann", "", frozenset({"consume"}), Scope.of(("orders",)), EVERYTHING)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        await comes_in(one, ann, anybody)
        body = fetch({"clicks": HERE, "orders": HERE}, version=12, wait_ms=wait_ms)
        answer = await ann.ask(ApiKey.FETCH, 12, body)
        found = {
            topic.topic: (int(place.error_code), len(place.records or b"") > 0)
            for topic in answer.responses
            for place in topic.partitions
        }
        assert found == {"clicks": (REFUSED, False), "orders": (ErrorCode.NONE, True)}


async def test_a_session_hears_nothing_of_what_happens_to_a_topic_that_it_may_not_read(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=(1, 2), isr=(1,))
        await comes_in(one, ann)
        begun = await ann.ask(ApiKey.FETCH, 12, fetch({"orders": HERE}, version=12, session=(0, 0)))
        assert [int(place.error_code) for topic in begun.responses for place in topic.partitions] == [REFUSED]
        ann.send(ApiKey.FETCH, 12, fetch({}, version=12, session=(begun.session_id, 1), wait_ms=60_000))
        assert await ann.is_quiet()
        async with client(one.client_port) as ben:
            await ben.ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))
        one.obey(2, leader=2, epoch=2, replicas=(1, 2))
        assert await ann.is_quiet()
