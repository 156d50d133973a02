"""This room words what removes groups and offsets: DeleteGroups and OffsetDelete."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.translation.offsets import Topics
from muster.kafkawire.api_table import ApiKey, is_flexible
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, text
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition

_ERROR: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">ih")


def deleted_groups(version: int, outcomes: Mapping[str, ErrorCode]) -> bytes:
    """The body that tells what became of each group (conformance 138, 139).

    By hand, as for thousands of groups kio's writer holds the loop for a twentieth of a second.
    """
    flexible = is_flexible(ApiKey.DELETE_GROUPS, version)
    tags = NO_TAGS if flexible else b""
    told = (text(name, flexible) + _ERROR.pack(error) + tags for name, error in outcomes.items())
    return b"".join((NOT_THROTTLED, count(len(outcomes), flexible), *told, tags))


def named_partitions(
    request: Any, topics: Topics, may_see: Callable[[str], bool]
) -> dict[tuple[str, int], Partition | ErrorCode]:
    """The partitions of an OffsetDelete, by name and number; or why an offset of it cannot be deleted.

    Whether a topic exists is nobody's business who is told nothing about it.
    """
    named: dict[tuple[str, int], Partition | ErrorCode] = {}
    for topic in request.topics:
        known = topics.get(topic.name)
        for asked in topic.partitions:
            number = asked.partition_index
            if not may_see(topic.name):
                named[topic.name, number] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or not 0 <= number < len(known.partitions):
                named[topic.name, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                named[topic.name, number] = Partition(topic.name, known.topic_id, number)
    return named


def deleted_offsets(
    version: int,
    named: Mapping[tuple[str, int], Partition | ErrorCode],
    outcomes: Mapping[Partition, ErrorCode],
) -> bytes:
    """The body that tells what became of each partition's offset; nothing stored is nothing wrong
    (conformance 129). By hand, as `deleted_groups`.
    """
    flexible = is_flexible(ApiKey.OFFSET_DELETE, version)
    topics: dict[str, list[bytes]] = {}
    for (name, number), partition in named.items():
        error = partition if isinstance(partition, ErrorCode) else outcomes.get(partition, ErrorCode.NONE)
        topics.setdefault(name, []).append(_PARTITION.pack(number, error))
    told = (
        b"".join((text(name, flexible), count(len(places), flexible), *places))
        for name, places in topics.items()
    )
    return b"".join((_ERROR.pack(ErrorCode.NONE), NOT_THROTTLED, count(len(topics), flexible), *told))
