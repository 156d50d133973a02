"""This room words what Kafka's tools ask about groups: DescribeGroups, ListGroups, in every version."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from coordinator.describing import DescribedGroup, ListedGroup
from kafkaserver.cluster_answers import OPERATIONS_NOT_ASKED
from muster.kafkawire.api_table import ApiKey, build, encode_body, is_flexible, part, response_class
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count
from muster.kernel.error_codes import ErrorCode

ABSENCE_IS_AN_ERROR_SINCE: Final = 6
_THROTTLED_SINCE: Final = 1
GROUP_TYPE: Final = "classic"
"""Of every group: another type would make tools ask in a newer protocol, which nobody here answers."""


def not_asked(_group_id: str) -> int:
    """Nobody wants to know what it may do with a group."""
    return OPERATIONS_NOT_ASKED


def describe_answer(version: int, groups: Sequence[bytes]) -> bytes:
    """The body with all groups, each as `described_group` has worded it."""
    flexible = is_flexible(ApiKey.DESCRIBE_GROUPS, version)
    head = NOT_THROTTLED if version >= _THROTTLED_SINCE else b""
    return b"".join((head, count(len(groups), flexible), *groups, NO_TAGS if flexible else b""))


def described_group(
    version: int, group: DescribedGroup, operations: Callable[[str], int] = not_asked
) -> bytes:
    """One group; one that does not exist is Dead, which is an error since version 6 (conformance 142).

    `operations`: what the caller may do with a group, told of each beside which no error stands.
    """
    return encode_body(
        _described(response_class(ApiKey.DESCRIBE_GROUPS, version), version, group, operations)
    )


def _described(shape: Any, version: int, group: DescribedGroup, operations: Callable[[str], int]) -> Any:
    member = part(shape, "DescribedGroupMember")
    error, text = group.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        if version < ABSENCE_IS_AN_ERROR_SINCE:
            error = ErrorCode.NONE
        else:
            text = f"Group {group.group_id} not found."
    return build(
        part(shape, "DescribedGroup"),
        error_code=error,
        error_message=text,
        group_id=group.group_id,
        group_state=group.phase,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        authorized_operations=(
            operations(group.group_id) if error is ErrorCode.NONE else OPERATIONS_NOT_ASKED
        ),
        members=tuple(
            build(
                member,
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in group.members
        ),
    )


def list_answer(version: int, request: Any, groups: Iterable[ListedGroup]) -> Any:
    """The groups whose state and type are asked for; none named: all, and case does not count."""
    states = {state.lower() for state in getattr(request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(request, "types_filter", ())}
    shape = response_class(ApiKey.LIST_GROUPS, version)
    listed = part(shape, "ListedGroup")
    wanted = groups if not types or GROUP_TYPE in types else ()
    return build(
        shape,
        error_code=ErrorCode.NONE,
        groups=tuple(
            build(
                listed,
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.phase,
                group_type=GROUP_TYPE,
            )
            for group in wanted
            if not states or group.phase.lower() in states
        ),
    )
