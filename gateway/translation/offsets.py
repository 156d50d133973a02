"""This room turns Kafka's requests about committed offsets into partitions of ours, and words the answers.

A partition of ours has its topic's id: what was committed for a topic that was deleted counts for no topic of
that name made since, so names are looked up among the topics of the instant.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from groups.core.state import NO_NOTE, GroupRows
from kafkaserver.cluster_answers import TopicView
from muster.kafkawire.api_table import ApiKey, RequestHeader, is_flexible
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, text
from muster.kafkawire.offset_commits import AskedPosition, OffsetCommitRequest
from muster.kernel.error_codes import ErrorCode
from muster.kernel.tuples import made
from muster.messages.partitions import Partition

Topics = Mapping[str, TopicView]
MayTopic = Callable[[str], bool]
"""Whether the client may read a topic."""

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
MANY_GROUPS_SINCE: Final = 8
ERROR_ON_TOP_SINCE: Final = 2
THROTTLED_SINCE: Final = 3
EPOCH_SINCE: Final = 5
ABSENCE_IS_TOLD_SINCE: Final = 9

PIECE_PARTITIONS: Final = 500
"""So many are looked up and worded in one go: a millisecond."""

_PLACE: Final = struct.Struct(">iq")
_PLACE_AND_EPOCH: Final = struct.Struct(">iqi")
_ERROR: Final = struct.Struct(">h")

METADATA_LENGTH: Final = 4_096
"""Kafka's `offset.metadata.max.bytes`, which for all its name counts the characters of a Java string."""


def anything(_topic: str) -> bool:
    """Where a door does not ask, everybody may read everything."""
    return True


class AskedOffsets(NamedTuple):
    """What an OffsetFetch asks of one group: topics with partition numbers; None: all that is committed."""

    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None


class FoundOffset(NamedTuple):
    """What is committed for one partition; -1 and "" if nothing is (conformance 119)."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FoundOfTopic(NamedTuple):
    """How many partitions of a topic are told of, and what is found of each: looked up when it is told."""

    partitions: int
    offsets: Iterable[FoundOffset]


FoundOffsets = Mapping[str, FoundOfTopic]
"""By topic, in the order of the question."""


# -- OffsetFetch


def asked_offsets(header: RequestHeader, request: Any) -> list[AskedOffsets]:
    """One question for each group; before version 8 there is one."""
    groups = request.groups if header.api_version >= MANY_GROUPS_SINCE else (request,)
    return [
        AskedOffsets(
            group.group_id,
            None
            if group.topics is None
            else [(topic.name, tuple(topic.partition_indexes)) for topic in group.topics],
        )
        for group in groups
    ]


def found_offsets(
    asked: AskedOffsets, topics: Topics, rows: GroupRows, may_describe: MayTopic = anything
) -> FoundOffsets:
    """What the rows say (conformance 119 to 122); of a topic that nobody knows, nothing is committed.

    A topic that the client may not read is refused where it is named, and left out where all are asked for.
    """
    named = _all_of_them(topics, rows, may_describe) if asked.topics is None else asked.topics
    numbers_of: dict[str, list[int]] = {}
    for name, numbers in named:
        numbers_of.setdefault(name, []).extend(numbers)
    return {
        name: FoundOfTopic(len(numbers), _found_of(name, numbers, topics.get(name), rows, may_describe(name)))
        for name, numbers in numbers_of.items()
    }


def _all_of_them(
    topics: Topics, rows: GroupRows, may_describe: MayTopic
) -> Iterable[tuple[str, Sequence[int]]]:
    """What is committed, sorted."""
    ids: dict[str, UUID | None] = {}
    numbers_of: dict[str, list[int]] = {}
    for name, topic_id, number in rows.offsets:
        if name not in ids:
            known = topics.get(name)
            ids[name] = None if known is None else known.topic_id
        if ids[name] == topic_id:
            numbers_of.setdefault(name, []).append(number)
    return [(name, sorted(numbers_of[name])) for name in sorted(numbers_of) if may_describe(name)]


def _found_of(
    name: str, numbers: Iterable[int], known: TopicView | None, rows: GroupRows, may_describe: bool
) -> Iterator[FoundOffset]:
    for number in numbers:
        if not may_describe:
            yield FoundOffset(number, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif known is None:
            yield FoundOffset(number)
        else:
            yield _found(rows, Partition(name, known.topic_id, number))


def _found(rows: GroupRows, partition: Partition) -> FoundOffset:
    note = rows.offset_notes.get(partition, NO_NOTE)
    offset = rows.offsets.get(partition, NO_OFFSET)
    return FoundOffset(partition.number, offset, note.leader_epoch, note.metadata)


def offsets_answer(version: int, count_of_groups: int, pieces: Sequence[bytes]) -> bytes:
    """The body with all groups, in the pieces in which `worded_offsets` has worded one after the other."""
    if version < MANY_GROUPS_SINCE:
        return b"".join(pieces)
    return b"".join((NOT_THROTTLED, count(count_of_groups, flexible=True), *pieces, NO_TAGS))


def worded_offsets(version: int, asked: AskedOffsets, told: FoundOffsets | ErrorCode) -> Iterator[bytes]:
    """What was found of one group, or why nothing can be told (conformance 124), piece by piece; before
    version 8 the body.

    By hand: kio's writer takes ten times as long, and tools ask for all that all groups have committed.
    """
    flexible = is_flexible(ApiKey.OFFSET_FETCH, version)
    if isinstance(told, ErrorCode):
        error = _worded(told)
        found = _all_refused(asked, error) if version < ERROR_ON_TOP_SINCE else {}
    else:
        error, found = ErrorCode.NONE, told
    if version >= MANY_GROUPS_SINCE:
        head = text(asked.group_id, flexible)
    else:
        head = NOT_THROTTLED if version >= THROTTLED_SINCE else b""
    yield head + count(len(found), flexible)
    for name, of_topic in found.items():
        yield from _topic(version, name, of_topic, flexible)
    tail = NO_TAGS if flexible else b""
    yield _ERROR.pack(error) + tail if version >= ERROR_ON_TOP_SINCE else tail


def _all_refused(asked: AskedOffsets, error: ErrorCode) -> FoundOffsets:
    return {
        name: FoundOfTopic(len(numbers), [FoundOffset(number, error=error) for number in numbers])
        for name, numbers in asked.topics or ()
    }


def _worded(error: ErrorCode) -> ErrorCode:
    """Java's clients before 3.9 fail for good when nothing is available here (conformance 12)."""
    return ErrorCode.NOT_COORDINATOR if error is ErrorCode.COORDINATOR_NOT_AVAILABLE else error


def _topic(version: int, name: str, of_topic: FoundOfTopic, flexible: bool) -> Iterator[bytes]:
    tags = NO_TAGS if flexible else b""
    tells_epoch = version >= EPOCH_SINCE
    parts = [text(name, flexible), count(of_topic.partitions, flexible)]
    for told, one in enumerate(of_topic.offsets, start=1):
        if tells_epoch:
            parts.append(_PLACE_AND_EPOCH.pack(one.partition, one.offset, one.leader_epoch))
        else:
            parts.append(_PLACE.pack(one.partition, one.offset))
        parts += (text(one.metadata, flexible), _ERROR.pack(one.error), tags)
        if told % PIECE_PARTITIONS == 0:
            yield b"".join(parts)
            parts.clear()
    parts.append(tags)
    yield b"".join(parts)


# -- OffsetCommit


class CommittedOffset(NamedTuple):
    """What is to be committed for one partition; `retention_ms` -1: as long as all others.

    A negative offset takes back what was committed before.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    retention_ms: int = -1


Refused = Mapping[tuple[str, int], ErrorCode]
"""Partitions that are refused before the group is asked."""


def asked_positions(
    request: OffsetCommitRequest, topics: Topics, may_read: MayTopic = anything
) -> tuple[dict[Partition, CommittedOffset], Refused]:
    """What can be asked of the group, and what cannot (conformance 112, 113).

    Of a partition that is named twice the last position counts; where one of them is refused, none does.
    """
    asked: dict[Partition, CommittedOffset] = {}
    refused: dict[tuple[str, int], ErrorCode] = {}
    retention_ms = request.retention_ms
    for name, positions in request.topics:
        known = topics.get(name)
        if not may_read(name):
            refused |= _all_of(name, positions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        if known is None:
            refused |= _all_of(name, positions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        count, topic_id = len(known.partitions), known.topic_id
        for number, offset, leader_epoch, metadata in positions:
            if 0 <= number < count and offset >= 0 and not metadata:
                # By far the most, of which one request may name fifty thousand.
                where = made(Partition, (name, topic_id, number))
                asked[where] = made(CommittedOffset, (offset, leader_epoch, metadata, retention_ms))
            elif not 0 <= number < count:
                refused[name, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif metadata and _java_length(metadata) > METADATA_LENGTH:
                refused[name, number] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif "\0" in metadata:
                refused[name, number] = ErrorCode.INVALID_REQUEST
            else:
                asked[Partition(name, topic_id, number)] = CommittedOffset(
                    offset, leader_epoch, metadata, retention_ms
                )
    if refused:
        asked = {where: what for where, what in asked.items() if (where.topic, where.number) not in refused}
    return asked, refused


def _all_of(name: str, positions: Iterable[AskedPosition], error: ErrorCode) -> Refused:
    return dict.fromkeys([(name, number) for number, _, _, _ in positions], error)


def _java_length(text: str) -> int:
    """In UTF-16: what lies beyond the first 65,536 characters of Unicode counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def worded(version: int, error: ErrorCode) -> ErrorCode:
    """A group that nobody knows is told as such since version 9 (conformance 111)."""
    unknown = error is ErrorCode.GROUP_ID_NOT_FOUND and version < ABSENCE_IS_TOLD_SINCE
    return ErrorCode.ILLEGAL_GENERATION if unknown else error
