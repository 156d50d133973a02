"""This room turns Kafka's requests about committed offsets into partitions of ours, and words the answers.

A partition of ours has its topic's id: what was committed for a topic that was deleted counts for no topic of
that name made since, so names are looked up among the topics of the instant.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groups.core.state import NO_NOTE, GroupRows
from kafkaserver.cluster_answers import TopicView
from muster.kafkawire.api_table import ApiKey, RequestHeader, is_flexible
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, text
from muster.kafkawire.offset_commits import OffsetCommitRequest
from muster.kernel.error_codes import ErrorCode
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


FoundOffsets = Mapping[str, Sequence[FoundOffset]]
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
    if asked.topics is None:
        return _all_offsets(topics, rows, may_describe)
    found: dict[str, list[FoundOffset]] = {}
    for name, numbers in asked.topics:
        known = topics.get(name)
        answers = found.setdefault(name, [])
        for number in numbers:
            if not may_describe(name):
                answers.append(FoundOffset(number, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif known is None:
                answers.append(FoundOffset(number))
            else:
                answers.append(_found(rows, Partition(name, known.topic_id, number)))
    return found


def _all_offsets(topics: Topics, rows: GroupRows, may_describe: MayTopic) -> FoundOffsets:
    found: dict[str, list[FoundOffset]] = {}
    for partition in sorted(rows.offsets):
        known = topics.get(partition.topic)
        if known is not None and known.topic_id == partition.topic_id and may_describe(partition.topic):
            found.setdefault(partition.topic, []).append(_found(rows, partition))
    return found


def _found(rows: GroupRows, partition: Partition) -> FoundOffset:
    note = rows.offset_notes.get(partition, NO_NOTE)
    offset = rows.offsets.get(partition, NO_OFFSET)
    return FoundOffset(partition.number, offset, note.leader_epoch, note.metadata)


def offsets_answer(version: int, groups: Sequence[bytes]) -> bytes:
    """The body with all groups, each as `worded_offsets` has worded it; before version 8 there is one."""
    if version < MANY_GROUPS_SINCE:
        return groups[0]
    return b"".join((NOT_THROTTLED, count(len(groups), flexible=True), *groups, NO_TAGS))


def worded_offsets(version: int, asked: AskedOffsets, told: FoundOffsets | ErrorCode) -> bytes:
    """What was found of one group, or why nothing can be told (conformance 124); before version 8 the body.

    By hand: kio's writer takes ten times as long, and tools ask for all that all groups have committed.
    """
    flexible = is_flexible(ApiKey.OFFSET_FETCH, version)
    error, found = ErrorCode.NONE, told
    if isinstance(told, ErrorCode):
        error, found = _worded(told), {}
        if version < ERROR_ON_TOP_SINCE:
            found = {
                name: [FoundOffset(number, error=error) for number in numbers]
                for name, numbers in asked.topics or ()
            }
    assert not isinstance(found, ErrorCode)
    topics = b"".join(_topic(version, name, partitions, flexible) for name, partitions in found.items())
    tail = NO_TAGS if flexible else b""
    if version >= ERROR_ON_TOP_SINCE:
        tail = _ERROR.pack(error) + tail
    if version >= MANY_GROUPS_SINCE:
        head = text(asked.group_id, flexible)
    else:
        head = NOT_THROTTLED if version >= THROTTLED_SINCE else b""
    return b"".join((head, count(len(found), flexible), topics, tail))


def _worded(error: ErrorCode) -> ErrorCode:
    """Java's clients before 3.9 fail for good when nothing is available here (conformance 12)."""
    return ErrorCode.NOT_COORDINATOR if error is ErrorCode.COORDINATOR_NOT_AVAILABLE else error


def _topic(version: int, name: str, partitions: Sequence[FoundOffset], flexible: bool) -> bytes:
    tags = NO_TAGS if flexible else b""
    tells_epoch = version >= EPOCH_SINCE
    parts = [text(name, flexible), count(len(partitions), flexible)]
    for one in partitions:
        if tells_epoch:
            parts.append(_PLACE_AND_EPOCH.pack(one.partition, one.offset, one.leader_epoch))
        else:
            parts.append(_PLACE.pack(one.partition, one.offset))
        parts += (text(one.metadata, flexible), _ERROR.pack(one.error), tags)
    parts.append(tags)
    return b"".join(parts)


# -- OffsetCommit


class CommittedOffset(NamedTuple):
    """What is to be committed for one partition; `retention_ms` -1: as long as all others."""

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

    Of a partition that is named twice the last position counts.
    """
    asked: dict[Partition, CommittedOffset] = {}
    refused: dict[tuple[str, int], ErrorCode] = {}
    retention_ms = request.retention_ms
    for name, positions in request.topics:
        known = topics.get(name)
        readable = may_read(name)
        count = 0 if known is None else len(known.partitions)
        for number, offset, leader_epoch, metadata in positions:
            if not readable:
                refused[name, number] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or not 0 <= number < count:
                refused[name, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif metadata and _java_length(metadata) > METADATA_LENGTH:
                refused[name, number] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif offset < 0 or "\0" in metadata:
                refused[name, number] = ErrorCode.INVALID_REQUEST
            else:
                asked[Partition(name, known.topic_id, number)] = CommittedOffset(
                    offset, leader_epoch, metadata, retention_ms
                )
    return asked, refused


def _java_length(text: str) -> int:
    """In UTF-16: what lies beyond the first 65,536 characters of Unicode counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def worded(version: int, error: ErrorCode) -> ErrorCode:
    """A group that nobody knows is told as such since version 9 (conformance 111)."""
    unknown = error is ErrorCode.GROUP_ID_NOT_FOUND and version < ABSENCE_IS_TOLD_SINCE
    return ErrorCode.ILLEGAL_GENERATION if unknown else error
