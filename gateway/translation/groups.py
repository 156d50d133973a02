"""This room turns Kafka's requests of group members into events, and answers into what each version says.

Pure: kio's classes on one side, `coordinator.core.events` on the other. An event says the meaning; which
version writes null and which "" is decided here and nowhere else.
"""

from datetime import timedelta
from typing import Any, Final

from coordinator.core.events import (
    ConnectionId,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Sync,
    SyncAnswer,
    Waiter,
)
from muster.kafkawire.api_table import ApiKey, RequestHeader, frame_reply
from muster.kafkawire.member_answers import join_answer_body, leave_answer_body, sync_answer_body
from muster.kernel.error_codes import ErrorCode

MemberAnswer = JoinAnswer | SyncAnswer | LeaveAnswer

MUST_KNOW_ID_SINCE: Final = 4
NULL_PROTOCOL_SINCE: Final = 7
ANSWERS_SKIP_SINCE: Final = 9
SYNC_STATES_PROTOCOL_SINCE: Final = 5
MANY_LEAVE_SINCE: Final = 3

REASON_LENGTH: Final = 255
"""Kafka's clients send no longer ones; what is longer is cut, not refused."""

INSTANCE_LENGTH = 249
"""Kafka's bound. Ids are made of it, which must fit into the strings of old versions, and are indexed.

Not Final: a test widens it, and what is compiled would not notice.
"""

PROTOCOL_NAME_LENGTH: Final = 255

SAID_BYTES: Final = 1024 * 1024
"""What one member may say to its strategies in all. It is stored, journaled, and held in memory by owners;
the subscription of a consumer that owns ten thousand partitions has fifty thousand bytes.
"""

_MILLISECOND: Final = timedelta(milliseconds=1)

_JOIN, _SYNC, _LEAVE = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP
"""Looked up once: a member of an enum costs as much as a call, and each answer to thousands passes here."""


def storable(text: str) -> bool:
    """False for a text that PostgreSQL cannot hold; it would fail the turns of everybody in the group."""
    return "\0" not in text


def _clean(text: str | None, length: int = REASON_LENGTH) -> str:
    """A text that only people read."""
    return (text or "").replace("\0", "")[:length]


# -- JoinGroup


def refused_join(request: Any) -> ErrorCode | None:
    """What no group can take, whatever its state."""
    instance_id = getattr(request, "group_instance_id", None) or ""
    if len(instance_id) > INSTANCE_LENGTH or not storable(instance_id) or not storable(request.member_id):
        return ErrorCode.INVALID_REQUEST
    name = request.protocol_type
    if len(name) > PROTOCOL_NAME_LENGTH or not storable(name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    said = len(name)
    for protocol in request.protocols:
        name = protocol.name
        if len(name) > PROTOCOL_NAME_LENGTH or not storable(name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        said += len(name) + len(protocol.metadata)
    return ErrorCode.INVALID_REQUEST if said > SAID_BYTES else None


def join_event(
    header: RequestHeader,
    request: Any,
    connection: ConnectionId,
    waiter: Waiter,
    random_part: str,
    client_host: str,
) -> Join:
    """What a JoinGroup means. Version 0 has no rebalance timeout: the session's is both (conformance 33).

    `random_part` makes the id of a new member unique: it follows the client's id or the instance's
    (conformance 37, 78).
    """
    session_timeout_ms = request.session_timeout // _MILLISECOND
    instance_id = getattr(request, "group_instance_id", None)
    client_id = _clean(header.client_id)
    rebalance_timeout = getattr(request, "rebalance_timeout", None)
    return Join(
        connection=connection,
        waiter=waiter,
        fresh_member_id=f"{client_id if instance_id is None else instance_id}-{random_part}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout is None else rebalance_timeout // _MILLISECOND
        ),
        member_id=request.member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        must_know_id=header.api_version >= MUST_KNOW_ID_SINCE,
        answers_skip=header.api_version >= ANSWERS_SKIP_SINCE,
        reason=_clean(getattr(request, "reason", None)),
    )


def join_answer(version: int, answer: JoinAnswer) -> bytes:
    """The body; before version 7 no protocol is "", since then null (conformance 32)."""
    name = answer.protocol_name
    return join_answer_body(
        version,
        error=answer.error,
        generation=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=(name or "") if version < NULL_PROTOCOL_SINCE else name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=answer.members,
    )


# -- SyncGroup


def refused_sync(header: RequestHeader, request: Any) -> ErrorCode | None:
    """Since version 5 a Sync says which protocol it is about (conformance 53)."""
    stated = header.api_version >= SYNC_STATES_PROTOCOL_SINCE
    if stated and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def sync_event(request: Any, connection: ConnectionId, waiter: Waiter) -> Sync:
    """What a SyncGroup means; of a member that is named twice the last assignment counts."""
    return Sync(
        connection=connection,
        waiter=waiter,
        member_id=request.member_id,
        generation=request.generation_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        protocol_type=getattr(request, "protocol_type", None),
        protocol_name=getattr(request, "protocol_name", None),
        assignments={given.member_id: given.assignment for given in request.assignments},
    )


def sync_answer(version: int, answer: SyncAnswer) -> bytes:
    """The body, with the member's assignment; versions before 5 do not name the protocol."""
    return sync_answer_body(
        version,
        error=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


# -- LeaveGroup


def leave_event(header: RequestHeader, request: Any, connection: ConnectionId, waiter: Waiter) -> Leave:
    """Who leaves: one member before version 3, several since."""
    members: tuple[Leaver, ...]
    if header.api_version < MANY_LEAVE_SINCE:
        members = (Leaver(request.member_id),)
    else:
        members = tuple(
            Leaver(one.member_id, one.group_instance_id, _clean(getattr(one, "reason", None)))
            for one in request.members
        )
    return Leave(connection=connection, waiter=waiter, members=members)


def leave_answer(version: int, answer: LeaveAnswer) -> bytes:
    """The body; before version 3 the error of the one member stands at the top (conformance 69, 71)."""
    error = answer.error
    if version < MANY_LEAVE_SINCE and answer.members:
        error = answer.error or answer.members[0].error
    return leave_answer_body(version, error=error, members=answer.members)


# -- all three


def answer_frame(version: int, correlation_id: int, answer: MemberAnswer) -> bytes:
    """The whole frame that says this in this version."""
    # By type: to find out that a Struct is not one of another class takes as long as to make it.
    if type(answer) is SyncAnswer:
        return frame_reply(_SYNC, version, correlation_id, sync_answer(version, answer))
    if type(answer) is JoinAnswer:
        return frame_reply(_JOIN, version, correlation_id, join_answer(version, answer))
    assert isinstance(answer, LeaveAnswer)
    return frame_reply(_LEAVE, version, correlation_id, leave_answer(version, answer))
