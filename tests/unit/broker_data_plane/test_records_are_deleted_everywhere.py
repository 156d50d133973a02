"""DeleteRecords: gone at the leader at once, answered when every live replica has deleted, and why not."""

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.core.replica_log import PartitionKey
from broker.handlers_records import LOOKED_AT_ONCE, RecordHandlers, deleted_records
from kafkaserver.callers import KafkaCaller
from muster.kafkawire.api_table import ApiKey, build, encode_body, part, request_class, response_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import EVERYTHING
from tests.unit.broker_data_plane.planes import (
    ORDERS,
    Broker,
    Client,
    broker,
    client,
    fetch,
    fetched,
    follower,
    produce,
)
from tests.unit.broker_data_plane.test_followers_fetch_by_session import follow

PRODUCE, FETCH, DELETE = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.DELETE_RECORDS


def below(offset: int, *, version: int = 2, timeout_ms: int = 10_000, topic: str = "orders") -> Any:
    shape = request_class(DELETE, version)
    asked = part(shape, "DeleteRecordsPartition")(partition_index=0, offset=offset)
    return shape(
        topics=(part(shape, "DeleteRecordsTopic")(name=topic, partitions=(asked,)),),
        timeout=timedelta(milliseconds=timeout_ms),
    )


def result(body: Any) -> tuple[ErrorCode, int]:
    """(error, low watermark) of the only partition."""
    (answer,) = body.topics[0].partitions
    return ErrorCode(int(answer.error_code)), answer.low_watermark


async def with_records(one: Broker, ann: Client, count: int = 4, **row: Any) -> None:
    one.obey(1, **row)
    for number in range(count):
        await ann.ask(PRODUCE, 9, produce(b"%d" % number, acks=1))


async def test_whoever_produces_is_told_where_the_log_begins(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await with_records(one, ann)
        await ann.ask(DELETE, 2, below(3))
        body = await ann.ask(PRODUCE, 9, produce(b"more"))
        (answer,) = body.responses[0].partition_responses
        assert (answer.base_offset, answer.log_start_offset) == (4, 3)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_what_is_below_is_gone_at_once(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await with_records(one, ann)
        assert result(await ann.ask(DELETE, version, below(3, version=version))) == (ErrorCode.NONE, 3)
        gone = fetched(await ann.ask(FETCH, 12, fetch(2)))
        assert int(gone.error_code) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (gone.log_start_offset, gone.high_watermark) == (3, 4)
        assert len(fetched(await ann.ask(FETCH, 12, fetch(3))).records) > 0
        assert result(await ann.ask(DELETE, version, below(1, version=version))) == (ErrorCode.NONE, 3)
        assert result(await ann.ask(DELETE, version, below(-1, version=version))) == (ErrorCode.NONE, 4)


@pytest.mark.parametrize("offset", [-2, 5])
async def test_what_is_not_committed_cannot_be_deleted(tmp_path: Path, offset: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await with_records(one, ann)
        answer = await ann.ask(DELETE, 2, below(offset))
        assert result(answer) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_a_topic_that_keeps_the_last_record_of_a_key_loses_none(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await with_records(one, ann)
        (hosted,) = one.plane.partitions()
        hosted.log.settings = hosted.log.settings.__class__(cleanup_policy=frozenset({"compact"}))
        assert result(await ann.ask(DELETE, 2, below(1))) == (ErrorCode.POLICY_VIOLATION, -1)


async def test_only_who_may_change_a_topic_deletes_from_it(tmp_path: Path) -> None:
    reader = KafkaCaller("ann", "ann", "", frozenset({"consume", "produce"}), EVERYTHING, EVERYTHING)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await with_records(one, ann)
        for connection in one.client.server._connections:
            connection.identity = reader
        answer = await ann.ask(DELETE, 2, below(1))
        assert result(answer) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)


async def test_topics_and_leaders_that_are_elsewhere_are_said_to_be(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, leader=2, replicas=(1, 2))
        assert result(await ann.ask(DELETE, 2, below(0)))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        unknown = await ann.ask(DELETE, 2, below(0, topic="clicks"))
        assert result(unknown)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_answer_waits_for_each_live_replica(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        await with_records(one, ann, replicas=(1, 2))
        one.plane.know_live({1, 2})
        begun = await two.ask(FETCH, 16, follow(4))
        session = begun.session_id
        two.send(FETCH, 16, follow(4, session=(session, 1), max_wait_ms=10_000))
        ann.send(DELETE, 2, below(2))
        told = fetched(await two.hear())
        assert (told.log_start_offset, told.records or b"") == (2, b""), "told without a record to tell of"
        assert await ann.is_quiet()
        two.send(FETCH, 16, follow(4, session=(session, 2), start_offset=2, max_wait_ms=10_000))
        assert result(await ann.hear()) == (ErrorCode.NONE, 2)
        assert await two.is_quiet(), "it knows"


async def test_nobody_waits_for_a_dead_replica_nor_longer_than_asked(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        await with_records(one, ann, replicas=(1, 2))
        await two.ask(FETCH, 16, follow(4))
        one.plane.know_live({1, 2})
        assert result(await ann.ask(DELETE, 2, below(1, timeout_ms=0)))[0] == ErrorCode.REQUEST_TIMED_OUT
        ann.send(DELETE, 2, below(2))
        assert await ann.is_quiet()
        one.plane.know_live({1})
        assert result(await ann.hear()) == (ErrorCode.NONE, 2)


async def test_who_waits_is_told_when_another_leads(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        await with_records(one, ann, replicas=(1, 2))
        one.plane.know_live({1, 2})
        await two.ask(FETCH, 16, follow(4))
        ann.send(DELETE, 2, below(2))
        assert await ann.is_quiet()
        one.obey(2, leader=2, epoch=2, replicas=(1, 2))
        assert result(await ann.hear()) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_retention_tells_followers_too(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        await with_records(one, ann, replicas=(1, 2), configs={"retention.ms": "0"})
        begun = await two.ask(FETCH, 16, follow(4))
        two.send(FETCH, 16, follow(4, session=(begun.session_id, 1), max_wait_ms=10_000))
        assert await two.is_quiet()
        assert await one.plane.upkeep.apply_retention() == 1
        assert fetched(await two.hear()).log_start_offset == 4


async def test_whoever_began_again_at_its_leaders_start_leads_on_from_there(tmp_path: Path) -> None:
    """KAFKA-9491: with its high watermark of before, what it has would be out of range for everybody."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, leader=2, replicas=(1, 2))
        assert one.plane.start_again_at(PartitionKey(ORDERS, 0), 1, 40)
        one.obey(2, leader=1, epoch=2, replicas=(1, 2))
        answer = fetched(await ann.ask(FETCH, 12, fetch(40)))
        assert (int(answer.error_code), answer.log_start_offset, answer.high_watermark) == (0, 40, 40)


async def test_a_follower_below_the_start_is_told_where_it_is(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        await with_records(one, ann, replicas=(1, 2), isr=(1,))
        assert result(await ann.ask(DELETE, 2, below(3, timeout_ms=0)))[0] == ErrorCode.REQUEST_TIMED_OUT
        answer = fetched(await two.ask(FETCH, 16, follow(1)))
        assert int(answer.error_code) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert answer.log_start_offset == 3


async def test_ten_thousand_partitions_are_answered_in_one_request(tmp_path: Path) -> None:
    """So many name Kafka's tools at once; whoever named 5,000 was hung up on."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await with_records(one, ann)
        shape = request_class(DELETE, 2)
        asked = part(shape, "DeleteRecordsPartition")(partition_index=0, offset=2)
        topic = part(shape, "DeleteRecordsTopic")
        named = ("orders", *(f"topic-{number}" for number in range(9_999)))
        request = shape(
            topics=tuple(topic(name=name, partitions=(asked,)) for name in named),
            timeout=timedelta(milliseconds=10_000),
        )
        told = {
            one.name: int(one.partitions[0].error_code) for one in (await ann.ask(DELETE, 2, request)).topics
        }
        assert (len(told), told.pop("orders"), set(told.values())) == (10_000, ErrorCode.NONE, {3})


async def test_thousands_that_wait_for_replicas_are_looked_at_a_slice_in_a_round_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fetch of a follower wakes whoever waits; 3,000 held the loop for 20 ms each time."""
    looks: Counter[int] = Counter()
    rounds, is_settled = 0, RecordHandlers._is_settled

    def look(handlers: RecordHandlers, one: Any) -> bool:
        looks[rounds] += 1
        return is_settled(handlers, one)

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(RecordHandlers, "_is_settled", look)
    async with broker(tmp_path) as one, client(one.client_port) as ann, asyncio.TaskGroup() as tasks:
        one.obey(1, partitions=1_000, replicas=(1, 2))
        shape = request_class(DELETE, 2)
        place, topic = part(shape, "DeleteRecordsPartition"), part(shape, "DeleteRecordsTopic")
        asked = tuple(place(partition_index=number, offset=0) for number in range(1_000))
        counting = tasks.create_task(count_rounds())
        body = await ann.ask(
            DELETE, 2, shape(topics=(topic(name="orders", partitions=asked),), timeout=timedelta(0))
        )
        counting.cancel()
    errors = {int(answer.error_code) for answer in body.topics[0].partitions}
    assert (errors, looks.total()) == ({ErrorCode.REQUEST_TIMED_OUT}, 1_000)
    assert max(looks.values()) <= LOOKED_AT_ONCE


@pytest.mark.parametrize("version", range(3))
def test_what_was_deleted_is_worded_as_by_kio(version: int) -> None:
    shape = response_class(DELETE, version)
    place, topic = part(shape, "DeleteRecordsPartitionResult"), part(shape, "DeleteRecordsTopicResult")
    told = [
        (name, number, low_watermark, error)
        for name in ("orders", "ü-日本")
        for number, (low_watermark, error) in enumerate(
            ((5, ErrorCode.NONE), (-1, ErrorCode.REQUEST_TIMED_OUT))
        )
    ]
    topics = tuple(
        topic(
            name=name,
            partitions=tuple(
                place(partition_index=number, low_watermark=low, error_code=error)
                for of, number, low, error in told
                if of == name
            ),
        )
        for name in ("orders", "ü-日本")
    )
    assert deleted_records(version, told) == encode_body(build(shape, topics=topics))
