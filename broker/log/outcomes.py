"""This room says what a log is told and what it answers: settings, places, refusals."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkaserver.outbox import FileRegion
from muster.kernel.error_codes import ErrorCode

UNBOUNDED: Final = -1


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Kafka's topic settings of the same names; -1: no bound."""

    segment_bytes: int = 1024 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = UNBOUNDED
    max_message_bytes: int = 1_048_588
    producer_id_expiration_ms: int = 24 * 3600 * 1000


class AppendRefused(Exception):
    """The records were not appended, none of them; `error_code` says why to the producer."""

    def __init__(self, error_code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error_code = error_code


class StorageFailed(Exception):
    """The file system refused (KAFKA_STORAGE_ERROR).

    The log is as it was before, or closed for good: then its `failure` says why.
    """


class Appended(NamedTuple):
    """Where the records lie; `is_duplicate`: they lay there before this request."""

    base_offset: int
    next_offset: int
    is_duplicate: bool = False


class TimestampedOffset(NamedTuple):
    """A record's place and wall time in ms."""

    timestamp_ms: int
    offset: int


StoredRecords = FileRegion | bytes
"""Batches to send: a region of an open file, or a copy where no further file may be kept open."""
