"""A batch that nobody can open raises our own error with its place, stays, and is passed when asked to."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from muster import UnreadableBatch
from muster.client.fetching import CORRUPT_ANSWERS_MAX, READY_BYTES, Fetching, FetchOptions
from muster.client.processing import Processing
from muster.client.tenure import RECORDS_AT_ONCE, Tenure
from tests.unit.kafkawire.made_batches import made_batch, sealed_batch


def at(offset: int, batch: bytearray) -> bytes:
    """A batch as it lies in a log."""
    batch[:8] = offset.to_bytes(8, "big")
    return bytes(batch)


class Reader:
    """An application that reads one partition, whose log is what the test says; no broker is asked."""

    def __init__(self, *log: bytes, **options: Any) -> None:
        self.log = b"".join(log)
        self.fetching = Fetching(FetchOptions("tests", **options), lambda tenure: None, lambda: None)
        self.processing = Processing(self.fetching, lambda now: True)
        self.tenure = Tenure("orders", UUID(int=1), 0, 1, 0)
        self.fetching.start(self.tenure)

    async def next(self) -> int:
        """The offset of the next record; what is dropped is fetched again."""
        while True:
            self.fetching._take_in(self.tenure, self.log)
            try:
                async with asyncio.timeout(0.2):
                    record = await self.processing.main.next_record()
            except TimeoutError:
                continue
            assert record is not None
            return record.offset

    def skip(self, offset: int) -> None:
        """As Consumer.skip."""
        self.fetching.seek(self.tenure, offset)


POISON = at(2, sealed_batch(b"no zstd" * 5, compression=4, count=3))


async def test_it_is_named_again_at_each_attempt_until_it_is_skipped() -> None:
    reader = Reader(at(0, made_batch([b"a", b"b"])), POISON, at(5, made_batch([b"c"])))
    assert [await reader.next(), await reader.next()] == [0, 1]
    for _ in range(2):
        with pytest.raises(
            UnreadableBatch, match=r"orders-0: .* offset 2 to 4 .* skip\('orders', 0, 5\)"
        ) as told:
            await reader.next()
    problem = told.value
    assert (problem.topic, problem.partition, problem.offset, problem.next_offset) == ("orders", 0, 2, 5)
    reader.skip(problem.next_offset)
    assert reader.tenure.finished_to == 5
    assert await reader.next() == 5


async def test_a_batch_that_would_become_too_large_is_named_too() -> None:
    reader = Reader(at(0, made_batch([bytes(10_000)] * 3, compression=4)), batch_max_bytes=20_000)
    with pytest.raises(UnreadableBatch, match="more than 20000 bytes"):
        await reader.next()


async def test_a_codec_that_nobody_has_is_named_without_fetching_again() -> None:
    reader = Reader(at(0, sealed_batch(b"", compression=7)))
    with pytest.raises(UnreadableBatch, match="codec 7"):
        await reader.next()
    assert reader.tenure.corrupt_answers == 0


async def test_a_header_that_cannot_be_read_does_not_end_the_consumer() -> None:
    reader = Reader(at(0, made_batch([b"a"])), b"\x00" * 100)
    for _ in range(CORRUPT_ANSWERS_MAX):
        reader.fetching._take_in(reader.tenure, reader.log)
    assert await reader.processing.main.next_record()
    with pytest.raises(UnreadableBatch, match="magic 0") as told:
        await reader.processing.main.next_record()
    assert (told.value.offset, told.value.next_offset) == (1, 2)


async def test_a_batch_of_many_records_is_opened_piece_by_piece_and_whole() -> None:
    count = 2 * RECORDS_AT_ONCE
    reader = Reader(at(0, made_batch([b""] * count, compression=4)))
    assert reader.tenure.accept(reader.log)
    held = reader.tenure.buffered_bytes
    assert reader.tenure.open_some() == RECORDS_AT_ONCE
    assert reader.tenure.buffered_bytes == held
    assert reader.tenure.open_some() == RECORDS_AT_ONCE
    assert [record.offset for record in reader.tenure.ready] == list(range(count))
    assert reader.tenure.open_some() == 0 and reader.tenure.buffered_bytes == 0


async def test_skipping_drops_what_was_opened_of_the_same_batch() -> None:
    reader = Reader(at(0, made_batch([b"v"] * 10)))
    assert await reader.next() == 0
    reader.skip(7)
    assert [await reader.next() for _ in range(3)] == [7, 8, 9]


async def test_batches_that_become_large_are_opened_one_by_one() -> None:
    count = 20
    reader = Reader(*(at(number, made_batch([bytes(READY_BYTES)], compression=4)) for number in range(count)))
    assert len(reader.log) < READY_BYTES / 10
    for number in range(count):
        assert await reader.next() == number
        assert len(reader.tenure.ready) <= 1
