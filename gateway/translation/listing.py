"""This room words what Kafka's tools ask about groups: DescribeGroups, ListGroups, in every version."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from coordinator.describing import DescribedGroup, DescribedMember, ListedGroup
from kafkaserver.cluster_answers import OPERATIONS_NOT_ASKED
from muster.kafkawire.api_table import ApiKey, is_flexible
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, octets, text
from muster.kernel.error_codes import ErrorCode

ABSENCE_IS_AN_ERROR_SINCE: Final = 6
"""And since then there is a text beside an error of a group."""
_THROTTLED_SINCE: Final = 1
_OPERATIONS_SINCE: Final = 3
_INSTANCES_SINCE: Final = 4
_STATES_SINCE: Final = 4
_TYPES_SINCE: Final = 5
GROUP_TYPE: Final = "classic"
"""Of every group: another type would make tools ask in a newer protocol, which nobody here answers."""

_ERROR: Final = struct.Struct(">h")
_OPERATIONS: Final = struct.Struct(">i")


def not_asked(_group_id: str) -> int:
    """Nobody wants to know what it may do with a group."""
    return OPERATIONS_NOT_ASKED


def describe_answer(version: int, groups: int, pieces: Iterable[bytes]) -> bytes:
    """The body with so many groups, each as `described_group` has worded it."""
    flexible = is_flexible(ApiKey.DESCRIBE_GROUPS, version)
    head = NOT_THROTTLED if version >= _THROTTLED_SINCE else b""
    return b"".join((head, count(groups, flexible), *pieces, NO_TAGS if flexible else b""))


def described_group(
    version: int, group: DescribedGroup, operations: Callable[[str], int] = not_asked
) -> Iterator[bytes]:
    """One group, member by member; one that does not exist is Dead, which is an error since version 6
    (conformance 142).

    `operations`: what the caller may do with a group, told of each beside which no error stands. By hand, as
    committed offsets: of 5,000 members kio's writer holds the loop for fifty milliseconds.
    """
    flexible = is_flexible(ApiKey.DESCRIBE_GROUPS, version)
    tags = NO_TAGS if flexible else b""
    error, why = group.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        if version < ABSENCE_IS_AN_ERROR_SINCE:
            error = ErrorCode.NONE
        else:
            why = f"Group {group.group_id} not found."
    head = [_ERROR.pack(error)]
    if version >= ABSENCE_IS_AN_ERROR_SINCE:
        head.append(text(why, flexible))
    head += (text(one, flexible) for one in (group.group_id, group.phase, group.protocol_type))
    head += (text(group.protocol_name, flexible), count(len(group.members), flexible))
    yield b"".join(head)
    tells_instances = version >= _INSTANCES_SINCE
    for member in group.members:
        yield _member(member, tells_instances, flexible)
    if version >= _OPERATIONS_SINCE:
        may = operations(group.group_id) if error is ErrorCode.NONE else OPERATIONS_NOT_ASKED
        yield _OPERATIONS.pack(may) + tags


def _member(one: DescribedMember, tells_instances: bool, flexible: bool) -> bytes:
    return b"".join(
        (
            text(one.member_id, flexible),
            text(one.group_instance_id, flexible) if tells_instances else b"",
            text(one.client_id, flexible),
            text(one.client_host, flexible),
            octets(one.metadata, flexible),
            octets(one.assignment, flexible),
            NO_TAGS if flexible else b"",
        )
    )


def list_answer(version: int, groups: Sequence[bytes]) -> bytes:
    """The body with all groups, each as `listed_groups` has worded it."""
    flexible = is_flexible(ApiKey.LIST_GROUPS, version)
    head = NOT_THROTTLED if version >= _THROTTLED_SINCE else b""
    return b"".join(
        (
            head,
            _ERROR.pack(ErrorCode.NONE),
            count(len(groups), flexible),
            *groups,
            NO_TAGS if flexible else b"",
        )
    )


def listed_groups(
    version: int,
    request: Any,
    groups: Iterable[ListedGroup],
    may_view: Callable[[str], bool] = lambda _: True,
) -> Iterator[bytes]:
    """The groups whose state and type are asked for; none named: all, and case does not count.

    Of another one, and of one that whoever asks may not view, nothing: there may be a hundred thousand of
    them before the next that is told, and others are to have their turn meanwhile.
    """
    states = {state.lower() for state in getattr(request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(request, "types_filter", ())}
    if types and GROUP_TYPE not in types:
        return
    flexible = is_flexible(ApiKey.LIST_GROUPS, version)
    tail = text(GROUP_TYPE, flexible) if version >= _TYPES_SINCE else b""
    tail += NO_TAGS if flexible else b""
    for group in groups:
        if (states and group.phase.lower() not in states) or not may_view(group.group_id):
            yield b""
            continue
        told = text(group.group_id, flexible) + text(group.protocol_type, flexible)
        if version >= _STATES_SINCE:
            told += text(group.phase, flexible)
        yield told + tail
