"""A partition that a request names a thousand times costs once; what is parked ends, and is bounded."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker import consumer_session, handlers_produce
from broker.hosted import HostedPartition
from kafkaserver.limits import ServerLimits
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from tests.unit.broker_data_plane.planes import Broker, broker, client, fetch, produce, produced

PRODUCE, FETCH, LIST_OFFSETS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS
IN_STEP = (1, 2)


def orders(of: Broker) -> HostedPartition:
    hosted = of.plane.named("orders", 0)
    assert hosted is not None
    return hosted


def repeated(request: Any, times: int) -> Any:
    """The fetch with its only partition named so many times."""
    (topic,) = request.topics
    return replace(request, topics=(replace(topic, partitions=topic.partitions * times),))


async def until(condition: Any, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("version", [4, 12, 16])
async def test_a_partition_that_is_fetched_a_thousand_times_is_answered_once(
    tmp_path: Path, version: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        body = await ann.ask(FETCH, version, repeated(fetch(0, version=version), 1_000))
        assert len(body.responses[0].partitions) == 1


async def test_a_topic_that_is_asked_for_a_thousand_times_is_described_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        shape = request_class(ApiKey.METADATA, 1)
        topic = part(shape, "MetadataRequestTopic")(name="orders")
        body = await ann.ask(ApiKey.METADATA, 1, shape(topics=(topic,) * 1_000))
        assert [described.name for described in body.topics] == ["orders"]


def _listed(*times: int) -> Any:
    shape = request_class(LIST_OFFSETS, 1)
    asked = tuple(part(shape, "ListOffsetsPartition")(partition_index=0, timestamp=at) for at in times)
    topic = part(shape, "ListOffsetsTopic")(name="orders", partitions=asked)
    return build(shape, replica_id=-1, topics=(topic,))


async def test_a_partition_that_is_listed_twice_is_refused_as_kafka_does(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        body = await ann.ask(LIST_OFFSETS, 1, _listed(5, 5, 5))
        assert [int(answer.error_code) for answer in body.topics[0].partitions] == [42]


@pytest.mark.parametrize("special", [-3, -4, -5])
async def test_a_special_time_of_a_newer_version_is_refused_for_its_partition(
    tmp_path: Path, special: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        body = await ann.ask(LIST_OFFSETS, 1, _listed(special))
        assert [int(answer.error_code) for answer in body.topics[0].partitions] == [35]


async def test_searches_by_time_keep_the_order_of_answers(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        ann.send(LIST_OFFSETS, 1, _listed(1_000))
        ann.send(LIST_OFFSETS, 1, _listed(-1))
        offsets = [(await ann.hear()).topics[0].partitions[0].offset for _ in range(2)]
        assert offsets == [0, 1]


async def test_a_parked_fetch_ends_with_its_connection(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1)
        async with client(one.client_port) as ann:
            ann.send(FETCH, 12, fetch(0, max_wait_ms=600_000))
            await until(lambda: len(orders(one).readers) == 1)
        await until(lambda: not orders(one).readers)
        assert one.client.server.parked_elements == 0


async def test_no_fetch_is_parked_for_longer_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_session, "LONGEST_WAIT_MS", 20)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        body = await ann.ask(FETCH, 12, fetch(0, max_wait_ms=2**31 - 1))
        assert int(body.error_code) == 0


async def test_a_fetch_above_the_bound_of_parked_partitions_is_asked_to_come_again(tmp_path: Path) -> None:
    async with broker(tmp_path, limits=ServerLimits(parked_elements_in_all=1)) as one:
        one.obey(1)
        async with client(one.client_port) as ann, client(one.client_port) as ben:
            ann.send(FETCH, 12, fetch(0, max_wait_ms=5_000))
            await until(lambda: one.client.server.parked_elements == 1)
            body = await ben.ask(FETCH, 12, fetch(0, max_wait_ms=5_000))
            assert body.throttle_time.total_seconds() == 0.5


async def test_a_parked_fetch_holds_no_file_and_reads_only_what_grew(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1)
        await ben.ask(PRODUCE, 9, produce(b"a"))
        ann.send(FETCH, 12, fetch(0, max_wait_ms=5_000, min_bytes=100))
        await until(lambda: len(orders(one).readers) == 1)
        await ben.ask(PRODUCE, 9, produce(b"b" * 200))
        body = await ann.hear()
        (answer,) = body.responses[0].partitions
        assert (answer.high_watermark, len(answer.records) > 200) == (2, True)


async def test_a_parked_produce_ends_with_its_connection_and_with_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=IN_STEP)
        async with client(one.client_port) as ann:
            ann.send(PRODUCE, 9, produce(b"a", timeout_ms=2**31 - 1))
            await until(lambda: orders(one).commits_awaited() == 1)
        await until(lambda: orders(one).commits_awaited() == 0)
        monkeypatch.setattr(handlers_produce, "LONGEST_TIMEOUT_MS", 20)
        async with client(one.client_port) as ann:
            assert produced(await ann.ask(PRODUCE, 9, produce(b"a", timeout_ms=2**31 - 1))) == (7, -1)


async def test_a_parked_produce_is_refused_when_a_member_that_the_floor_keeps_has_died(
    tmp_path: Path,
) -> None:
    """It would hold back the answers behind it, of partitions that are well."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP, configs={"min.insync.replicas": "2"})
        ann.send(PRODUCE, 9, produce(b"a", timeout_ms=600_000))
        await until(lambda: orders(one).commits_awaited() == 1)
        one.plane.know_live(frozenset({1, 2}))
        assert await ann.is_quiet()
        one.plane.know_live(frozenset({1}))
        assert produced(await ann.hear()) == (20, -1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a"))) == (19, -1)
