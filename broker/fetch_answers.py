"""This room answers one partition of a fetch, of a consumer or a follower: records, or why not."""

from collections.abc import Container
from contextlib import suppress
from typing import Final

from broker.core.leader_epochs import NO_EPOCH
from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed, StoredRecords
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.fetch_requests import UNKNOWN, AskedPartition
from muster.kafkawire.fetching import NOBODY, FetchedPartition
from muster.kernel.error_codes import ErrorCode
from muster.kernel.tuples import made

RESPONSE_BYTES: Final = 57_671_680
"""Kafka's `fetch.max.bytes` of a broker: no answer is larger, whatever was asked."""

MOST_PASSED: Final = 1_000
"""So many batches without records are looked at in a piece of a log, and so many pieces for one answer."""

Answer = FetchedPartition[StoredRecords]

_NONE: Final = ErrorCode.NONE
"""To find it in its class takes as long as a call."""


def refused(partition: int, error_code: ErrorCode) -> Answer:
    """An answer that holds nothing but why."""
    return FetchedPartition(partition, error_code, UNKNOWN, UNKNOWN)


def records_of(
    hosted: HostedPartition,
    asked: AskedPartition,
    limit_offset: int,
    left_bytes: int,
    *,
    at_least_one: bool,
    is_for_consumer: bool = False,
) -> Answer:
    """What lies from `asked.offset` on below `limit_offset`, in `left_bytes` at most, or one batch if there
    is to be one at least (conformance 226, 227).

    A consumer is answered batches without records alone only where no record follows.
    """
    log = hosted.log
    start_offset, high_watermark = log.start_offset, hosted.high_watermark
    if not start_offset <= asked.offset <= log.end_offset:
        return FetchedPartition(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark, start_offset)
    region = None
    if asked.offset < limit_offset:
        try:
            most = min(asked.max_bytes, left_bytes)
            region = log.read(asked.offset, most, limit_offset, at_least_one=at_least_one)
            if region is not None and is_for_consumer:
                region = _with_records(log, region, most, limit_offset, at_least_one=at_least_one)
        except StorageFailed:
            return refused(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    return made(
        FetchedPartition, (asked.partition, _NONE, high_watermark, start_offset, region, None, NOBODY)
    )


def _with_records(
    log: PartitionLog, region: StoredRecords, most: int, limit_offset: int, *, at_least_one: bool
) -> StoredRecords:
    """The same, or what follows if it holds no record. Raises StorageFailed.

    Compaction may leave whole segments of batches without records. kafkajs does not get past such an answer,
    and librdkafka takes it for a batch that does not fit: it asks for twice as much, and from the eleventh on
    tells its application of an error. Kafka, whose logs have gaps there, sends what lies behind.
    """
    for _ in range(MOST_PASSED):
        behind = _end_of_empty(region)
        if behind is None or behind >= limit_offset:
            break
        further = log.read(behind, most, limit_offset, at_least_one=at_least_one)
        if further is None:
            break
        region = further
    return region


def _end_of_empty(region: StoredRecords) -> int | None:
    """The offset behind batches that hold no record; None: one of them does. Raises StorageFailed."""
    count, rest = divmod(len(region), batches.HEADER_BYTES)
    if rest or count > MOST_PASSED:
        return None
    end = None
    with suppress(CorruptBatch):
        for _, header in batches.headers(_bytes_of(region)):
            if header.record_count:
                return None
            end = header.next_offset
    return end


def _bytes_of(region: StoredRecords) -> bytes:
    try:
        return region if isinstance(region, bytes) else region.copied()
    except OSError as error:
        raise StorageFailed(str(error)) from error


def look_for_damage(
    hosted: HostedPartition, offset: int, live: Container[int], last_epoch: int = NO_EPOCH
) -> None:
    """What lies at `offset` could not be read or stored: one of `live` is to lead if it is damaged."""
    # A log that cannot be read says so when it is read for an answer.
    with suppress(StorageFailed):
        hosted.sent_in_vain(offset, last_epoch, live)
