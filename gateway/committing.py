"""This room answers OffsetCommit: what cannot be committed at once, the rest when it is durable.

A client may hear of a new topic from a broker before the node does: what the node does not know is looked for
once more. What is known is not held up by it, so commits of one partition keep their order.
"""

from collections.abc import Iterable
from functools import partial

from access.grants import Operation
from coordinator.classic_commits import ClassicCommit, Stated
from coordinator.core.offsets import Judgement
from gateway.asking import KnownTopics, Shards, refused_group
from gateway.habits import REMEMBERED_BYTES, commit_habit, hand_in
from gateway.session import KafkaSession
from gateway.translation import offsets
from kafkaserver.callers import caller_of
from kafkaserver.refusals import refuse
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, read_request
from muster.kafkawire.offset_commits import OffsetCommitRequest, offset_commit_answer, read_offset_commit
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition

Positions = dict[Partition, offsets.CommittedOffset]


class CommitHandler:
    """Serves OffsetCommit for the groups of this node."""

    def __init__(self, shards: Shards, cluster: KnownTopics) -> None:
        self._shards = shards
        self._cluster = cluster

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """OffsetCommit. Raises MalformedFrame, FrameTooLarge."""
        session: KafkaSession = reply.session
        habit, size_bytes = session.commit, len(frame)
        again = None if habit is None else habit.said_in_frame(frame)
        if again is not None:
            again.ask(b"", reply)
            return
        # Whoever says something as long as the last time may do so again.
        places: list[int] | None = [] if size_bytes == session.commit_bytes <= REMEMBERED_BYTES else None
        session.commit_bytes = size_bytes
        request = read_offset_commit(header, frame, places)
        error = refused_group(session, request.group_id, Operation.CONSUME)
        if error is None:
            error = self._unserved(request.group_id)
        if error is not None:
            reply.send(refuse(header, read_request(header, frame), error))
            return
        positions, refused = self._positions(request, reply)
        stated = Stated.of(positions)
        if places is not None and not refused:
            service = self._shards.of(request.group_id)
            session.commit = commit_habit(header, frame, places, request, self._cluster, service, stated)
        unknown = {one for one, why in refused.items() if why is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        answer = _Answer(header, request, reply, parts=1 + bool(unknown))
        reply.park(len(positions) + len(unknown), answer.nobody_waits)
        if len(unknown) < len(refused):
            answer.tell({one: why for one, why in refused.items() if one not in unknown})
        self._commit(request, stated, answer, reply)
        if unknown:
            answer.unknown = unknown
            rest = partial(self._commit_rest, self._cluster.looks, answer, reply)
            self._cluster.look_again(rest)

    def _unserved(self, group_id: str) -> ErrorCode | None:
        """While the shard is loading a commit waits: librdkafka tells its application after two tries."""
        return None if self._shards.of(group_id).serving else ErrorCode.NOT_COORDINATOR

    def _positions(self, request: OffsetCommitRequest, reply: Reply) -> tuple[Positions, offsets.Refused]:
        return offsets.asked_positions(request, self._cluster.topics, caller_of(reply).may_read)

    def _commit_rest(self, looks: int, answer: "_Answer", reply: Reply) -> None:
        """The catalog was to be read again since what was unknown was asked for, behind so many `looks`."""
        if not reply.is_wanted:
            return
        request, unknown = answer.request, answer.unknown
        positions, refused = self._positions(request, reply)
        if refused.keys() != unknown:
            refused = {one: why for one, why in refused.items() if one in unknown}
        if refused and self._cluster.looks == looks:
            # It may be there: that it is not is told to the application, for this its client asks again.
            refused = dict.fromkeys(refused, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answer.tell(refused)
        found = {one: what for one, what in positions.items() if (one.topic, one.number) in unknown}
        error = self._unserved(request.group_id)
        if error is None:
            self._commit(request, Stated.of(found), answer, reply)
        else:
            answer.send(found, Judgement(error=error))

    def _commit(self, asked: OffsetCommitRequest, stated: Stated, answer: "_Answer", reply: Reply) -> None:
        partitions = stated.partitions
        if not partitions:
            answer.send((), Judgement())
            return
        service = self._shards.of(asked.group_id)
        session: KafkaSession = reply.session
        commit = ClassicCommit(
            key=asked.group_id,
            connection=session.seat(asked.group_id, service).id,
            member_id=asked.member_id,
            group_instance_id=asked.group_instance_id,
            generation=asked.generation,
            stated=stated,
            answer=partial(answer.send, partitions),
        )
        hand_in(service, commit, reply)


class _Answer:
    """What became of each partition, and where it goes when the last part is decided."""

    __slots__ = ("_errors", "_header", "_parts", "_reply", "request", "unknown")

    def __init__(
        self, header: RequestHeader, request: OffsetCommitRequest, reply: Reply | None, parts: int
    ) -> None:
        self._header = header
        self.request = request
        self._reply = reply
        self._parts = parts
        self._errors: dict[tuple[str, int], ErrorCode] = {}
        self.unknown: set[tuple[str, int]] = set()
        """What is looked for once more."""

    def nobody_waits(self) -> None:
        """The connection is gone. What was known of the commit still counts, and no more of it is kept:
        it may name thousands that are refused.
        """
        self._reply = None
        self.request = self.request._replace(topics=[])
        self.unknown.clear()
        self._errors.clear()

    def tell(self, refused: offsets.Refused) -> None:
        """These are refused before the group is asked."""
        self._errors.update(refused)

    def send(self, positions: Iterable[Partition], judgement: Judgement) -> None:
        """One part is decided; behind the last one tell each partition what became of it."""
        if self._reply is None:
            return
        error = offsets.worded(self._header.api_version, judgement.error)
        if self._parts == 1 and not self._errors and not judgement.refused:
            self._parts = 0
            topics = self.request.topics
            self._reply.send(offset_commit_answer(self._header, topics, error))
            return
        for one in positions:
            self._errors[one.topic, one.number] = judgement.refused.get(one, error)
        self._parts -= 1
        if not self._parts:
            self._reply.send(offset_commit_answer(self._header, self.request.topics, self._errors))
