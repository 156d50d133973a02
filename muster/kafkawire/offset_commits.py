"""This room reads OffsetCommit requests and writes their answers by hand: consumers say little else as often.

kio makes objects of each partition that is asked for and of each that is answered, after the frame was walked
once to see that it may be read. The tests compare both with kio's.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader, is_flexible, reply_prefix
from muster.kafkawire.cursor import Cursor
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.fields import count, text

_RETENTION_UNTIL: Final = 4
_INSTANCE_SINCE: Final = 7
_EPOCH_SINCE: Final = 6
_THROTTLE_TIME_SINCE: Final = 3
_NO_EPOCH: Final = -1

_NUMBER_BYTES: Final = 4

_LENGTH = struct.Struct(">i")
_COMPACT = struct.Struct(">iqiBB")
"""A position of a flexible version; of one without metadata also its length, and the number of tags."""

_EMPTY: Final = 1
"""A length of 0 as flexible versions write it."""

_ANSWER: Final = struct.Struct(">ih")
_COMPACT_ANSWER: Final = struct.Struct(">ihx")

AskedPosition = tuple[int, int, int, str]
"""Partition, offset, leader epoch (-1: none), metadata ("" if it is null)."""


class AskedTopic(NamedTuple):
    """What is to be committed for one topic."""

    name: str
    positions: list[AskedPosition]


class OffsetCommitRequest(NamedTuple):
    """Who commits what, copied out of its frame. `retention_ms` -1: it lives as long as all others.

    Generation -1 and member "" are of whoever is no member (conformance 105).
    """

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    retention_ms: int
    topics: list[AskedTopic]


def read_offset_commit(
    header: RequestHeader, frame: memoryview, places: list[int] | None = None
) -> OffsetCommitRequest:
    """The request in `frame`, versions 2 to 9; `places` takes in where behind the header its offsets stand.

    Raises MalformedFrame, FrameTooLarge.
    """
    version = header.api_version
    flexible = is_flexible(ApiKey.OFFSET_COMMIT, version)
    cursor = Cursor(frame, header.body_start, flexible, SERVED[ApiKey.OFFSET_COMMIT].limit_elements)
    positions = _compact_positions if flexible else _positions
    offsets_at: list[int] = []
    try:
        group_id, generation, member_id = cursor.text(), cursor.int32(), cursor.text()
        instance_id = cursor.string() if version >= _INSTANCE_SINCE else None
        retention_ms = cursor.int64() if version <= _RETENTION_UNTIL else -1
        topics = []
        for _ in range(cursor.array_size()):
            name = cursor.text()
            topics.append(AskedTopic(name, positions(cursor, version >= _EPOCH_SINCE, offsets_at)))
            cursor.tags()
        cursor.tags()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"OffsetCommit: {error}") from error
    if places is not None:
        places += [place - header.body_start for place in offsets_at]
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics)


def _positions(cursor: Cursor, has_epoch: bool, offsets_at: list[int]) -> list[AskedPosition]:
    found = []
    for _ in range(cursor.array_size()):
        number = cursor.int32()
        offsets_at.append(cursor.position)
        offset, epoch = cursor.int64(), cursor.int32() if has_epoch else _NO_EPOCH
        found.append((number, offset, epoch, cursor.string() or ""))
    return found


def _compact_positions(cursor: Cursor, _has_epoch: bool, offsets_at: list[int]) -> list[AskedPosition]:
    """Most have no metadata and no tags: each of these is one step."""
    found = []
    view = cursor.view
    for _ in range(cursor.array_size()):
        offsets_at.append(cursor.position + _NUMBER_BYTES)
        number, offset, epoch, length, tags = _COMPACT.unpack_from(view, cursor.position)
        if length == _EMPTY and not tags:
            cursor.position += _COMPACT.size
            found.append((number, offset, epoch, ""))
            continue
        cursor.position += _COMPACT.size - 2
        found.append((number, offset, epoch, cursor.string() or ""))
        cursor.tags()
    return found


def offset_commit_answer(
    header: RequestHeader, topics: Sequence[AskedTopic], error_of: Callable[[str, int], int]
) -> bytes:
    """The whole frame that tells each partition, in the order of the request, its error."""
    version = header.api_version
    flexible = is_flexible(ApiKey.OFFSET_COMMIT, version)
    parts = [reply_prefix(ApiKey.OFFSET_COMMIT, version, header.correlation_id)]
    if version >= _THROTTLE_TIME_SINCE:
        parts.append(_LENGTH.pack(0))
    pack = (_COMPACT_ANSWER if flexible else _ANSWER).pack
    parts.append(count(len(topics), flexible))
    for name, positions in topics:
        parts += text(name, flexible), count(len(positions), flexible)
        parts += [pack(number, error_of(name, number)) for number, _, _, _ in positions]
        if flexible:
            parts.append(b"\0")
    if flexible:
        parts.append(b"\0")
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body
