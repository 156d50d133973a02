"""This room words what removes groups and offsets: DeleteGroups and OffsetDelete."""

from collections.abc import Mapping
from typing import Any

from gateway.translation.offsets import Topics
from muster.kafkawire.api_table import ApiKey, build, part, response_class
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition


def deleted_groups(version: int, outcomes: Mapping[str, ErrorCode]) -> Any:
    """What became of each group (conformance 138, 139)."""
    shape = response_class(ApiKey.DELETE_GROUPS, version)
    result = part(shape, "DeletableGroupResult")
    return build(
        shape,
        results=tuple(
            build(result, group_id=group_id, error_code=error) for group_id, error in outcomes.items()
        ),
    )


def named_partitions(request: Any, topics: Topics) -> dict[tuple[str, int], Partition | None]:
    """The partitions of an OffsetDelete, by name and number; None: there is none of that name and number."""
    named: dict[tuple[str, int], Partition | None] = {}
    for topic in request.topics:
        known = topics.get(topic.name)
        for asked in topic.partitions:
            number = asked.partition_index
            exists = known is not None and 0 <= number < len(known.partitions)
            named[topic.name, number] = (
                Partition(topic.name, known.topic_id, number) if known is not None and exists else None
            )
    return named


def deleted_offsets(
    version: int, named: Mapping[tuple[str, int], Partition | None], outcomes: Mapping[Partition, ErrorCode]
) -> Any:
    """What became of each partition's offset; nothing stored is nothing wrong (conformance 129)."""
    shape = response_class(ApiKey.OFFSET_DELETE, version)
    topic_answer = part(shape, "OffsetDeleteResponseTopic")
    answer = part(shape, "OffsetDeleteResponsePartition")
    topics: dict[str, list[Any]] = {}
    for (name, number), partition in named.items():
        error = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if partition is None
            else outcomes.get(partition, ErrorCode.NONE)
        )
        topics.setdefault(name, []).append(build(answer, partition_index=number, error_code=error))
    return build(
        shape,
        error_code=ErrorCode.NONE,
        topics=tuple(
            build(topic_answer, name=name, partitions=tuple(answers)) for name, answers in topics.items()
        ),
    )
