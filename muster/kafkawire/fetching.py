"""This room lays out Fetch replies around records that are sent from a file and never read, and reads them
in place for a follower.

Between the pieces of bytes lie places for records: objects that only have a length, which the
door sends with sendfile. The tests compare both with kio's. Versions 4 to 16; a follower reads 16.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from muster.kafkawire.api_table import ApiKey, RequestHeader, reply_prefix
from muster.kafkawire.bounds import UNLIMITED
from muster.kafkawire.cursor import Cursor
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.fetch_requests import topic_id_of
from muster.kafkawire.new_leaders import LeaderOf, NewLeader, current_leader, node_endpoints
from muster.kafkawire.numbers import uvarint
from muster.kernel.error_codes import ErrorCode
from muster.kernel.tuples import made

FLEXIBLE = 12
TOPIC_IDS = 13
LEADERS = 16
_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Of what is refused with these the leader is named."""
_LEADER_TAG: Final = 1
NOBODY = -1
"""No other broker is preferred."""


class Sized(Protocol):
    """Records somewhere: all that a layout must know of them is their length."""

    def __len__(self) -> int: ...


Records = TypeVar("Records", bound=Sized)


class Diverging(NamedTuple):
    """The leader's largest epoch not above the one asked, and its end (conformance 229)."""

    epoch: int
    end_offset: int


class FetchedPartition(NamedTuple, Generic[Records]):
    """The answer for one partition; `records` None means no bytes. Offsets -1 mean unknown.

    Compare `error_code` by its value: compiled, a field that is an int holds no member of an enum.
    `preferred` is the broker at which its reader is to go on; -1: here.
    """

    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: Records | None = None
    diverging: Diverging | None = None
    preferred: int = NOBODY


class FetchedTopic(NamedTuple, Generic[Records]):
    """The answers for one topic; `name` is used up to version 12, `topic_id` from 13 on."""

    name: str
    topic_id: UUID
    partitions: Sequence[FetchedPartition[Records]]


JOINED_BYTES: Final = 64 * 1024
"""Behind so many bytes of copied records another piece begins: a large answer that is joined whole takes its
size of memory once more, and as much of the loop's time."""

_HEAD_4 = struct.Struct(">ihqqi")
_HEAD_5 = struct.Struct(">ihqqqi")
_HEAD_11 = struct.Struct(">ihqqqii")
_HEAD_12 = struct.Struct(">ihqqqBi")
_EMPTY_12 = struct.Struct(">ihqqqBiBB")
"""A whole partition of a flexible version, without records and tags: most of what is answered to many."""
_ABORTED_AT = 30
_NO_ABORTED = 1
_NOTHING_MORE = b"\x01\x00"
"""Of such a partition: where the array of what was aborted begins, its length, and what it ends with."""
_ONE_HEAD = struct.Struct(">iiBihiB")
"""Size, correlation id, no tags; throttling, error and session; one topic."""
_ONE_PARTITION = struct.Struct(">BihqqqBi")
"""One partition: its head."""
_OFFSETS = struct.Struct(">ihqqq")
_EPOCH_END = struct.Struct(">iq")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_SESSION = struct.Struct(">ihi")
_DIVERGING = struct.Struct(">BBBiqB")
_NO_TAGS = b"\x00"
_NO_RECORDS = b"\x01"


def _partition_head(version: int, answer: FetchedPartition[Records]) -> bytes:
    """Everything before the length of the records.

    The last stable offset equals the high watermark, and nothing is ever aborted: transactions
    are not served.
    """
    index, error, high_watermark, start, _, _, preferred = answer
    if version >= FLEXIBLE:
        return _HEAD_12.pack(index, error, high_watermark, high_watermark, start, 1, preferred)
    if version >= 11:
        return _HEAD_11.pack(index, error, high_watermark, high_watermark, start, 0, preferred)
    if version >= 5:
        return _HEAD_5.pack(index, error, high_watermark, high_watermark, start, 0)
    return _HEAD_4.pack(index, error, high_watermark, high_watermark, 0)


def _records_length(version: int, size_bytes: int) -> bytes:
    return uvarint(size_bytes + 1) if version >= FLEXIBLE else _INT.pack(size_bytes)


def _partition_tail(version: int, diverging: Diverging | None) -> bytes:
    if version < FLEXIBLE:
        return b""
    if diverging is None:
        return _NO_TAGS
    # one tagged field, number 0, 13 bytes long: epoch, end offset, no tags of its own
    return _DIVERGING.pack(1, 0, 13, diverging.epoch, diverging.end_offset, 0)


def _count(version: int, number: int) -> bytes:
    return uvarint(number + 1) if version >= FLEXIBLE else _INT.pack(number)


def _topic_name(version: int, topic: FetchedTopic[Records]) -> bytes:
    if version >= TOPIC_IDS:
        return topic.topic_id.bytes
    name = topic.name.encode()
    return (uvarint(len(name) + 1) if version >= FLEXIBLE else _SHORT.pack(len(name))) + name


def lay_out_fetch_reply(
    version: int,
    correlation_id: int,
    topics: Sequence[FetchedTopic[Records]],
    error_code: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
    leader_of: LeaderOf | None = None,
) -> list[bytes | Records]:
    """A whole frame as pieces to be sent in order: bytes, and records wherever they lie.

    `leader_of` is asked, by topic ids, about partitions that are not led here.
    """
    if version < LEADERS:
        leader_of = None
    is_one = version >= FLEXIBLE and len(topics) == 1 and len(topics[0].partitions) == 1
    if is_one and (leader_of is None or not topics[0].partitions[0].error_code):
        return _of_one_partition(version, correlation_id, topics[0], error_code, session_id, throttle_ms)
    named: dict[int, NewLeader] = {}
    fields = (throttle_ms, error_code, session_id)
    head = _SESSION.pack(*fields) if version >= 7 else _INT.pack(throttle_ms)
    pending = [reply_prefix(ApiKey.FETCH, version, correlation_id), head, _count(version, len(topics))]
    pieces: list[bytes | Records] = []
    joined_bytes = 0
    for topic in topics:
        pending.append(_topic_name(version, topic))
        pending.append(_count(version, len(topic.partitions)))
        for answer in topic.partitions:
            index, error, high_watermark, start, records, diverging, preferred = answer
            if error and leader_of is not None and error in _MOVED:
                leader = leader_of(topic.topic_id, index, error)
                if leader is not None:
                    named[leader.broker_id] = leader
                    pending += _partition_head(version, answer), _NO_RECORDS
                    pending.append(current_leader(_LEADER_TAG, leader))
                    continue
            if records is None and diverging is None and version >= FLEXIBLE:
                pending.append(
                    _EMPTY_12.pack(index, error, high_watermark, high_watermark, start, 1, preferred, 1, 0)
                )
                continue
            if isinstance(records, bytes) and diverging is None and version >= FLEXIBLE:
                # A few bytes, as a follower that keeps up is sent of each partition: one piece with the rest.
                pending += (
                    _HEAD_12.pack(index, error, high_watermark, high_watermark, start, 1, preferred),
                    uvarint(len(records) + 1),
                    records,
                    _NO_TAGS,
                )
                joined_bytes += len(records)
                if joined_bytes > JOINED_BYTES:
                    pieces.append(b"".join(pending))
                    pending, joined_bytes = [], 0
                continue
            size_bytes = 0 if records is None else len(records)
            pending.append(_partition_head(version, answer))
            pending.append(_records_length(version, size_bytes))
            if records is not None and size_bytes:
                pieces.append(b"".join(pending))
                pieces.append(records)
                pending = []
            pending.append(_partition_tail(version, diverging))
        if version >= FLEXIBLE:
            pending.append(_NO_TAGS)
    if version >= FLEXIBLE:
        pending.append(node_endpoints(named))
    if pending:
        pieces.append(b"".join(pending))
    return _behind_their_size(pieces)


def _behind_their_size(pieces: list[bytes | Records]) -> list[bytes | Records]:
    """The same as a frame."""
    total = sum(map(len, _sized(pieces)))
    first = pieces[0]
    assert isinstance(first, bytes)
    pieces[0] = _INT.pack(total) + first
    return pieces


def _of_one_partition(
    version: int,
    correlation_id: int,
    topic: FetchedTopic[Records],
    error_code: int,
    session_id: int,
    throttle_ms: int,
) -> list[bytes | Records]:
    """The same of what is answered most often, in few steps."""
    index, error, high_watermark, start, records, diverging, preferred = topic.partitions[0]
    name = _topic_name(version, topic)
    size_bytes = 0 if records is None else len(records)
    length = uvarint(size_bytes + 1)
    # Behind the records lie the tags of the partition, of its topic and of the answer.
    tail = _partition_tail(version, diverging) + b"\0\0"
    total = _ONE_HEAD.size - 4 + len(name) + _ONE_PARTITION.size + len(length) + size_bytes + len(tail)
    head = b"".join(
        (
            _ONE_HEAD.pack(total, correlation_id, 0, throttle_ms, error_code, session_id, 2),
            name,
            _ONE_PARTITION.pack(2, index, error, high_watermark, high_watermark, start, 1, preferred),
            length,
        )
    )
    if isinstance(records, bytes):
        return [head + records + tail]
    return [head, records, tail] if records is not None and size_bytes else [head + tail]


class FetchAnswer(NamedTuple):
    """What a leader answered; records are views into the frame."""

    correlation_id: int
    error_code: int
    session_id: int
    topics: list[FetchedTopic[memoryview]]


def read_fetch_answer(frame: memoryview) -> FetchAnswer:
    """The answer in `frame` to a follower's request of version 16. Raises MalformedFrame."""
    cursor = Cursor(frame, 0, True, UNLIMITED)
    try:
        correlation_id = cursor.int32()
        cursor.tags()
        _, error_code, session_id = cursor.fields(_SESSION)
        topics = []
        for _ in range(cursor.array_size()):
            topic_id = topic_id_of(bytes(cursor.octets(16)))
            partitions = [_read_partition(cursor) for _ in range(cursor.array_size())]
            cursor.tags()
            topics.append(FetchedTopic("", topic_id, partitions))
        cursor.tags()
    except struct.error as error:
        raise MalformedFrame(f"Fetch: {error}") from error
    return FetchAnswer(correlation_id, error_code, session_id, topics)


def _read_partition(cursor: Cursor) -> FetchedPartition[memoryview]:
    view, position = cursor.view, cursor.position
    behind = position + _EMPTY_12.size
    if view[behind - 2 : behind] == _NOTHING_MORE and view[position + _ABORTED_AT] == _NO_ABORTED:
        # A high watermark alone: half of what a follower that keeps up is told.
        index, error, high_watermark, _, start, _, preferred, _, _ = cursor.fields(_EMPTY_12)
        fields = (index, error, high_watermark, start, view[behind:behind], None, preferred)
        return made(FetchedPartition, fields)
    index, error, high_watermark, _, start = cursor.fields(_OFFSETS)
    # Of transactions that were aborted, which are not served: nothing, or an array.
    for _ in range(max(cursor.uvarint() - 1, 0)):
        cursor.octets(16)
        cursor.tags()
    preferred = cursor.int32()
    records = cursor.records()
    diverging = None
    for _ in range(cursor.uvarint()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        field = cursor.octets(size)
        if tag == 0:
            epoch, end_offset = _EPOCH_END.unpack_from(field)
            diverging = Diverging(epoch, end_offset) if end_offset >= 0 else None
    return FetchedPartition(index, error, high_watermark, start, records, diverging, preferred)


def fetch_refusal(header: RequestHeader, error_code: int) -> bytes:
    """The whole frame that refuses a fetch as a whole."""
    nothing: list[FetchedTopic[bytes]] = []
    return b"".join(lay_out_fetch_reply(header.api_version, header.correlation_id, nothing, error_code))


def _sized(pieces: Iterable[bytes | Records]) -> Iterable[Sized]:
    return pieces
