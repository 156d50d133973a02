"""This room writes the bodies of JoinGroup, SyncGroup and LeaveGroup answers by hand: a group has thousands.

kio makes an object of each, and asks each of its fields what it is. The tests compare with kio's.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from muster.kafkawire.api_table import ApiKey, is_flexible
from muster.kafkawire.fields import count, octets, text

_JOIN_THROTTLES_SINCE: Final = 2
_INSTANCES_SINCE: Final = 5
_PROTOCOL_TYPE_SINCE: Final = 7
_SKIPS_SINCE: Final = 9
_SYNC_THROTTLES_SINCE: Final = 1
_SYNC_NAMES_PROTOCOL_SINCE: Final = 5
_LEAVE_THROTTLES_SINCE: Final = 1
_MANY_LEAVE_SINCE: Final = 3

REMEMBERED: Final = 64
"""Heads of answers that are kept: one for each generation that is told, in one or two versions."""

_NO_TIME: Final = bytes(4)
_NO_TAGS: Final = b"\0"
_NO_MEMBERS, _NO_OLD_MEMBERS = count(0, True), count(0, False)
_JOIN, _SYNC, _LEAVE = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP
"""Looked up once: a member of an enum costs as much as a call."""

_ERROR = struct.Struct(">h")
_ERROR_AND_GENERATION = struct.Struct(">hi")

JoinedMember = tuple[str, str | None, bytes]
"""Member id, instance id, what it said to the strategy."""

GoneMember = tuple[str, str | None, int]
"""Member id, instance id, Kafka's number of an error."""


def join_answer_body(
    version: int,
    *,
    error: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[JoinedMember],
) -> bytes:
    """JoinGroup 0 to 9; what a version does not have is left out. Raises struct.error for too long a text."""
    flexible = is_flexible(_JOIN, version)
    tags = _NO_TAGS if flexible else b""
    head = _head_of_join(version, error, generation, protocol_type, protocol_name, leader, skip_assignment)
    if not members:
        return b"".join((head, text(member_id, flexible), _NO_MEMBERS if flexible else _NO_OLD_MEMBERS, tags))
    listed = [
        text(one, flexible)
        + (text(instance, flexible) if version >= _INSTANCES_SINCE else b"")
        + octets(metadata, flexible)
        + tags
        for one, instance, metadata in members
    ]
    return b"".join((head, text(member_id, flexible), count(len(listed), flexible), *listed, tags))


@lru_cache(REMEMBERED)
def _head_of_join(
    version: int,
    error: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
) -> bytes:
    """What is the same for all followers of a generation."""
    flexible = is_flexible(ApiKey.JOIN_GROUP, version)
    return b"".join(
        (
            _NO_TIME if version >= _JOIN_THROTTLES_SINCE else b"",
            _ERROR_AND_GENERATION.pack(error, generation),
            text(protocol_type, flexible) if version >= _PROTOCOL_TYPE_SINCE else b"",
            text(protocol_name, flexible),
            text(leader, flexible),
            (b"\1" if skip_assignment else b"\0") if version >= _SKIPS_SINCE else b"",
        )
    )


def sync_answer_body(
    version: int, *, error: int, protocol_type: str | None, protocol_name: str | None, assignment: bytes
) -> bytes:
    """SyncGroup 0 to 5."""
    flexible = is_flexible(_SYNC, version)
    given = octets(assignment, flexible)
    head = _head_of_sync(version, error, protocol_type, protocol_name)
    return head + given + _NO_TAGS if flexible else head + given


@lru_cache(REMEMBERED)
def _head_of_sync(version: int, error: int, protocol_type: str | None, protocol_name: str | None) -> bytes:
    """What is the same for all members of a generation."""
    flexible = is_flexible(ApiKey.SYNC_GROUP, version)
    named = version >= _SYNC_NAMES_PROTOCOL_SINCE
    return b"".join(
        (
            _NO_TIME if version >= _SYNC_THROTTLES_SINCE else b"",
            _ERROR.pack(error),
            text(protocol_type, flexible) + text(protocol_name, flexible) if named else b"",
        )
    )


def leave_answer_body(version: int, *, error: int, members: Sequence[GoneMember]) -> bytes:
    """LeaveGroup 0 to 5; before version 3 no member is named. Raises struct.error for too long a text."""
    flexible = is_flexible(_LEAVE, version)
    tags = _NO_TAGS if flexible else b""
    head = (_NO_TIME if version >= _LEAVE_THROTTLES_SINCE else b"") + _ERROR.pack(error)
    if version < _MANY_LEAVE_SINCE:
        return head
    listed = [
        text(one, flexible) + text(instance, flexible) + _ERROR.pack(number) + tags
        for one, instance, number in members
    ]
    return b"".join((head, count(len(listed), flexible), *listed, tags))
