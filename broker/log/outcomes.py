"""This room says what a log is told and what it answers: settings, places, refusals."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkaserver.outbox import FileRegion
from muster.kafkawire import compression
from muster.kafkawire.batches import BatchHeader
from muster.kernel.error_codes import ErrorCode

UNBOUNDED: Final = -1
LARGEST: Final = 2**63 - 1
DELETE: Final = "delete"
COMPACT: Final = "compact"
SWAP: Final = ".swap"
"""What the name of a compacted file ends in when it is finished, until it stands in the place of others."""
LOG_APPEND_TIME: Final = "LogAppendTime"
_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Kafka's topic settings of the same names; -1: no bound."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * _DAY_MS
    """A segment takes no batch that is by so much younger than its first one."""
    cleanup_policy: frozenset[str] = frozenset({DELETE})
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = UNBOUNDED
    max_message_bytes: int = 1_048_588
    producer_id_expiration_ms: int = _DAY_MS
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LARGEST
    min_cleanable_dirty_ratio: float = 0.5
    compression_type: str = "producer"
    timestamp_type: str = "CreateTime"
    timestamp_before_max_ms: int = LARGEST
    timestamp_after_max_ms: int = 3600 * 1000
    """How far behind and ahead of this broker's calendar a producer's times may be."""
    compacts: bool = field(init=False, repr=False, compare=False)
    """Of each key the last record stays. What each batch asks for follows from the rest and is kept."""
    rolls_after_ms: int = field(init=False, repr=False, compare=False)
    """A segment of this age is closed: what is written is never compacted."""
    takes_append_time: bool = field(init=False, repr=False, compare=False)
    """A record's time is when it was stored, not when it was made."""
    codec: int | None = field(init=False, repr=False, compare=False)
    """How all records are compressed (KIP-98; 0: not at all); None: as their producer does it."""

    def __post_init__(self) -> None:
        compacts = COMPACT in self.cleanup_policy
        rolls_after_ms = min(self.segment_ms, self.max_compaction_lag_ms) if compacts else self.segment_ms
        object.__setattr__(self, "compacts", compacts)
        object.__setattr__(self, "rolls_after_ms", rolls_after_ms)
        object.__setattr__(self, "takes_append_time", self.timestamp_type == LOG_APPEND_TIME)
        object.__setattr__(self, "codec", compression.NAMES.get(self.compression_type))

    @property
    def opens(self) -> bool:
        """Batches are looked into, which takes time."""
        return self.compacts or self.codec is not None

    @property
    def deletes(self) -> bool:
        """What is too old or too much goes."""
        return DELETE in self.cleanup_policy


class AppendRefused(Exception):
    """The records were not appended, none of them; `error_code` says why to the producer.

    `wrong_records`: the places in their batch of those that are to blame, if they were looked at one by one.
    """

    def __init__(self, error_code: ErrorCode, text: str, wrong_records: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.error_code = error_code
        self.wrong_records = wrong_records


class StorageFailed(Exception):
    """The file system refused (KAFKA_STORAGE_ERROR).

    The log is as it was before, or closed for good: then its `failure` says why.
    """


class Appended(NamedTuple):
    """Where the records lie; `is_duplicate`: they lay there before this request."""

    base_offset: int
    next_offset: int
    is_duplicate: bool = False
    append_time_ms: int = -1
    """When they were stored, if that is their time."""
    header: BatchHeader | None = None
    """Of the batch."""


class TimestampedOffset(NamedTuple):
    """A record's place and wall time in ms."""

    timestamp_ms: int
    offset: int


StoredRecords = FileRegion | bytes
"""Batches to send: a region of an open file, or a copy where no further file may be kept open."""
