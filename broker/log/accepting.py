"""This room judges batches before a log takes them: a producer's, and a leader's."""

from contextlib import suppress
from typing import Final, NamedTuple

from broker.core.producers import Duplicate, Producers, Refused
from broker.log.outcomes import AppendRefused, LogSettings
from broker.log.recompressing import as_configured, opened
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.record_frames import NO_KEY, SMALLEST_RECORD_BYTES, places
from muster.kernel.error_codes import ErrorCode
from muster.kernel.tuples import made

_LARGEST_CODEC: Final = 4

COMPACTED_RECORDS: Final = 250_000
"""Of a batch, for each is looked at for its key: a megabyte, compressed well, may hold millions. These take a
fifth of a second.
"""

MOST_BLAMED: Final = 1_000
"""So many records of one batch are named as those for which it is refused."""


class Placed(NamedTuple):
    """A batch and where it goes: `start` in the bytes it came in, `base_offset` in the log."""

    start: int
    base_offset: int
    header: BatchHeader


def from_producer(records: memoryview, settings: LogSettings, now_ms: int) -> tuple[memoryview, BatchHeader]:
    """The one batch of a Produce request for one partition, compressed as its topic says, and its header.

    Raises AppendRefused unless every byte belongs to it. Kafka's own producers send one since version 3, and
    its broker refuses more; a frame of them would hold the loop for seconds. Only a checksum that does not
    fit may be the way's doing, and is worth another try.
    """
    if not records:
        raise AppendRefused(ErrorCode.INVALID_RECORD, "no batch")
    try:
        header = batches.read_header(records, 0)
    except CorruptBatch as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error)) from error
    if header.size_bytes != len(records):
        is_cut = header.size_bytes > len(records)
        text = "the bytes end inside a batch" if is_cut else "more than one batch for one partition"
        raise AppendRefused(ErrorCode.INVALID_RECORD, text)
    try:
        batches.check_bytes(records, 0, header)
    except CorruptBatch as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    _judge_counts(header)
    if header.size_bytes > settings.max_message_bytes:
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size_bytes} bytes")
    if header.attributes:
        _judge_attributes(header.attributes)
    if not settings.takes_append_time:
        _judge_times(header, settings, now_ms)
    keyed = _with_keys(records, header) if settings.compacts else None
    return as_configured(records, header, settings, keyed)


def _judge_attributes(attributes: int) -> None:
    if attributes & (batches.CONTROL_BIT | batches.TRANSACTIONAL_BIT):
        raise AppendRefused(ErrorCode.INVALID_RECORD, "transactions are not served")
    if attributes & batches.CODEC_BITS > _LARGEST_CODEC:
        raise AppendRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "an unknown codec")
    if attributes & batches.APPEND_TIME_BIT:
        raise AppendRefused(ErrorCode.INVALID_TIMESTAMP, "LogAppendTime is not a producer's to state")


def _judge_counts(header: BatchHeader) -> None:
    """Its producer lies, and would again: an error that asks for another try would be answered with one."""
    count, last_offset_delta = header.record_count, header.last_offset_delta
    if header.base_offset:
        raise AppendRefused(ErrorCode.INVALID_RECORD, f"a batch of a producer at offset {header.base_offset}")
    if last_offset_delta < 0 or not count:
        raise AppendRefused(ErrorCode.INVALID_RECORD, "a batch without records")
    if count != last_offset_delta + 1:
        text = f"{count} records, and the last one's offset delta is {last_offset_delta}"
        raise AppendRefused(ErrorCode.INVALID_RECORD, text)
    room = header.size_bytes - batches.HEADER_BYTES
    if room < count * SMALLEST_RECORD_BYTES and not header.attributes & batches.CODEC_BITS:
        raise AppendRefused(ErrorCode.INVALID_RECORD, f"{count} records in {room} bytes")
    if header.producer_id > batches.NO_PRODUCER:
        if header.base_sequence < 0:
            raise AppendRefused(ErrorCode.INVALID_RECORD, f"a producer's sequence of {header.base_sequence}")
        if header.producer_epoch < 0:
            text = f"a producer's epoch of {header.producer_epoch}"
            raise AppendRefused(ErrorCode.INVALID_PRODUCER_EPOCH, text)


def in_sequence(header: BatchHeader, producers: Producers, *, is_whole: bool) -> Duplicate | None:
    """None: the batch comes next. Raises AppendRefused for one that does not.

    `is_whole`: whatever a producer stored lies in the log. What one that is not known sent before is on its
    way to the leader of before then, and will be sent again: it is to come first (`stranger_is_taken`).
    """
    if header.producer_id <= batches.NO_PRODUCER:
        return None
    verdict = producers.judge(header)
    if isinstance(verdict, Duplicate):
        return verdict
    if isinstance(verdict, Refused):
        raise AppendRefused(verdict.error_code, "out of the producer's sequence")
    if verdict.is_strangers and is_whole and not producers.has_forgotten:
        raise AppendRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the producer's first batches are not here")
    return None


def _with_keys(batch: memoryview, header: BatchHeader) -> bytes | memoryview:
    """The batch's records, decompressed, each of which has a key.

    A record without a key could neither be kept nor go, nor could one that states another's offset.

    Those without are named: clients tell for which of its records a batch is refused (KIP-467). What holds
    too many is refused by the error upon which Kafka's producer splits the batch.
    """
    if header.record_count > COMPACTED_RECORDS:
        text = f"{header.record_count} records, and {COMPACTED_RECORDS} are looked at: the topic is compacted"
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, text)
    records = opened(batch, header)
    without: list[int] = []
    try:
        found = places(records, header.record_count)
        for number, (_, _, _, offset_delta, key_start, _, _) in enumerate(found):
            if offset_delta != number:
                text = f"record {number} states the offset delta {offset_delta}"
                raise AppendRefused(ErrorCode.INVALID_RECORD, text, (number,))
            if key_start == NO_KEY:
                without.append(number)
                if len(without) == MOST_BLAMED:
                    break
    except CorruptBatch as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error)) from error
    if without:
        text = "a record without a key, and the topic is compacted"
        raise AppendRefused(ErrorCode.INVALID_RECORD, text, tuple(without))
    return records


def _judge_times(header: BatchHeader, settings: LogSettings, now_ms: int) -> None:
    """By the first and the largest time that the header states; a batch without times has none to refuse."""
    oldest, newest = header.base_timestamp_ms, header.max_timestamp_ms
    if newest - now_ms > settings.timestamp_after_max_ms or (
        oldest != batches.NO_TIMESTAMP and now_ms - oldest > settings.timestamp_before_max_ms
    ):
        raise AppendRefused(
            ErrorCode.INVALID_TIMESTAMP, f"times from {oldest} to {newest}, and it is {now_ms}"
        )


class Followed(NamedTuple):
    """The good batches of one leader epoch at the head of an answer, and what is wrong behind them."""

    placed: list[Placed]
    used_bytes: int
    refusal: str
    """"": nothing is; more batches, of a later epoch, may follow."""


def from_leader(records: memoryview, end_offset: int, last_epoch: int) -> Followed:
    """What of a leader's answer fits behind `end_offset` and `last_epoch`, up to the next leader epoch.

    A last batch that is cut off is left out.
    """
    placed: list[Placed] = []
    epoch, used = last_epoch, 0
    try:
        for start, header in batches.headers(records):
            batches.check(records, start, header)
            base_offset, leader_epoch = header.base_offset, header.leader_epoch
            if base_offset != end_offset or leader_epoch < epoch:
                found = f"batch {base_offset} of epoch {leader_epoch}"
                return Followed(placed, used, f"{found} at {end_offset} of epoch {epoch}")
            if placed and leader_epoch != epoch:
                return Followed(placed, used, "")
            epoch, end_offset = leader_epoch, base_offset + header.last_offset_delta + 1
            placed.append(made(Placed, (start, base_offset, header)))
            used = start + header.size_bytes
    except CorruptBatch as error:
        return Followed(placed, used, str(error))
    return Followed(placed, used, "")


def refusal_at(offset: int, batch: bytes, last_epoch: int, *, is_first: bool) -> str:
    """What a follower that stands at `offset` finds wrong with the batch that holds it; "": nothing.

    It may begin before: the log's start may lie within it, or it stands for offsets without records.
    """
    begins = offset
    with suppress(CorruptBatch):
        header = batches.read_header(batch)
        if is_first or batches.is_filler(header):
            begins = min(offset, header.base_offset)
    return from_leader(memoryview(batch), begins, last_epoch).refusal


def shortened(records: memoryview, first: BatchHeader, offset: int) -> memoryview:
    """The same, but the first, which only stands for offsets, begins at `offset`. Raises CorruptBatch."""
    batches.check(records, 0, first)
    rest = batches.filler(offset, first.next_offset, first.leader_epoch)
    return memoryview(rest + bytes(records[first.size_bytes :]))
