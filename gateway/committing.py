"""This room answers OffsetCommit: what cannot be committed at once, the rest when it is durable."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from access.grants import Operation
from coordinator.classic_commits import ClassicCommit, Committed
from coordinator.core.offsets import Judgement
from gateway.asking import KnownTopics, Shards, refused_group
from gateway.session import KafkaSession
from gateway.translation import offsets
from kafkaserver.callers import caller_of
from kafkaserver.refusals import refuse
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, encode_reply, read_request
from muster.kernel.error_codes import ErrorCode


class CommitHandler:
    """Serves OffsetCommit for the groups of this node."""

    def __init__(self, shards: Shards, cluster: KnownTopics) -> None:
        self._shards = shards
        self._cluster = cluster

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """OffsetCommit. Raises MalformedFrame, FrameTooLarge."""
        request = read_request(header, frame)
        session: KafkaSession = reply.session
        asked = offsets.asked_commit(request)
        error = refused_group(session, asked.group_id, Operation.CONSUME)
        service = self._shards.of(asked.group_id)
        if error is None and not service.accepting:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if service.serving else ErrorCode.NOT_COORDINATOR
        if error is not None:
            reply.send(refuse(header, request, error))
            return
        positions, refused = offsets.asked_positions(request, self._cluster.topics, caller_of(reply).may_read)
        answer = _Answer(header, request, reply, refused)
        if not positions:
            answer.send(Judgement())
            return
        seat = session.seat(asked.group_id, service.shard)
        reply.park(len(positions), answer.nobody_waits)
        commit = ClassicCommit(
            key=asked.group_id,
            connection=seat.id,
            member_id=asked.member_id,
            group_instance_id=asked.group_instance_id,
            generation=asked.generation,
            positions={partition: Committed(*one) for partition, one in positions.items()},
            answer=answer.send,
        )
        if not service.commit(commit):
            reply.hang_up("too much is unanswered")


class _Answer:
    """Where the answer goes, and what was refused before the group was asked."""

    __slots__ = ("_header", "_refused", "_reply", "_request")

    def __init__(
        self, header: RequestHeader, request: Any, reply: Reply | None, refused: offsets.Refused
    ) -> None:
        self._header = header
        self._request = request
        self._reply = reply
        self._refused = refused

    def nobody_waits(self) -> None:
        """The connection is gone; the commit still counts."""
        self._reply = None

    def send(self, judgement: Judgement) -> None:
        """Tell each partition what became of it."""
        if self._reply is None:
            return
        version = self._header.api_version
        error = offsets.worded(version, judgement.error)
        errors = {(one.topic, one.number): code for one, code in judgement.refused.items()}
        told = {**errors, **self._refused}
        body = offsets.commit_answer(version, self._request, partial(_error_of, told, error))
        self._reply.send(encode_reply(self._header.api_key, version, self._header.correlation_id, body))


def _error_of(
    errors: Mapping[tuple[str, int], ErrorCode], otherwise: ErrorCode, topic: str, number: int
) -> ErrorCode:
    return errors.get((topic, number), otherwise)
