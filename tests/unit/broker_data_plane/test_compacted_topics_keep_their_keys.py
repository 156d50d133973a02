"""The cleaner of a broker: which logs it compacts, when, and what clients are answered meanwhile."""

from pathlib import Path
from typing import Any

from muster.kafkawire import batches
from muster.kafkawire.api_table import ApiKey
from muster.kafkawire.records import read_records
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import (
    Broker,
    Client,
    broker,
    client,
    fetch,
    fetched,
    produce,
    produced,
)
from tests.unit.broker_log.compacted_logs import keyed

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
        data = bytes(answer.records)
        found += read_records(data, offset)
        offset = max(header.next_offset for _, header in batches.headers(data))


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
        one.plane.know_topic(next(one.plane.partitions()).key.topic_id, "orders", COMPACTED)
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


async def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        refused = await ann.ask(PRODUCE, 9, produce(batch=keyed([(None, b"v")])))
        assert produced(refused) == (ErrorCode.INVALID_RECORD, -1)
