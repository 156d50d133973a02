"""This room turns Kafka's requests about committed offsets into partitions of ours, and words the answers.

A partition of ours has its topic's id: what was committed for a topic that was deleted counts for no topic of
that name made since, so names are looked up among the topics of the instant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groups.core.state import NO_NOTE, GroupRows
from kafkaserver.cluster_answers import TopicView
from muster.kafkawire.api_table import ApiKey, RequestHeader, build, part, response_class
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
ABSENCE_IS_TOLD_SINCE: Final = 9

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


def offsets_answer(version: int, answers: Iterable[tuple[AskedOffsets, FoundOffsets | ErrorCode]]) -> Any:
    """What was found of each group, or why nothing can be told (conformance 124)."""
    shape = response_class(ApiKey.OFFSET_FETCH, version)
    if version < MANY_GROUPS_SINCE:
        ((asked, told),) = answers
        if not isinstance(told, ErrorCode):
            return build(shape, topics=_topics(shape, "", told), error_code=ErrorCode.NONE)
        error = _worded(told)
        if version >= ERROR_ON_TOP_SINCE:
            return build(shape, topics=(), error_code=error)
        nothing = {name: [FoundOffset(number) for number in numbers] for name, numbers in asked.topics or ()}
        return build(shape, topics=_topics(shape, "", nothing, error))
    group = part(shape, "OffsetFetchResponseGroup")
    return build(
        shape,
        groups=tuple(
            build(group, group_id=asked.group_id, topics=(), error_code=_worded(told))
            if isinstance(told, ErrorCode)
            else build(
                group,
                group_id=asked.group_id,
                topics=_topics(shape, "s", told),
                error_code=ErrorCode.NONE,
            )
            for asked, told in answers
        ),
    )


def _worded(error: ErrorCode) -> ErrorCode:
    """Java's clients before 3.9 fail for good when nothing is available here (conformance 12)."""
    return ErrorCode.NOT_COORDINATOR if error is ErrorCode.COORDINATOR_NOT_AVAILABLE else error


def _topics(
    shape: Any, plural: str, found: FoundOffsets, error: ErrorCode = ErrorCode.NONE
) -> tuple[Any, ...]:
    """`plural`: since version 8 kio's classes of the parts end in an s."""
    topic = part(shape, f"OffsetFetchResponseTopic{plural}")
    answer = part(shape, f"OffsetFetchResponsePartition{plural}")
    return tuple(
        build(
            topic,
            name=name,
            partitions=tuple(
                build(
                    answer,
                    partition_index=one.partition,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    metadata=one.metadata,
                    error_code=error or one.error,
                )
                for one in partitions
            ),
        )
        for name, partitions in found.items()
    )


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
