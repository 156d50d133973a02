"""This room reads Fetch requests by hand in every version, and writes those of followers: a broker is asked
to fetch more often than anything else, and for thousands of partitions at once.

kio would make an object of each partition after the frame was walked once to see that it may be read. The
tests compare both with kio's.
"""

import struct
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader, is_flexible, request_head
from muster.kafkawire.cursor import Cursor
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.fields import text
from muster.kafkawire.numbers import uvarint

TOPIC_IDS_SINCE: Final = 13
ZSTD_SINCE: Final = 10
"""Who speaks an earlier version is not sent records of a topic that is stored in zstd (KIP-110)."""
NO_TOPIC_ID: Final = UUID(int=0)
UNKNOWN: Final = -1

_START_SINCE: Final = 5
_SESSION_SINCE: Final = 7
_LEADER_EPOCH_SINCE: Final = 9
_RACK_SINCE: Final = 11
_LAST_EPOCH_SINCE: Final = 12
_REPLICA_STATE_SINCE: Final = 15
FOLLOWERS_VERSION: Final = 16
"""In which brokers ask each other."""

_TOPIC_IDS_KNOWN: Final = 4_096
_CLUSTER_ID_TAG: Final = 0
_REPLICA_STATE_TAG: Final = 1

_REPLICA: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">iiib")
_WITH_SESSION: Final = struct.Struct(">iiibii")
"""Limits, isolation level, session id and epoch."""
_STATE: Final = struct.Struct(">iq")
_EARLY: Final = struct.Struct(">iqi")
_WITH_START: Final = struct.Struct(">iqqi")
_WITH_EPOCH: Final = struct.Struct(">iiqqi")
_LATEST: Final = struct.Struct(">iiqiqi")
_WITHOUT_TAGS: Final = struct.Struct(">iiqiqix")
"""A partition of a flexible version, as `AskedPartition` is laid out; behind it the number of its tags."""
_ONE_TOPIC: Final = struct.Struct(">iiibiiBB")
"""Limits and session, how many topics, and the first byte of that which is named."""
_ONE_PARTITION: Final = struct.Struct(">Biiqiqi3sB")
"""How many partitions, the only one, three bytes behind it, and the length of the rack's name."""
_ONE: Final = 2
_ALL_EMPTY: Final = b"\0\0\1"
"""No tags behind the partition nor the topic, and an empty array of what is forgotten."""
_NO_TAGS: Final = b"\0"
_SHORT_TEXT: Final = 0x80
"""The length of a shorter text, and one for it, take one byte."""
_TAGS: Final = struct.Struct(">BBBiqB")
"""One tagged field: who follows, 13 bytes with no tags of its own."""


class AskedPartition(NamedTuple):
    """One partition of a fetch, in the order of the wire. Both epochs are -1 if the client states none.

    `start_offset` is where a follower's log begins.
    """

    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int
    start_offset: int
    max_bytes: int


class AskedTopic(NamedTuple):
    """Partitions of one topic to fetch; `name` is used up to version 12, `topic_id` from 13 on."""

    name: str
    topic_id: UUID
    partitions: list[AskedPartition]


class ForgottenTopic(NamedTuple):
    """Partitions of one topic that leave the session."""

    name: str
    topic_id: UUID
    partitions: list[int]


class FetchRequest(NamedTuple):
    """A Fetch request; `replica_id` and `broker_epoch` are -1 for a consumer, `rack_id` is where that is."""

    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    topics: list[AskedTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str = ""


def read_fetch(
    header: RequestHeader, frame: memoryview, limit_elements: int = SERVED[ApiKey.FETCH].limit_elements
) -> FetchRequest:
    """The request in `frame`, versions 4 to 16. Raises MalformedFrame, FrameTooLarge."""
    version = header.api_version
    flexible = is_flexible(ApiKey.FETCH, version)
    cursor = Cursor(frame, header.body_start, flexible, limit_elements)
    try:
        if flexible and limit_elements > 1:
            found = _of_one_partition(frame, header.body_start, version)
            if found is not None:
                return found
        replica_id = cursor.int32() if version < _REPLICA_STATE_SINCE else UNKNOWN
        if version >= _SESSION_SINCE:
            max_wait_ms, min_bytes, max_bytes, _, session_id, session_epoch = cursor.fields(_WITH_SESSION)
        else:
            # Whoever knows no sessions is answered as if it had said that it wants none.
            max_wait_ms, min_bytes, max_bytes, _ = cursor.fields(_LIMITS)
            session_id, session_epoch = 0, UNKNOWN
        topics = [
            AskedTopic(*_topic(cursor, version), _partitions(cursor, version))
            for _ in range(cursor.array_size())
        ]
        forgotten = []
        if version >= _SESSION_SINCE:
            forgotten = [
                ForgottenTopic(*_topic(cursor, version), _numbers(cursor)) for _ in range(cursor.array_size())
            ]
        rack_id = cursor.text() if version >= _RACK_SINCE else ""
        broker_epoch = UNKNOWN
        if cursor.flexible:
            replica_id, broker_epoch = _tagged(cursor, version, replica_id)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"Fetch: {error}") from error
    return FetchRequest(
        replica_id,
        broker_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )


def _of_one_partition(frame: memoryview, start: int, version: int) -> FetchRequest | None:
    """What most consumers ask again and again, in few steps; None: it is anything else, or broken.

    Raises UnicodeDecodeError.
    """
    replica_id = UNKNOWN
    try:
        if version < _REPLICA_STATE_SINCE:
            (replica_id,) = _REPLICA.unpack_from(frame, start)
            start += _REPLICA.size
        *limits, session_id, session_epoch, topics, name_bytes = _ONE_TOPIC.unpack_from(frame, start)
        if topics != _ONE:
            return None  # Nor is it a name what lies there.
        at = start + _ONE_TOPIC.size - 1
        name, topic_id = "", NO_TOPIC_ID
        if version >= TOPIC_IDS_SINCE:
            topic_id = topic_id_of(bytes(frame[at : at + 16]))
            at += 16
        elif 0 < name_bytes < _SHORT_TEXT:
            name = str(frame[at + 1 : at + name_bytes], "utf-8")
            at += name_bytes
        else:
            return None
        partitions, *asked, tags, rack_bytes = _ONE_PARTITION.unpack_from(frame, at)
        at += _ONE_PARTITION.size
    except (struct.error, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        return None
    if partitions != _ONE or tags != _ALL_EMPTY or not 0 < rack_bytes < _SHORT_TEXT:
        return None
    end = at + rack_bytes - 1
    if bytes(frame[end:]) != _NO_TAGS:
        return None
    rack_id = str(frame[at:end], "utf-8") if rack_bytes > 1 else ""
    topic = AskedTopic(name, topic_id, [AskedPartition(*asked)])
    wait_ms, min_bytes, max_bytes, _ = limits
    return FetchRequest(
        replica_id, UNKNOWN, wait_ms, min_bytes, max_bytes, session_id, session_epoch, [topic], [], rack_id
    )


def _topic(cursor: Cursor, version: int) -> tuple[str, UUID]:
    if version < TOPIC_IDS_SINCE:
        return cursor.text(), NO_TOPIC_ID
    return "", topic_id_of(bytes(cursor.octets(16)))


@lru_cache(_TOPIC_IDS_KNOWN)
def topic_id_of(octets: bytes) -> UUID:
    """The id in these sixteen bytes; the same object for those that come often."""
    return UUID(bytes=octets)


def _partitions(cursor: Cursor, version: int) -> list[AskedPartition]:
    """What is asked of one topic, and the tags behind the topic."""
    size = cursor.array_size()
    if version < _LAST_EPOCH_SINCE:
        return _of_older_version(cursor, version, size)
    start, end = cursor.position, cursor.position + size * _WITHOUT_TAGS.size
    if end <= len(cursor.view) and not any(cursor.view[start + _LATEST.size : end : _WITHOUT_TAGS.size]):
        found = list(map(AskedPartition._make, _WITHOUT_TAGS.iter_unpack(cursor.view[start:end])))
        cursor.position = end
    else:
        found = []
        for _ in range(size):
            found.append(AskedPartition._make(cursor.fields(_LATEST)))
            cursor.tags()
    cursor.tags()
    return found


def _of_older_version(cursor: Cursor, version: int, size: int) -> list[AskedPartition]:
    if version >= _LEADER_EPOCH_SINCE:
        found = _WITH_EPOCH.iter_unpack(cursor.octets(size * _WITH_EPOCH.size))
        return [AskedPartition(p, epoch, at, UNKNOWN, start, most) for p, epoch, at, start, most in found]
    if version >= _START_SINCE:
        found = _WITH_START.iter_unpack(cursor.octets(size * _WITH_START.size))
        return [AskedPartition(p, UNKNOWN, at, UNKNOWN, start, most) for p, at, start, most in found]
    found = _EARLY.iter_unpack(cursor.octets(size * _EARLY.size))
    return [AskedPartition(p, UNKNOWN, at, UNKNOWN, UNKNOWN, most) for p, at, most in found]


def _numbers(cursor: Cursor) -> list[int]:
    """Which partitions of one topic leave the session, and the tags behind the topic."""
    found = [number for (number,) in _REPLICA.iter_unpack(cursor.octets(cursor.array_size() * 4))]
    cursor.tags()
    return found


def _tagged(cursor: Cursor, version: int, replica_id: int) -> tuple[int, int]:
    """Who fetches, and its broker epoch: version 15 moved them behind everything else."""
    broker_epoch = UNKNOWN
    count = cursor.uvarint()
    cursor.elements.pass_over(count)
    for _ in range(count):
        tag, size = cursor.uvarint(), cursor.uvarint()
        end = cursor.position + size
        if tag == _CLUSTER_ID_TAG:
            cursor.string()
        elif tag == _REPLICA_STATE_TAG and version >= _REPLICA_STATE_SINCE:
            replica_id, broker_epoch = cursor.fields(_STATE)
            cursor.tags()
        else:
            cursor.octets(size)
        if cursor.position != end:
            raise MalformedFrame(f"tagged field {tag} is not as long as it says")
    return replica_id, broker_epoch


def fetch_frame(correlation_id: int, client_id: str, request: FetchRequest) -> bytes:
    """The whole frame of a follower's request."""
    parts = [
        request_head(ApiKey.FETCH, FOLLOWERS_VERSION, correlation_id, client_id),
        _WITH_SESSION.pack(
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            0,
            request.session_id,
            request.session_epoch,
        ),
        uvarint(len(request.topics) + 1),
    ]
    for asked in request.topics:
        parts += asked.topic_id.bytes, uvarint(len(asked.partitions) + 1)
        parts += [_WITHOUT_TAGS.pack(*one) for one in asked.partitions]
        parts.append(b"\0")
    parts.append(uvarint(len(request.forgotten) + 1))
    for gone in request.forgotten:
        parts += gone.topic_id.bytes, uvarint(len(gone.partitions) + 1)
        parts += struct.pack(f">{len(gone.partitions)}i", *gone.partitions), b"\0"
    parts.append(text(request.rack_id, True))
    parts.append(_TAGS.pack(1, _REPLICA_STATE_TAG, 13, request.replica_id, request.broker_epoch, 0))
    body = b"".join(parts)
    return _REPLICA.pack(len(body)) + body
