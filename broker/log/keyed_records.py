"""This room tells the records of a batch apart by their keys, for compaction, which walks over each twice.

Common records, of one or two bytes for a number, are read in place and without sign; a batch with any other
is read by `record_frames.places`, which also says what is wrong with one that is spoilt. Compiled, a loop
keeps the interpreter to itself: it is offered to others now and then, for a batch may hold a million records.
"""

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.record_frames import NO_KEY, places, varint

_LONG_KEY: Final = 32
_IN_ONE_GO: Final = 4_096
"""After so many records, some 2 ms, whoever serves clients in this process goes first."""

_NO_TIME: Final = -(2**63)


class Kept(NamedTuple):
    """The records of a batch that stay, and the largest of their times, as deltas to the batch's."""

    records: list[bytes]
    newest_delta: int


def note_last(records: bytes, count: int, base_offset: int, offsets: dict[bytes, int]) -> bool:
    """Keep in `offsets`, by what a key is told apart by, the offset of its last record.

    True if each record has a key, and for its offset its place: so these offsets are of this batch alone, and
    `picked` finds records by them. False: some have not, or it was not looked for. Raises CorruptBatch.
    """
    in_place = _note_common(records, count, base_offset, offsets)
    if in_place is not None:
        return in_place
    for _, _, _, offset_delta, key_start, key_end, _ in places(records, count):
        _require_own(offset_delta)
        if key_start != NO_KEY:
            offsets[_known(records[key_start:key_end])] = base_offset + offset_delta
    return False


def _note_common(records: bytes, count: int, base_offset: int, offsets: dict[bytes, int]) -> bool | None:
    """Whether each record has its place for its offset. None if a record is not a common one; what was noted
    until then is right.
    """
    position, in_place = 0, True
    try:
        for number in range(count):
            if number % _IN_ONE_GO == _IN_ONE_GO - 1:
                time.sleep(0)
            if (length := records[position]) < 0x80:
                end = position + 1 + (length >> 1)
                position += 2
            elif (more := records[position + 1]) < 0x80:
                end = position + 2 + ((length & 0x7F | more << 7) >> 1)
                position += 3
            else:
                return None
            # Behind the attributes the time, of which only the end is sought.
            if records[position] < 0x80:
                position += 1
            else:
                _, position = varint(records, position)
            if (delta := records[position]) < 0x80:
                position += 1
            elif (more := records[position + 1]) < 0x80:
                delta = delta & 0x7F | more << 7
                position += 2
            else:
                return None
            size = records[position]
            if size >= 0x80 or (length | delta | size) & 1:
                return None
            key_start = position + 1
            position = key_start + (size >> 1)
            if position >= end:
                return None
            key, delta = records[key_start:position], delta >> 1
            if delta != number:
                in_place = False
            offsets[key if size <= _LONG_KEY * 2 else _known(key)] = base_offset + delta
            position = end
    except IndexError:
        return None
    return in_place if position == len(records) else None


def picked(records: bytes, wanted: Sequence[int]) -> Kept:
    """The records at these places of a batch, in order: of the others only the lengths are read.

    Raises CorruptBatch where there are not so many.
    """
    stay: list[bytes] = []
    newest_delta, position, number = _NO_TIME, 0, 0
    try:
        for place in wanted:
            while number < place:
                number += 1
                if not number % _IN_ONE_GO:
                    time.sleep(0)
                if (length := records[position]) < 0x80:
                    position += 1 + (length >> 1)
                elif (more := records[position + 1]) < 0x80:
                    position += 2 + ((length & 0x7F | more << 7) >> 1)
                else:
                    size, position = varint(records, position)
                    position += size
            number += 1
            start = position
            size, position = varint(records, position)
            end = position + size
            stay.append(records[start:end])
            if (time_delta := varint(records, position + 1)[0]) > newest_delta:
                newest_delta = time_delta
            position = end
    except IndexError as error:
        raise CorruptBatch("the records end inside one") from error
    return Kept(stay, newest_delta)


def kept_of(
    records: bytes,
    count: int,
    base_offset: int,
    last_of: Callable[[bytes, int], int],
    tombstones_below: int,
) -> Kept:
    """Which records stay: those that no later one of their key supersedes, and tombstones for their time.

    Raises CorruptBatch.
    """
    kept = _kept_common(records, count, base_offset, last_of, tombstones_below)
    if kept is not None:
        return kept
    stay: list[bytes] = []
    newest_delta = _NO_TIME
    for start, end, time_delta, offset_delta, key_start, key_end, is_tombstone in places(records, count):
        _require_own(offset_delta)
        offset = base_offset + offset_delta
        if key_start == NO_KEY or (is_tombstone and offset < tombstones_below):
            continue
        if last_of(_known(records[key_start:key_end]), -1) > offset:
            continue
        stay.append(records[start:end])
        if time_delta > newest_delta:
            newest_delta = time_delta
    return Kept(stay, newest_delta)


def _kept_common(
    records: bytes,
    count: int,
    base_offset: int,
    last_of: Callable[[bytes, int], int],
    tombstones_below: int,
) -> Kept | None:
    """None if a record is not a common one."""
    stay: list[bytes] = []
    newest_delta, position = _NO_TIME, 0
    try:
        for number in range(1, count + 1):
            if not number % _IN_ONE_GO:
                time.sleep(0)
            start = position
            if (length := records[position]) < 0x80:
                end = position + 1 + (length >> 1)
                position += 2
            elif (more := records[position + 1]) < 0x80:
                end = position + 2 + ((length & 0x7F | more << 7) >> 1)
                position += 3
            else:
                return None
            time_at = position
            if records[position] < 0x80:
                position += 1
            else:
                _, position = varint(records, position)
            if (delta := records[position]) < 0x80:
                position += 1
            elif (more := records[position + 1]) < 0x80:
                delta = delta & 0x7F | more << 7
                position += 2
            else:
                return None
            size = records[position]
            if size >= 0x80 or (length | delta | size) & 1:
                return None
            key_start = position + 1
            position = key_start + (size >> 1)
            if position >= end:
                return None
            key, offset = records[key_start:position], base_offset + (delta >> 1)
            if last_of(key if size <= _LONG_KEY * 2 else _known(key), -1) <= offset and (
                offset >= tombstones_below or not records[position] & 1
            ):
                stay.append(records[start:end])
                if (time_delta := varint(records, time_at)[0]) > newest_delta:
                    newest_delta = time_delta
            position = end
    except IndexError:
        return None
    return Kept(stay, newest_delta) if position == len(records) else None


def _require_own(offset_delta: int) -> None:
    """An offset of a batch before would let what this record supersedes outlive it. Raises CorruptBatch."""
    if offset_delta < 0:
        raise CorruptBatch(f"a record at {offset_delta} before its batch")


def _known(key: bytes) -> bytes:
    """What a key is told apart by: itself, or a digest that is longer than any that is itself."""
    return key if len(key) <= _LONG_KEY else blake2b(key, digest_size=_LONG_KEY + 1).digest()
