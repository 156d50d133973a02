"""Consumers' fetches see what is below the high watermark, wait for more, and hear what is wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kafkawire.records import read_records
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import broker, client, fetch, fetched, follower, produce

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
IN_STEP = (1, 2)


def values(answer: Any, offset: int = 0) -> list[bytes | None]:
    return [record.value for record in read_records(answer.records or b"", offset)]


@pytest.mark.parametrize("version", range(4, 17))
async def test_every_version_gets_the_records(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a", b"b"))
        answer = fetched(await ann.ask(FETCH, version, fetch(1, version=version)))
        assert values(answer, 1) == [b"b"]
        assert (int(answer.error_code), answer.high_watermark) == (0, 2)


async def test_what_is_not_committed_is_not_read(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        await ann.ask(PRODUCE, 9, produce(b"a", acks=1))
        answer = fetched(await ann.ask(FETCH, 12, fetch(0)))
        assert (int(answer.error_code), values(answer), answer.high_watermark) == (0, [], 0)
        ann.send(FETCH, 12, fetch(0, max_wait_ms=5_000))
        assert await ann.is_quiet()
        await two.ask(FETCH, 16, fetch(1, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert values(fetched(await ann.hear())) == [b"a"]


async def test_levels_of_isolation_that_are_none_read_the_same(tmp_path: Path) -> None:
    """There are no transactions, so there is nothing that one level would hide; bounds below 0 are as 0."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        for level, most in ((0, 100), (1, 100), (9, 100), (0, -1)):
            asked = replace(fetch(0), isolation_level=level, max_bytes=most)
            assert values(fetched(await ann.ask(FETCH, 12, asked))) == [b"a"]
        listed = replace(_listed(-1), isolation_level=9)
        body = await ann.ask(ApiKey.LIST_OFFSETS, 5, listed)
        assert body.topics[0].partitions[0].offset == 1


@pytest.mark.parametrize(("version", "code"), [(4, 76), (9, 76), (10, 0), (12, 0)])
async def test_what_is_stored_in_zstd_is_sent_to_whoever_speaks_of_it(
    tmp_path: Path, version: int, code: int
) -> None:
    """KIP-110: below version 10 UNSUPPORTED_COMPRESSION_TYPE, for a client that could not read it."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs={"compression.type": "zstd"})
        await ann.ask(PRODUCE, 9, produce(b"a"))
        answer = fetched(await ann.ask(FETCH, version, fetch(0, version=version)))
        assert (int(answer.error_code), values(answer)) == (code, [] if code else [b"a"])


async def test_a_fetch_waits_for_its_smallest_number_of_bytes(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1)
        ann.send(FETCH, 12, fetch(0, max_wait_ms=5_000, min_bytes=700))
        await ben.ask(PRODUCE, 9, produce(b"x" * 400))
        assert await ann.is_quiet()
        await ben.ask(PRODUCE, 9, produce(b"y" * 400))
        assert len(values(fetched(await ann.hear()))) == 2


async def test_a_fetch_without_news_ends_with_its_time(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        answer = fetched(await ann.ask(FETCH, 12, fetch(0, max_wait_ms=20)))
        assert (int(answer.error_code), values(answer)) == (0, [])
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        assert hosted.readers == set()


@pytest.mark.parametrize("offset", [1, 2])
async def test_between_what_is_committed_and_the_end_there_is_nothing_yet(
    tmp_path: Path, offset: int
) -> None:
    """Out of range, a consumer would begin anew somewhere else."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        for _ in range(2):
            await ann.ask(PRODUCE, 9, produce(b"a", acks=1))
        answer = fetched(await ann.ask(FETCH, 12, fetch(offset)))
        assert (int(answer.error_code), answer.high_watermark, answer.records or b"") == (0, 0, b"")


async def test_a_waiting_fetch_hears_at_once_that_the_leader_is_another(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        ann.send(FETCH, 12, fetch(0, max_wait_ms=5_000))
        assert await ann.is_quiet()
        one.obey(2, leader=2, epoch=2, replicas=IN_STEP)
        assert int(fetched(await ann.hear()).error_code) == 6


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"offset": 5}, 1),
        ({"offset": 0, "leader_epoch": 0}, 74),
        ({"offset": 0, "leader_epoch": 2}, 75),
        ({"offset": 0, "topic": "nowhere"}, 3),
        ({"offset": 0, "replica": (2, 1)}, 31),
    ],
    ids=["out of range", "fenced epoch", "unknown epoch", "unknown topic", "a replica at the clients' door"],
)
async def test_a_fetch_that_cannot_be_served_says_why_at_once(
    tmp_path: Path, asked: dict[str, Any], code: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        answer = fetched(await ann.ask(FETCH, 12, fetch(max_wait_ms=5_000, **asked)))
        assert int(answer.error_code) == code


@pytest.mark.parametrize("session", [(0, -1), (0, 0), (0, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("version", [12, 14, 15, 16])
async def test_whoever_says_it_is_a_replica_is_refused_where_clients_ask(
    tmp_path: Path, version: int, session: tuple[int, int]
) -> None:
    """It would be given what is not committed, and count as a follower; brokers have a door of their own."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        asked = fetch(1, version=version, replica=(2, 1), session=session, max_wait_ms=5_000)
        answer = await ann.ask(FETCH, version, asked)
        assert (int(fetched(answer).error_code), answer.session_id) == (31, 0)


async def test_a_consumer_of_another_history_is_told_where_it_parts(tmp_path: Path) -> None:
    """Conformance 229."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, epoch=1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        one.obey(2, epoch=3)
        await ann.ask(PRODUCE, 9, produce(b"b"))
        answer = fetched(await ann.ask(FETCH, 12, fetch(2, last_epoch=2)))
        told = answer.diverging_epoch
        assert (told.epoch, told.end_offset, values(answer)) == (1, 1, [])
        # Kafka would have it begin anew.
        answer = fetched(await ann.ask(FETCH, 12, fetch(2, last_epoch=4)))
        told = answer.diverging_epoch
        assert (int(answer.error_code), told.epoch, told.end_offset) == (0, 3, 2)


def _listed(offset_at: int, version: int = 5) -> Any:
    shape = request_class(ApiKey.LIST_OFFSETS, version)
    partition = build(
        part(shape, "ListOffsetsPartition"), partition_index=0, current_leader_epoch=-1, timestamp=offset_at
    )
    topic = part(shape, "ListOffsetsTopic")(name="orders", partitions=(partition,))
    return build(shape, replica_id=-1, isolation_level=0, topics=(topic,))


async def test_offsets_are_listed_at_both_ends_and_by_time(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        await ann.ask(PRODUCE, 9, produce(b"b"))
        found = []
        for at in (-2, -1, 1_000, 10**15):
            body = await ann.ask(ApiKey.LIST_OFFSETS, 5, _listed(at))
            found.append(body.topics[0].partitions[0].offset)
        assert found == [0, 2, 0, -1]


@pytest.mark.parametrize(("version", "code"), [(5, 78), (4, 5)])
async def test_a_new_leader_tells_no_end_before_it_is_sure(tmp_path: Path, version: int, code: int) -> None:
    """Conformance 224: the end offset never goes back."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        await ann.ask(PRODUCE, 9, produce(b"a", acks=1))
        one.obey(2, epoch=2, replicas=IN_STEP)
        body = await ann.ask(ApiKey.LIST_OFFSETS, version, _listed(-1, version))
        assert int(body.topics[0].partitions[0].error_code) == code


async def test_the_end_of_an_epoch_is_told(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, epoch=1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        one.obey(2, epoch=4)
        shape = request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
        ends = []
        for epoch in (1, 3, 4, 5):
            partition = part(shape, "OffsetForLeaderPartition")(partition=0, leader_epoch=epoch)
            topic = part(shape, "OffsetForLeaderTopic")(topic="orders", partitions=(partition,))
            body = await ann.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, shape(topics=(topic,)))
            answer = body.topics[0].partitions[0]
            ends.append((answer.leader_epoch, answer.end_offset))
        assert ends == [(1, 1), (1, 1), (4, 1), (-1, -1)]


@pytest.mark.parametrize(
    ("stated", "error"),
    [
        (-1, ErrorCode.NONE),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_only_minus_one_states_no_epoch(tmp_path: Path, stated: int, error: ErrorCode) -> None:
    """Who asks for offsets by an epoch that nobody had looks at something else than the leader does."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, epoch=4)
        asked = _listed(-1, 9)
        (topic,) = asked.topics
        (place,) = topic.partitions
        topic = replace(topic, partitions=(replace(place, current_leader_epoch=stated),))
        listed = await ann.ask(ApiKey.LIST_OFFSETS, 9, replace(asked, topics=(topic,)))
        shape = request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
        partition = part(shape, "OffsetForLeaderPartition")(
            partition=0, current_leader_epoch=stated, leader_epoch=4
        )
        topic = part(shape, "OffsetForLeaderTopic")(topic="orders", partitions=(partition,))
        ends = await ann.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, shape(topics=(topic,)))
        told = [ErrorCode(int(body.topics[0].partitions[0].error_code)) for body in (listed, ends)]
        assert told == [error, error]
