"""This room reads Produce requests in place, so that a megabyte of records is never copied to be read,
and writes their answers by hand: small records are asked and answered more often than anything else.

kio would hand the records out as new bytes, and make an object of each partition that is answered; everything
else it does (conformance E3, Produce 3 to 12). The tests compare both with kio's.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader, is_flexible, reply_prefix
from muster.kafkawire.cursor import Cursor
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.fields import count, text
from muster.kafkawire.new_leaders import LeaderOf, NewLeader, current_leader, node_endpoints
from muster.kafkawire.numbers import read_uvarint
from muster.kernel.error_codes import ErrorCode
from muster.kernel.tuples import made

_FIRST_FLEXIBLE: Final = SERVED[ApiKey.PRODUCE].first_flexible
_START_OFFSET_SINCE: Final = 5
_TEXT_SINCE: Final = 8
_LEADERS_SINCE: Final = 10
_LEADER_TAG: Final = 0
_NOT_LED: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER

_ONE_TOPIC: Final = struct.Struct(">BhiBB")
_ONE_TOPIC_BYTES: Final = _ONE_TOPIC.size
"""Of a flexible version: the length of a transactional id, acks, timeout, lengths of topics and of a name."""
_ONE_PARTITION: Final = struct.Struct(">Bi")
_ONE_PARTITION_BYTES: Final = _ONE_PARTITION.size
_ONE: Final = 2
"""The length of an array of one, as flexible versions write it."""
_TAGS_BYTES: Final = 3
"""Of the partition, its topic and the request, if there are none."""
_SHORT_NAME: Final = 0x80
"""Lengths below lie in one byte."""

_NUMBER: Final = struct.Struct(">i")
_FRAME: Final = struct.Struct(">ii")
_EARLY: Final = struct.Struct(">ihqq")
_LATER: Final = struct.Struct(">ihqqq")
_NOTHING_SAID: Final = struct.Struct(">ihqqqih")
"""Version 8: no record is named and nothing said of the error."""
_COMPACT: Final = struct.Struct(">ihqqqBBB")
"""A flexible version: no record is named, nothing is said of the error, and there are no tags."""
_ALONE: Final = struct.Struct(">ihqqqBxxxix")
"""The same of the one partition that was asked for, and what ends the frame."""
_ALONE_BYTES: Final = _ALONE.size + _NUMBER.size
"""With the correlation id."""
_NO_TEXT: Final = (0, -1)
_COMPACT_NO_TEXT: Final = (1, 0, 0)
_NO_ERRORS: Final = 1
"""The length of an empty array, as flexible versions write it."""
_NAMES_KNOWN: Final = 1_000


class PartitionRecords(NamedTuple):
    """The records for one partition: a view into the frame, valid as long as the frame is."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    """A Produce request whose records are still in its frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: list[PartitionRecords]


class PartitionAnswer(Protocol):
    """What became of the records for one partition; times in ms, -1: none; offsets -1: none."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def error_code(self) -> int: ...

    @property
    def base_offset(self) -> int: ...

    @property
    def append_time_ms(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def text(self) -> str | None: ...

    @property
    def wrong_records(self) -> Sequence[int]:
        """For which of the batch it is refused, by their places in it; `text` is said of each."""


def read_produce(header: RequestHeader, frame: memoryview) -> ProduceRequest:
    """The request in `frame`, versions 3 to 12. Raises MalformedFrame, FrameTooLarge."""
    flexible = header.api_version >= _FIRST_FLEXIBLE
    try:
        if flexible:
            found = _for_one_partition(frame, header.body_start)
            if found is not None:
                return found
        cursor = Cursor(frame, header.body_start, flexible, SERVED[ApiKey.PRODUCE].limit_elements)
        transactional_id = cursor.string()
        acks = cursor.int16()
        timeout_ms = cursor.int32()
        parts: list[PartitionRecords] = []
        for _ in range(cursor.array_size()):
            topic = cursor.string()
            if topic is None:
                raise MalformedFrame("a topic without a name")
            for _ in range(cursor.array_size()):
                parts.append(PartitionRecords(topic, cursor.int32(), cursor.records()))
                cursor.tags()
            cursor.tags()
        cursor.tags()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"Produce: {error}") from error
    return ProduceRequest(transactional_id, acks, timeout_ms, parts)


def _for_one_partition(frame: memoryview, start: int) -> ProduceRequest | None:
    """What small producers send, in few steps; None: it is anything else, or broken.

    Raises UnicodeDecodeError, MalformedFrame.
    """
    try:
        no_id, acks, timeout_ms, topics, name_bytes = _ONE_TOPIC.unpack_from(frame, start)
        if no_id or topics != _ONE or not 0 < name_bytes < _SHORT_NAME:
            return None
        name_at = start + _ONE_TOPIC_BYTES
        behind = name_at + name_bytes - 1
        partitions, partition = _ONE_PARTITION.unpack_from(frame, behind)
    except struct.error:
        return None
    if partitions != _ONE:
        return None
    length, at = read_uvarint(frame, behind + _ONE_PARTITION_BYTES)
    end = at + length - 1
    if not length or end + _TAGS_BYTES != len(frame) or frame[end] or frame[end + 1] or frame[end + 2]:
        return None
    records = made(PartitionRecords, (str(frame[name_at:behind], "utf-8"), partition, frame[at:end]))
    return made(ProduceRequest, (None, acks, timeout_ms, [records]))


def produce_answer(
    header: RequestHeader,
    answers: Sequence[PartitionAnswer],
    throttle_ms: int,
    leader_of: LeaderOf | None = None,
) -> bytes:
    """The whole frame that says what became of each partition's records, topics in their order.

    `leader_of` is asked about those that are not led here.
    """
    version = header.api_version
    if len(answers) == 1 and version >= _FIRST_FLEXIBLE:
        one = answers[0]
        if one.text is None and (leader_of is None or one.error_code != _NOT_LED):
            return _answer_of_one(header, one, throttle_ms)
    named: dict[int, NewLeader] = {}
    if version < _LEADERS_SINCE:
        leader_of = None
    flexible = is_flexible(ApiKey.PRODUCE, version)
    topics: dict[str, list[PartitionAnswer]] = {}
    for one in answers:
        topics.setdefault(one.topic, []).append(one)
    parts = [reply_prefix(ApiKey.PRODUCE, version, header.correlation_id), count(len(topics), flexible)]
    for name, partitions in topics.items():
        parts += text(name, flexible), count(len(partitions), flexible)
        parts += _partitions(version, partitions, leader_of, named)
        if flexible:
            parts.append(b"\0")
    parts.append(_NUMBER.pack(throttle_ms))
    if flexible:
        parts.append(node_endpoints(named))
    body = b"".join(parts)
    return _NUMBER.pack(len(body)) + body


def _answer_of_one(header: RequestHeader, one: PartitionAnswer, throttle_ms: int) -> bytes:
    head = _head_of_one(one.topic)
    answered = _ALONE.pack(
        one.partition,
        one.error_code,
        one.base_offset,
        one.append_time_ms,
        one.log_start_offset,
        _NO_ERRORS,
        throttle_ms,
    )
    return _FRAME.pack(_ALONE_BYTES + len(head), header.correlation_id) + head + answered


@lru_cache(_NAMES_KNOWN)
def _head_of_one(topic: str) -> bytes:
    """Of a flexible version: the header's tags, one topic, its name, one partition."""
    return b"\0" + count(1, True) + text(topic, True) + count(1, True)


def _partitions(
    version: int,
    answers: Iterable[PartitionAnswer],
    leader_of: LeaderOf | None,
    named: dict[int, NewLeader],
) -> Iterable[bytes]:
    """Each of a topic's; whoever is named as a leader is put into `named`."""
    for one in answers:
        offsets = one.base_offset, one.append_time_ms
        if version < _START_OFFSET_SINCE:
            yield _EARLY.pack(one.partition, one.error_code, *offsets)
            continue
        numbers = one.partition, one.error_code, *offsets, one.log_start_offset
        leader = None
        if leader_of is not None and one.error_code == _NOT_LED:
            leader = leader_of(one.topic, one.partition, one.error_code)
        if version < _TEXT_SINCE:
            yield _LATER.pack(*numbers)
        elif leader is not None:
            named[leader.broker_id] = leader
            said = _blamed(one.wrong_records, flexible=True) + text(one.text, flexible=True)
            yield _LATER.pack(*numbers) + said + current_leader(_LEADER_TAG, leader)
        elif one.text is not None:
            flexible = version >= _FIRST_FLEXIBLE
            yield _LATER.pack(*numbers) + _blamed(one.wrong_records, flexible) + text(one.text, flexible)
            if flexible:
                yield b"\0"
        elif version < _FIRST_FLEXIBLE:
            yield _NOTHING_SAID.pack(*numbers, *_NO_TEXT)
        else:
            yield _COMPACT.pack(*numbers, *_COMPACT_NO_TEXT)


def _blamed(wrong_records: Sequence[int], flexible: bool) -> bytes:
    """BatchIndexAndErrorMessage of each: clients take the partition's text where it says none of its own."""
    said = text(None, flexible) + (b"\0" if flexible else b"")
    return count(len(wrong_records), flexible) + b"".join(_NUMBER.pack(one) + said for one in wrong_records)
