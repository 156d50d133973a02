"""ListOffsets up to version 9: the special times, from which version on, and the very record of a time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker import handlers_offsets
from muster.kafkawire.api_table import SERVED, ApiKey, build, part, request_class
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import Client, broker, client, produce
from tests.unit.broker_log.compacted_logs import keyed
from tests.unit.kafkawire.made_batches import lying_batch, made_batch

LIST, PRODUCE = ApiKey.LIST_OFFSETS, ApiKey.PRODUCE
NEWEST = SERVED[LIST].maximum
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "message.timestamp.type": "LogAppendTime",
}
SPECIAL = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 99}


def asked(timestamp_ms: int, version: int = NEWEST) -> Any:
    shape = request_class(LIST, version)
    partition = build(
        part(shape, "ListOffsetsPartition"),
        partition_index=0,
        current_leader_epoch=-1,
        timestamp=timestamp_ms,
    )
    topic = part(shape, "ListOffsetsTopic")(name="orders", partitions=(partition,))
    return build(shape, replica_id=-1, isolation_level=0, topics=(topic,))


async def found(ann: Client, timestamp_ms: int, version: int = NEWEST) -> tuple[int, int, int]:
    """(error, time, offset)."""
    body = await ann.ask(LIST, version, asked(timestamp_ms, version))
    (answer,) = body.topics[0].partitions
    return int(answer.error_code), answer.timestamp, answer.offset


async def fill(ann: Client, *batches: list[bytes], first_ms: int = 1_000, codec: int = 0) -> None:
    """One batch after the other; the records of each are 1 ms apart, the batches 1 s."""
    for number, values in enumerate(batches):
        made = made_batch(values, timestamp_ms=first_ms + 1_000 * number, compression=codec)
        await ann.ask(PRODUCE, 9, produce(batch=bytes(made)))


@pytest.mark.parametrize(("timestamp", "since"), SPECIAL.items())
async def test_a_special_time_is_known_from_its_version_on(
    tmp_path: Path, timestamp: int, since: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        for version in range(1, NEWEST + 1):
            error, _, _ = await found(ann, timestamp, version)
            assert error == (0 if version >= since else ErrorCode.UNSUPPORTED_VERSION)


async def test_each_special_time_says_its_offset(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await found(ann, -3) == (0, -1, -1), "an empty log has no youngest record"
        await fill(ann, [b"a", b"b", b"c"], [b"d", b"e"])
        (hosted,) = one.plane.partitions()
        hosted.delete_before(2, 0)
        assert await found(ann, -1) == (0, -1, 5)
        assert await found(ann, -2) == (0, -1, 2)
        assert await found(ann, -3) == (0, 2_001, 4)
        assert await found(ann, -4) == (0, -1, 2)
        assert await found(ann, -5) == (0, -1, -1), "nothing is tiered"


async def test_an_offset_comes_with_the_epoch_of_its_record(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:

        async def epoch(timestamp_ms: int) -> int:
            body = await ann.ask(LIST, NEWEST, asked(timestamp_ms))
            return int(body.topics[0].partitions[0].leader_epoch)

        one.obey(1, epoch=1)
        assert await epoch(-2) == 1, "that of the first record to come"
        await fill(ann, [b"a"], first_ms=1_000)
        one.obey(2, epoch=3)
        await fill(ann, [b"b"], first_ms=2_000)
        one.obey(3, epoch=5)
        assert {time: await epoch(time) for time in (-2, -4, 1_000, 2_000, -3, -1)} == {
            -2: 1,
            -4: 1,
            1_000: 1,
            2_000: 3,
            -3: 3,
            -1: 5,
        }
        (hosted,) = one.plane.partitions()
        hosted.delete_before(1, 0)
        assert await epoch(-2) == 3
        hosted.delete_before(2, 0)
        assert await epoch(-2) == 5


async def test_the_youngest_record_need_not_be_the_last(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await fill(ann, [b"x" * 4_000, b"b"], first_ms=9_000)
        for _ in range(6):
            await fill(ann, [b"x" * 4_000], first_ms=1_000)
        assert len(list((tmp_path / "1" / "orders-0").glob("*.log"))) > 2
        assert await found(ann, -3) == (0, 9_001, 1)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
async def test_a_time_finds_the_very_record_compressed_or_not(tmp_path: Path, codec: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await fill(ann, [b"a", b"b", b"c"], [b"d", b"e"], codec=codec)
        assert await found(ann, 0) == (0, 1_000, 0)
        assert await found(ann, 1_001) == (0, 1_001, 1)
        assert await found(ann, 1_003) == (0, 2_000, 3)
        assert await found(ann, 2_001) == (0, 2_001, 4)
        assert await found(ann, 2_002) == (0, -1, -1)


async def test_records_that_cannot_be_read_are_found_by_their_batch(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await fill(ann, [b"a", b"b"])
        (segment,) = (tmp_path / "1" / "orders-0").glob("*.log")
        data = bytearray(segment.read_bytes())
        data[61:] = b"\xff" * (len(data) - 61)
        segment.write_bytes(data)
        assert await found(ann, 1_001) == (0, 1_001, 0)


async def test_a_record_that_is_deleted_is_not_found_by_its_time(tmp_path: Path) -> None:
    """The log begins within a batch, whose first records were the younger ones."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        young_first = keyed([(b"a", b"1"), (b"b", b"2")], timestamp_ms=5_000, step_ms=-2_000)
        await ann.ask(PRODUCE, 9, produce(batch=young_first))
        (hosted,) = one.plane.partitions()
        hosted.delete_before(1, 0)
        assert await found(ann, 2_000) == (0, 3_000, 1)
        assert await found(ann, 4_000) == (0, -1, -1)
        await fill(ann, [b"c", b"d"], first_ms=4_500)
        assert await found(ann, 4_000) == (0, 4_500, 2)


async def test_the_largest_time_is_that_of_a_record_that_is_there(tmp_path: Path) -> None:
    """The log begins within a batch, whose first record was the youngest of all."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        pairs = [(b"%d" % number, b"x") for number in range(3)]
        young_first = keyed(pairs, timestamp_ms=9_000, step_ms=-2_000)
        await ann.ask(PRODUCE, 9, produce(batch=young_first))
        (hosted,) = one.plane.partitions()
        hosted.delete_before(1, 0)
        assert await found(ann, -3) == (0, 7_000, 1), "nothing follows"
        await fill(ann, [b"c", b"d"], first_ms=6_000)
        assert await found(ann, -3) == (0, 7_000, 1), "what follows is older"
        await fill(ann, [b"e", b"f"], first_ms=7_000)
        assert await found(ann, -3) == (0, 7_001, 6), "and here younger"
        hosted.delete_before(3, 0)
        assert await found(ann, -3) == (0, 7_001, 6)


async def test_a_time_of_appending_finds_a_record_that_is_there(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        await ann.ask(PRODUCE, 9, produce(batch=keyed([(b"k", b"1"), (b"once", b"2")])))
        for number in range(100):
            await ann.ask(PRODUCE, 9, produce(batch=keyed([(b"k", b"%d" % number * 200)])))
        assert await one.plane.cleaner.clean_dirty() == 1
        assert (await found(ann, 0))[2] == 1


async def test_a_record_that_states_more_than_all_time_is_as_young_as_its_batch(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        liar = lying_batch([(0, b"k", b"v")], time_delta=2**63 - 1)
        await ann.ask(PRODUCE, 9, produce(batch=bytes(liar)))
        assert await found(ann, 0) == await found(ann, -3) == (0, 1_000, 0)


async def test_whose_search_is_given_up_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers leave in the order of requests: behind one that never comes nothing ever would."""

    def give_up(_batch: object) -> None:
        raise asyncio.CancelledError

    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await fill(ann, [b"a", b"b"])
        with monkeypatch.context() as mistake:
            mistake.setattr(handlers_offsets._Batch, "look_into", give_up)
            with pytest.raises(EOFError):
                async with asyncio.timeout(10):
                    await found(ann, 1_001)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await found(ann, 1_001) == (0, 1_001, 1)
