"""This room answers what members of groups ask: join, sync, leave, heartbeat, commit.

Each is handed to the shard of its group, in the order of its connection; nothing here waits.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Any, Final
from uuid import uuid4

from access.grants import Operation
from coordinator.core.events import JoinAnswer, LeaveAnswer, SyncAnswer
from gateway.asking import Later, Shards, refused_group
from gateway.session import Beat, KafkaSession
from gateway.translation import groups
from kafkaserver.refusals import refuse
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, read_request
from muster.kafkawire.heartbeats import heartbeat_answer, read_heartbeat
from muster.kernel.error_codes import ErrorCode

REMEMBERED_BYTES: Final = 1_024
"""Of a heartbeat that is longer nothing is kept; ids that clients make are a tenth of it."""


class MemberHandlers:
    """Serves the members of the groups of this node."""

    def __init__(self, shards: Shards, later: Later) -> None:
        self._shards = shards
        self._later = later

    def join(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """JoinGroup; the answer may be held back until the group is complete. Raises MalformedFrame."""
        request = read_request(header, frame)
        session: KafkaSession = reply.session
        error = refused_group(session, request.group_id, Operation.CONSUME) or groups.refused_join(request)
        if error is not None:
            reply.send(refuse(header, request, error))
            return
        service = self._shards.of(request.group_id)
        seat = session.seat(request.group_id, service.shard)
        waiter = seat.wait(header, reply, partial(_refused_join, request.member_id))
        event = groups.join_event(header, request, seat.id, waiter, str(uuid4()), session.client_host)
        service.request(seat, request.group_id, event)

    def sync(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """SyncGroup; the answer may be held back until the leader's came. Raises MalformedFrame."""
        request = read_request(header, frame)
        session: KafkaSession = reply.session
        error = refused_group(session, request.group_id, Operation.CONSUME)
        error = error or groups.refused_sync(header, request)
        if error is not None:
            reply.send(refuse(header, request, error))
            return
        service = self._shards.of(request.group_id)
        seat = session.seat(request.group_id, service.shard)
        waiter = seat.wait(header, reply, SyncAnswer)
        service.request(seat, request.group_id, groups.sync_event(request, seat.id, waiter))

    def leave(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """LeaveGroup. Raises MalformedFrame."""
        request = read_request(header, frame)
        session: KafkaSession = reply.session
        error = refused_group(session, request.group_id, Operation.CONSUME)
        if error is not None:
            reply.send(refuse(header, request, error))
            return
        service = self._shards.of(request.group_id)
        seat = session.seat(request.group_id, service.shard)
        waiter = seat.wait(header, reply, LeaveAnswer)
        service.request(seat, request.group_id, groups.leave_event(header, request, seat.id, waiter))

    def heartbeat(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Heartbeat, answered at once from what the shard has in memory. Raises MalformedFrame."""
        session: KafkaSession = reply.session
        said = frame[header.body_start :]
        beat = session.beat
        if beat is None or beat.said != said or beat.version != header.api_version:
            request = read_heartbeat(header, frame)
            refused = refused_group(session, request.group_id, Operation.CONSUME)
            if refused is not None:
                reply.send(heartbeat_answer(header, refused))
                return
            beat = Beat(header.api_version, bytes(said), request, self._shards.of(request.group_id))
            session.beat = beat if len(said) <= REMEMBERED_BYTES else None
        group_id, generation, member_id, instance_id = beat.meaning
        error = beat.service.heartbeat(group_id, member_id, instance_id, generation)
        if error is None:
            later = beat.service.heartbeat_later(group_id, member_id, instance_id, generation)
            self._later.start(reply, _heartbeat_later(later, header, reply))
            return
        reply.send(heartbeat_answer(header, error))


async def _heartbeat_later(judged: Awaitable[ErrorCode], header: RequestHeader, reply: Reply) -> None:
    reply.send(heartbeat_answer(header, await judged))


def _refused_join(member_id: str, waiter: Any, error: ErrorCode) -> JoinAnswer:
    """A refused Join echoes the id (conformance 1, 149)."""
    return JoinAnswer(waiter, error, member_id)
