"""The cleaner of a broker: which logs it compacts, when, and what clients are answered meanwhile."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from broker import compactor, handlers_produce
from broker.fetch_answers import records_of
from broker.log import accepting, recompressing
from broker.log.compaction import Task
from broker.log.outcomes import LogSettings
from broker.plane_settings import DataPlaneSettings
from muster.kafkawire.api_table import ApiKey
from muster.kafkawire.fetch_requests import AskedPartition
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.rows import TopicRow
from tests.unit.broker_data_plane.planes import (
    Broker,
    Client,
    broker,
    client,
    fetch,
    fetched,
    follower,
    produce,
    produced,
)
from tests.unit.broker_log.compacted_logs import keyed
from tests.unit.broker_log.logs import bytes_of
from tests.unit.kafkawire.made_batches import made_batch
from tests.unit.kafkawire.strict_reader import records_in, strictly_read

FETCH, PRODUCE = ApiKey.FETCH, ApiKey.PRODUCE
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


async def fill(one: Broker, ann: Client, configs: dict[str, str], count: int = 60) -> None:
    one.obey(1, configs=configs)
    for number in range(count):
        batch = keyed([(b"k%d" % (number % 3), b"%d" % number * 200)])
        await ann.ask(PRODUCE, 9, produce(batch=batch))


async def read_all(ann: Client) -> list[tuple[bytes | None, bytes | None]]:
    found: list[Any] = []
    offset = 0
    while True:
        answer = fetched(await ann.ask(FETCH, 12, fetch(offset)))
        if not answer.records:
            return [(one.key, one.value) for one in found]
        batches = strictly_read(answer.records)
        found += records_in(batches, offset)
        offset = batches[-1].next_offset


async def test_a_log_is_compacted_and_its_readers_see_each_key(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann, COMPACTED)
        before = await read_all(ann)
        (hosted,) = one.plane.partitions()
        size = hosted.log.size_bytes
        assert await one.plane.cleaner.clean_dirty() == 1
        after = await read_all(ann)
        assert dict(after) == dict(before)
        assert len(after) < len(before) and hosted.log.size_bytes < size
        assert (hosted.log.start_offset, hosted.high_watermark) == (0, 60)
        assert await one.plane.cleaner.clean_dirty() == 0
        assert produced(await ann.ask(PRODUCE, 9, produce(batch=keyed([(b"k", b"v")])))) == (0, 60)


async def test_only_compacted_topics_and_only_dirty_ones(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann, {})
        assert await one.plane.cleaner.clean_dirty() == 0
        one.plane.know_topics(
            [TopicRow(next(one.plane.partitions()).key.topic_id, "orders", 1, 1, COMPACTED)]
        )
        (hosted,) = one.plane.partitions()
        assert await one.plane.cleaner.clean_dirty() == 1
        hosted.log.settings = hosted.log.settings.__class__(
            segment_bytes=10_000, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=1.0
        )
        for number in range(30):
            await ann.ask(PRODUCE, 9, produce(batch=keyed([(b"k", b"%d" % number * 200)])))
        assert await one.plane.cleaner.clean_dirty() == 0, "most of it is clean"


async def test_a_log_that_cannot_be_read_is_tried_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann, COMPACTED)
        path = min((tmp_path / "1" / "orders-0").glob("*.log"))
        data = bytearray(path.read_bytes())
        data[70] ^= 1
        path.write_bytes(data)
        assert await one.plane.cleaner.clean_dirty() == 1
        assert await one.plane.cleaner.clean_dirty() == 0
        assert path.read_bytes() == data


async def test_a_mistake_of_ours_ends_nothing_and_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(task: Task) -> compactor.Pass:
        raise LookupError("our own mistake")

    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann, COMPACTED)
        monkeypatch.setattr(compactor, "begin", fails)
        assert await one.plane.cleaner.clean_dirty() == 1
        assert await one.plane.cleaner.clean_dirty() == 0


async def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        refused = await ann.ask(PRODUCE, 9, produce(batch=keyed([(None, b"v")])))
        assert produced(refused) == (ErrorCode.INVALID_RECORD, -1)


@pytest.mark.parametrize("configs", [COMPACTED, {"compression.type": "gzip"}])
async def test_one_request_has_no_more_batches_opened_than_the_loop_may_be_held_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configs: dict[str, str]
) -> None:
    """Each look at a clock is 300 ms later than the one before; what is refused may come again."""

    def ticking() -> Instant:
        one.now_ms += 300
        return Instant(one.now_ms)

    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs=configs)
        monkeypatch.setattr(one.plane, "clock", ticking)
        asked = produce(batch=keyed([(b"k", b"v")]), acks=1)
        (topic,) = asked.topic_data
        many = dataclasses.replace(topic, partition_data=topic.partition_data * 4)
        several = dataclasses.replace(asked, topic_data=(many,))
        (told,) = (await ann.ask(PRODUCE, 9, several)).responses
        later = ErrorCode.NOT_ENOUGH_REPLICAS
        found = [one.error_code for one in told.partition_responses]
        assert found == [ErrorCode.NONE, later, later, later]
        assert produced(await ann.ask(PRODUCE, 9, asked)) == (ErrorCode.NONE, 1)
        one.obey(2, configs={})
        (told,) = (await ann.ask(PRODUCE, 9, several)).responses
        assert {one.error_code for one in told.partition_responses} == {ErrorCode.NONE}, "nobody looks"


async def test_who_produces_is_told_which_records_have_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-467: Java's producer says of the others of the batch that they only stood beside these."""
    records = [(b"k", b"v"), (None, b"v"), (b"k", b"v"), (None, b"v"), (None, b"v")]
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)

        async def blamed(version: int) -> list[int]:
            asked = produce(batch=keyed(records), version=version)
            (told,) = (await ann.ask(PRODUCE, version, asked)).responses
            (refused,) = told.partition_responses
            assert refused.error_code == ErrorCode.INVALID_RECORD and "key" in refused.error_message
            return [one.batch_index for one in refused.record_errors]

        assert await blamed(8) == await blamed(9) == [1, 3, 4]
        monkeypatch.setattr(accepting, "MOST_BLAMED", 2)
        assert await blamed(12) == [1, 3]
        monkeypatch.setattr(handlers_produce, "MOST_BLAMED", 1)
        assert await blamed(12) == [1]


async def test_a_batch_of_more_records_than_the_loop_may_be_held_for_is_to_be_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is opened: a megabyte of compressed records of a few bytes held a broker for a second."""
    monkeypatch.setattr(accepting, "COMPACTED_RECORDS", 3)
    records = [(b"k%d" % number, b"v") for number in range(4)]
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        refused = await ann.ask(PRODUCE, 9, produce(batch=keyed(records)))
        assert produced(refused) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
        for half, offset in ((records[:2], 0), (records[2:], 2)):
            assert produced(await ann.ask(PRODUCE, 9, produce(batch=keyed(half)))) == (ErrorCode.NONE, offset)
        one.obey(2, configs={})
        assert produced(await ann.ask(PRODUCE, 9, produce(batch=keyed(records)))) == (ErrorCode.NONE, 4)


async def test_a_batch_that_opens_to_too_many_bytes_is_to_be_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recompressing, "MOST_BYTES", 1_000)
    large = bytes(made_batch([bytes(600)] * 2, compression=1))
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        refused = await ann.ask(PRODUCE, 9, produce(batch=large))
        assert produced(refused) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
        one.obey(2, configs={})
        assert produced(await ann.ask(PRODUCE, 9, produce(batch=large))) == (ErrorCode.NONE, 0)


SMALL_SEGMENTS = DataPlaneSettings(log=LogSettings(segment_bytes=1_000))


async def test_a_consumer_is_not_answered_batches_without_records_while_records_follow(
    tmp_path: Path,
) -> None:
    """kafkajs would ask for the same again, for ever; librdkafka tells of an error from the eleventh on."""
    async with broker(tmp_path, settings=SMALL_SEGMENTS) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        for number in range(60):
            batch = keyed([(b"k", b"%d" % number * 100)], producer=(number, 0, 0))
            await ann.ask(PRODUCE, 9, produce(batch=batch))
        (hosted,) = one.plane.partitions()
        assert await one.plane.cleaner.clean_dirty() == 1
        assert len(hosted.log._segments) > 11
        batches = strictly_read(fetched(await ann.ask(FETCH, 12, fetch(0))).records)
        assert records_in(batches), "what lies in the way is passed over"
        async with follower(one) as two:
            asked = fetch(0, version=16, replica=(2, 1), leader_epoch=1)
            one.obey(2, replicas=(1, 2), isr=(1,))
            copied = strictly_read(fetched(await two.ask(FETCH, 16, asked)).records, follows=0)
            assert not records_in(copied), "a follower copies all of it"


async def test_where_no_record_follows_a_consumer_comes_to_the_end(tmp_path: Path) -> None:
    async with broker(tmp_path, settings=SMALL_SEGMENTS) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        for number in range(20):
            await ann.ask(PRODUCE, 9, produce(batch=keyed([(b"k", b"%d" % number * 100)])))
        (hosted,) = one.plane.partitions()
        assert await one.plane.cleaner.clean_dirty() == 1
        hosted.log.delete_before(1, 0)
        end = hosted.log._segments.bases[1]
        asked = AskedPartition(0, -1, 1, -1, -1, 1_000_000)
        answer = records_of(hosted, asked, end, 1_000_000, at_least_one=True, is_for_consumer=True)
        assert answer.records is not None
        batches = strictly_read(bytes_of(answer.records))
        assert (records_in(batches), batches[-1].next_offset) == ([], end)
