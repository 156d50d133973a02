"""This room answers what members of groups ask: join, sync, leave, heartbeat, commit.

Each is handed to the shard of its group, in the order of its connection; nothing here waits.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Any
from uuid import uuid4

from access.grants import Operation
from coordinator.core.events import JoinAnswer, LeaveAnswer, Sync, SyncAnswer
from coordinator.service import ShardService
from gateway.asking import Shards, refused_group
from gateway.habits import REMEMBERED_BYTES, Beat, JoinHabit, SyncHabit
from gateway.session import KafkaSession
from gateway.translation import groups
from kafkaserver.later import Later
from kafkaserver.refusals import refuse
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import ApiKey, RequestHeader, is_flexible, read_request
from muster.kafkawire.cursor import Cursor
from muster.kafkawire.framing import LENGTH_BYTES
from muster.kafkawire.heartbeats import heartbeat_answer, read_heartbeat
from muster.kernel.error_codes import ErrorCode


class MemberHandlers:
    """Serves the members of the groups of this node."""

    def __init__(self, shards: Shards, later: Later) -> None:
        self._shards = shards
        self._later = later

    def join(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """JoinGroup; the answer may be held back until the group is complete. Raises MalformedFrame."""
        session: KafkaSession = reply.session
        received = _received(frame)
        if _is_asked_again(session, received, reply):
            return
        request = read_request(header, frame)
        error = refused_group(session, request.group_id, Operation.CONSUME) or groups.refused_join(request)
        if error is not None:
            reply.send(refuse(header, request, error))
            return
        service = self._shards.of(request.group_id)
        seat = session.seat(request.group_id, service)
        refused = partial(_refused_join, request.member_id)
        version = header.api_version
        waiter = seat.wait(version, header.correlation_id, reply, refused)
        event = groups.join_event(header, request, seat.id, waiter, str(uuid4()), session.client_host)
        if request.member_id and received:
            # Who states no id is given another one each time.
            session.join = JoinHabit(version, received, request.group_id, event, service, refused)
        service.request(seat, request.group_id, event)

    def sync(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """SyncGroup; the answer may be held back until the leader's came. Raises MalformedFrame."""
        session: KafkaSession = reply.session
        received = _received(frame)
        if _is_asked_again(session, received, reply):
            return
        request = read_request(header, frame)
        error = refused_group(session, request.group_id, Operation.CONSUME)
        error = error or groups.refused_sync(header, request)
        if error is not None:
            reply.send(refuse(header, request, error))
            return
        if session.was_told_less and request.assignments:
            # It may have left partitions out that it never looks for again: it joins, and asks, once more.
            reply.send(refuse(header, request, ErrorCode.REBALANCE_IN_PROGRESS))
            return
        service = self._shards.of(request.group_id)
        seat = session.seat(request.group_id, service)
        waiter = seat.wait(header.api_version, header.correlation_id, reply, SyncAnswer)
        event = groups.sync_event(request, seat.id, waiter)
        if not event.assignments and received:
            session.sync = _sync_habit(header, received, request.group_id, event, service)
        service.request(seat, request.group_id, event)

    def leave(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """LeaveGroup. Raises MalformedFrame."""
        request = read_request(header, frame)
        session: KafkaSession = reply.session
        error = refused_group(session, request.group_id, Operation.CONSUME)
        if error is not None:
            reply.send(refuse(header, request, error))
            return
        service = self._shards.of(request.group_id)
        seat = session.seat(request.group_id, service)
        waiter = seat.wait(header.api_version, header.correlation_id, reply, LeaveAnswer)
        service.request(seat, request.group_id, groups.leave_event(header, request, seat.id, waiter))

    def heartbeat(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Heartbeat, answered at once from what the shard has in memory. Raises MalformedFrame."""
        session: KafkaSession = reply.session
        request = read_heartbeat(header, frame)
        group_id, generation, member_id, instance_id = request
        error = refused_group(session, group_id, Operation.CONSUME)
        if error is None:
            service = self._shards.of(group_id)
            session.known = Beat(header, frame, request, service) if len(frame) <= REMEMBERED_BYTES else None
            error = service.heartbeat(group_id, member_id, instance_id, generation)
            if error is None:
                later = service.heartbeat_later(group_id, member_id, instance_id, generation)
                self._later.start(reply, _heartbeat_later(later, header, reply))
                return
        reply.send(heartbeat_answer(header.api_version, header.correlation_id, error))


async def _heartbeat_later(judged: Awaitable[ErrorCode], header: RequestHeader, reply: Reply) -> None:
    reply.send(heartbeat_answer(header.api_version, header.correlation_id, await judged))


def _sync_habit(
    header: RequestHeader, received: bytes, group_id: str, event: Sync, service: ShardService
) -> SyncHabit:
    # The generation is the request's second field.
    flexible = is_flexible(ApiKey.SYNC_GROUP, header.api_version)
    cursor = Cursor(memoryview(received), LENGTH_BYTES + header.body_start, flexible, 0)
    cursor.text()
    return SyncHabit(header.api_version, received, cursor.position, group_id, event, service)


def _received(frame: memoryview) -> bytes:
    """The frame with its length, as it came; empty if it is longer than what is remembered."""
    return len(frame).to_bytes(LENGTH_BYTES, "big") + frame if len(frame) <= REMEMBERED_BYTES else b""


def _is_asked_again(session: KafkaSession, received: bytes, reply: Reply) -> bool:
    """True if this was said before, and has been handed in once more."""
    habit = session.repeated(received) if received else None
    if habit is not None:
        habit.ask(received, reply)
    return habit is not None


def _refused_join(member_id: str, waiter: Any, error: ErrorCode) -> JoinAnswer:
    """A refused Join echoes the id (conformance 1, 149)."""
    return JoinAnswer(waiter, error, member_id)
