"""This room reads OffsetCommit requests and writes their answers by hand: consumers say little else as often.

kio makes objects of each partition that is asked for and of each that is answered, after the frame was walked
once to see that it may be read. The tests compare both with kio's.
"""

import struct
from collections.abc import Mapping, Sequence
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
_COMPACT = struct.Struct(">iqi")
"""A position of a flexible version, up to its metadata."""

_EMPTY: Final = b"\1"
"""A length of 0 as flexible versions write it."""
_NO_TAGS: Final = b"\0"
_PLAIN = struct.Struct(">iqi2x")
"""A position without metadata and tags."""

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
    """Mostly none has metadata or tags: then all of them are one step."""
    view, size = cursor.view, cursor.array_size()
    start, width = cursor.position, _PLAIN.size
    end = start + size * width
    if (
        end <= len(view)
        and bytes(view[start + width - 2 : end : width]) == _EMPTY * size
        and bytes(view[start + width - 1 : end : width]) == _NO_TAGS * size
    ):
        offsets_at += range(start + _NUMBER_BYTES, end, width)
        cursor.position = end
        return [(number, at, epoch, "") for number, at, epoch in _PLAIN.iter_unpack(view[start:end])]
    found = []
    for _ in range(size):
        offsets_at.append(cursor.position + _NUMBER_BYTES)
        number, offset, epoch = cursor.fields(_COMPACT)
        found.append((number, offset, epoch, cursor.string() or ""))
        cursor.tags()
    return found


def offset_commit_answer(
    header: RequestHeader, topics: Sequence[AskedTopic], errors: int | Mapping[tuple[str, int], int]
) -> bytes:
    """The whole frame that tells each partition, in the order of the request, its error: the same, or its own
    by topic and number.
    """
    version = header.api_version
    flexible = is_flexible(ApiKey.OFFSET_COMMIT, version)
    parts = [reply_prefix(ApiKey.OFFSET_COMMIT, version, header.correlation_id)]
    if version >= _THROTTLE_TIME_SINCE:
        parts.append(_LENGTH.pack(0))
    pack = (_COMPACT_ANSWER if flexible else _ANSWER).pack
    parts.append(count(len(topics), flexible))
    for name, positions in topics:
        parts += text(name, flexible), count(len(positions), flexible)
        if isinstance(errors, int):
            parts += [pack(number, errors) for number, _, _, _ in positions]
        else:
            parts += [pack(number, errors[name, number]) for number, _, _, _ in positions]
        if flexible:
            parts.append(b"\0")
    if flexible:
        parts.append(b"\0")
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body
