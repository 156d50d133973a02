"""This room shows the checks of the simulation a compacted log: what lies there, and what was removed."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple
from zlib import crc32

from broker.core.leader_epochs import NO_EPOCH
from broker.core.producers import Verdict
from broker.fetch_answers import records_of
from broker.hosted import HostedPartition
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from muster.kafkawire.compression import LZ4, SNAPPY, ZSTD, compress
from muster.kafkawire.fetch_requests import AskedPartition
from tests.simulation.replication.disk_log import DiskLog, stamp_of
from tests.simulation.replication.memory_log import PRODUCER_ID, Stored, header
from tests.unit.broker_log.compacted_logs import keyed
from tests.unit.broker_log.logs import bytes_of
from tests.unit.kafkawire.strict_reader import Batch, strictly_read

KEYS: Final = (b"ann", b"ben", b"cleo", b"dora", b"eve")
PRODUCERS, IN_A_ROW = 5, 2
"""So many producers take turns, and each stores so many records in its turn."""
CODECS: Final = (0, 0, SNAPPY, LZ4, ZSTD)
ATTRIBUTES_AT: Final = 22
FETCHED_BYTES: Final = 200

Known = dict[tuple[int, int], Stored]
"""By offset and leader epoch, what a leader stored there: who has that place holds this record, or did."""


class Content(NamedTuple):
    """What the record with a value says: of which key, and whether it deletes it."""

    key: bytes
    is_tombstone: bool


@cache
def content_of(value: int) -> Content:
    """Of the producer's record with this value, in every world the same."""
    chance = crc32(b"record %d" % value)
    return Content(KEYS[chance % len(KEYS)], chance % 7 < 3)


def _producer_of(value: int) -> tuple[int, int]:
    """Which producer stores it, and its number in that one's sequence."""
    turn, place = divmod(value - 1, IN_A_ROW)
    rounds, producer = divmod(turn, PRODUCERS)
    return PRODUCER_ID + producer, rounds * IN_A_ROW + place


def _value_of(producer_id: int, sequence: int) -> int:
    rounds, place = divmod(sequence, IN_A_ROW)
    return (rounds * PRODUCERS + producer_id - PRODUCER_ID) * IN_A_ROW + place + 1


@cache
def keyed_batch_of(value: int, broker_id: int, run: int, mark: int, day: int = 0) -> bytes:
    """Its batch; the time says who stored it, and when."""
    key, is_tombstone = content_of(value)
    stamp = stamp_of(broker_id, run, mark, day)
    producer_id, sequence = _producer_of(value)
    pair = (key, None if is_tombstone else b"%d" % value)
    made = bytearray(keyed([pair], producer=(producer_id, 0, sequence), timestamp_ms=stamp))
    codec = CODECS[crc32(b"codec %d" % value) % len(CODECS)]
    if not codec:
        return bytes(made)
    made[ATTRIBUTES_AT] = codec
    payload = compress(codec, bytes(made[batches.HEADER_BYTES :]))
    one = batches.read_header(made)
    return batches.rewritten(made, one, payload, 1, one.max_timestamp_ms)


class CompactedLog(DiskLog):
    """What was removed counts as held: `known` says what it was."""

    def __init__(self, log: PartitionLog, deleted: Callable[[], list[Stored]], known: Known) -> None:
        super().__init__(log, deleted)
        self._known = known

    def stored_from(self, offset: int) -> Iterator[Stored]:
        return self._known_from(offset) if self.is_damaged else self._read_from(offset)

    def _known_from(self, offset: int) -> Iterator[Stored]:
        for at in range(offset, self._log.end_offset):
            record = self._known.get((at, self._log.epochs.epoch_at(at)))
            if record is None:
                return
            yield record

    def _read_from(self, offset: int) -> Iterator[Stored]:
        for one in self._log.headers_from(offset):
            for at in range(max(offset, one.base_offset), min(one.next_offset, self._log.end_offset)):
                place = at, one.leader_epoch
                if one.record_count:
                    self._known[place] = self.stored(one)
                if place not in self._known:
                    return
                yield self._known[place]

    def stored(self, one: batches.BatchHeader) -> Stored:
        value = _value_of(one.producer_id, one.base_sequence)
        return super().stored(one)._replace(value=value)

    def judge(self, value: int) -> Verdict:
        producer_id, sequence = _producer_of(value)
        one = header(value)._replace(producer_id=producer_id, base_sequence=sequence)
        return self._log.producers.judge(one)

    def appended(self, record: Stored) -> None:
        """It is stored at the end: of a log that is damaged no file tells so."""
        self._known[self._log.end_offset - 1, record.epoch] = record

    def fetched(self, hosted: HostedPartition, offset: int) -> list[Batch]:
        """What a consumer at this offset is sent, by the strictest of readers. Raises Unreadable."""
        asked = AskedPartition(hosted.key.partition, NO_EPOCH, offset, NO_EPOCH, 0, FETCHED_BYTES)
        end = hosted.replica.readable_end
        answer = records_of(hosted, asked, end, FETCHED_BYTES, at_least_one=True, is_for_consumer=True)
        return [] if answer.records is None else strictly_read(bytes_of(answer.records))

    def present(self) -> list[int]:
        """The offsets at which records lie."""
        start, end = self._log.start_offset, self._log.end_offset
        found = (one.base_offset for one in self._log.headers_from(start) if one.record_count)
        return [offset for offset in found if start <= offset < end]

    @property
    def is_readable(self) -> bool:
        return not self._log.failure and not self.is_damaged

    @property
    def clean_to(self) -> int | None:
        """Up to where a pass has been; None: this process has not looked yet."""
        passes = self._log.cleaning.passes
        return passes.clean_to if passes is not None else None
