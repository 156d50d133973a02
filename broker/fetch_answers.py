"""This room answers one partition of a fetch, of a consumer or a follower: records, or why not."""

from collections.abc import Container
from contextlib import suppress
from typing import Final

from broker.core.leader_epochs import NO_EPOCH
from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed, StoredRecords
from muster.kafkawire.fetch_requests import UNKNOWN, AskedPartition
from muster.kafkawire.fetching import FetchedPartition
from muster.kernel.error_codes import ErrorCode

RESPONSE_BYTES: Final = 57_671_680
"""Kafka's `fetch.max.bytes` of a broker: no answer is larger, whatever was asked."""

Answer = FetchedPartition[StoredRecords]


def refused(partition: int, error_code: ErrorCode) -> Answer:
    """An answer that holds nothing but why."""
    return FetchedPartition(partition, error_code, UNKNOWN, UNKNOWN)


def records_of(
    hosted: HostedPartition, asked: AskedPartition, limit_offset: int, left_bytes: int, *, at_least_one: bool
) -> Answer:
    """What lies from `asked.offset` on below `limit_offset`, in `left_bytes` at most, or one batch if there
    is to be one at least (conformance 226, 227).
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
        except StorageFailed:
            return refused(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    return FetchedPartition(asked.partition, ErrorCode.NONE, high_watermark, start_offset, region)


def look_for_damage(
    hosted: HostedPartition, offset: int, live: Container[int], last_epoch: int = NO_EPOCH
) -> None:
    """What lies at `offset` could not be read or stored: one of `live` is to lead if it is damaged."""
    # A log that cannot be read says so when it is read for an answer.
    with suppress(StorageFailed):
        hosted.sent_in_vain(offset, last_epoch, live)
