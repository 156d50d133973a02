"""This room remembers what one client says again and again, so that only what is new in it is read.

A commit differs from the last one in its offsets, a SyncGroup in its generation, a JoinGroup in nothing. All
that is derived from the rest is kept with it: the group's shard, the partitions by their topics' ids, what
the client may, the words of the answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import structs

from coordinator.classic_commits import CommitAgain, SaidAgain, Stated
from coordinator.commits import Commit
from coordinator.core.events import Join, Sync, SyncAnswer, Waiter
from coordinator.core.offsets import Judgement
from coordinator.service import ShardService
from gateway.translation import offsets as wording
from gateway.translation.groups import MemberAnswer
from kafkaserver.cluster_answers import TopicView
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from muster.kafkawire.framing import LENGTH_BYTES, Buffer
from muster.kafkawire.heartbeats import HeartbeatRequest, around_the_correlation_id
from muster.kafkawire.offset_commits import OffsetCommitRequest, offset_commit_answer
from muster.kafkawire.patterns import Pattern
from muster.kernel.error_codes import ErrorCode

REMEMBERED_BYTES: Final = 1_024
"""Of what is longer nothing is kept: of a commit, of some fifty partitions, fifteen times as much would be.
"""

_CORRELATION_ID_AT: Final = 4
_BEHIND_CORRELATION_ID: Final = 8
"""Where it stands in a request, without its length, and in an answer with it. Before it are the key and the
version of a request, behind it who says what. No slices: compiled, bytes take none that has a name.
"""

_WHICH_REQUEST_TO: Final = 8
_SAID_FROM: Final = 12
"""The same of a request with its length: length, key and version; what is said."""

_NONE: Final = ErrorCode.NONE
"""Looked up once: each commit is compared with it."""

Refused = Callable[[Waiter, ErrorCode], MemberAnswer]
"""Makes the answer to who waits out of an error."""


class TopicsOfNow(Protocol):
    """Where topics are looked up."""

    @property
    def topics(self) -> Mapping[str, TopicView]:
        """The topics of the instant, by name; another object as soon as they are others."""


class Beat:
    """A Heartbeat: read, and let in, once."""

    __slots__ = ("_asks", "_begins", "_meaning", "_said", "_service", "_version", "request_bytes")

    def __init__(
        self, header: RequestHeader, frame: memoryview, meaning: HeartbeatRequest, service: ShardService
    ) -> None:
        self._version = header.api_version
        self._asks = bytes(frame[:_CORRELATION_ID_AT])
        self._said = bytes(frame[_BEHIND_CORRELATION_ID:])
        self._meaning = meaning
        self._service = service
        self.request_bytes = LENGTH_BYTES + len(frame)
        self._begins = len(frame).to_bytes(LENGTH_BYTES, "big") + self._asks

    def answer(self, frame: memoryview) -> bytes | None:
        """What answers the request in `frame` at once, if it is the same; None: it is to be read."""
        if frame[8:] != self._said or frame[:4] != self._asks:
            return None
        around = self._judged()
        return None if around is None else frame[4:8].tobytes().join(around)

    def answers(self, received: bytes) -> bytes | None:
        """The same for all that was received, if it is nothing but this request; it is judged once."""
        size_bytes, begins, said = self.request_bytes, self._begins, self._said
        if len(received) == size_bytes:
            if not (received.endswith(said) and received.startswith(begins)):
                return None
            around = self._judged()
            return None if around is None else received[8:12].join(around)
        places = range(0, len(received), size_bytes)
        for place in places:
            if not (received.startswith(begins, place) and received.startswith(said, place + 12)):
                return None
        around = self._judged() if places else None
        if around is None:
            return None
        return b"".join([received[place + 8 : place + 12].join(around) for place in places])

    def _judged(self) -> tuple[bytes, bytes] | None:
        """What stands around the correlation id in the answer that the member is to hear now."""
        group_id, generation, member_id, instance_id = self._meaning
        error = self._service.heartbeat(group_id, member_id, instance_id, generation)
        return None if error is None else around_the_correlation_id(self._version, error)


class JoinHabit:
    """A JoinGroup of a member that was let in; the event's seat and waiter are those of then."""

    __slots__ = ("_begins", "_event", "_group_id", "_refused", "_said", "_service", "_version")

    def __init__(
        self,
        version: int,
        received: bytes,
        group_id: str,
        event: Join,
        service: ShardService,
        refused: Refused,
    ) -> None:
        """`received` is the request with its length; `refused` makes an answer of an error."""
        self._version = version
        self._begins = received[:_WHICH_REQUEST_TO]
        self._said = received[_SAID_FROM:]
        self._group_id = group_id
        self._event = event
        self._service = service
        self._refused = refused

    def is_said_in(self, received: bytes) -> bool:
        """Whether this whole request says the same."""
        return received.endswith(self._said) and received.startswith(self._begins)

    def ask(self, received: bytes, reply: Reply) -> None:
        """Hand it in once more."""
        service, group_id = self._service, self._group_id
        seat = reply.session.seat(group_id, service)
        waiter = seat.wait(self._version, _correlation_id(received), reply, self._refused)
        event = structs.replace(self._event, connection=seat.id, waiter=waiter)
        service.request(seat, group_id, event)


class SyncHabit:
    """A SyncGroup of a follower; the event's seat, waiter and generation are those of then."""

    __slots__ = (
        "_before",
        "_begins",
        "_behind",
        "_event",
        "_generation_at",
        "_group_id",
        "_service",
        "_version",
    )

    def __init__(
        self, version: int, received: bytes, place: int, group_id: str, event: Sync, service: ShardService
    ) -> None:
        """`place` is where in `received`, the request with its length, the generation stands."""
        self._version = version
        self._begins = received[:_WHICH_REQUEST_TO]
        self._generation_at = place
        self._before = received[_SAID_FROM:place]
        self._behind = received[place + 4 :]
        self._group_id = group_id
        self._event = event
        self._service = service

    def is_said_in(self, received: bytes) -> bool:
        """Whether this whole request says the same, but for the generation."""
        return (
            received.endswith(self._behind)
            and received.startswith(self._begins)
            and received.startswith(self._before, _SAID_FROM)
        )

    def ask(self, received: bytes, reply: Reply) -> None:
        """Hand it in once more, in its generation."""
        service, group_id = self._service, self._group_id
        seat = reply.session.seat(group_id, service)
        waiter = seat.wait(self._version, _correlation_id(received), reply, SyncAnswer)
        at = self._generation_at
        generation = int.from_bytes(received[at : at + 4], "big", signed=True)
        event = structs.replace(self._event, connection=seat.id, waiter=waiter, generation=generation)
        service.request(seat, group_id, event)


def _correlation_id(received: bytes) -> int:
    return int.from_bytes(received[8:12], "big", signed=True)


@dataclass(frozen=True, slots=True)
class CommitHabit:
    """A commit that was let in whole, and what it becomes with other offsets.

    It counts while the topics are those of which it was made, and its shard is served here.
    """

    begins: bytes
    """Length, key and version of the request."""
    pattern: Pattern
    """What stands behind its correlation id."""
    header: RequestHeader
    request: OffsetCommitRequest
    topics: Mapping[str, TopicView]
    known: TopicsOfNow
    service: ShardService
    same: SaidAgain
    before: bytes
    behind: bytes
    """What stands around the correlation id in the answer that all is committed."""

    def said_in(self, received: bytes) -> "CommitSaidAgain | None":
        """What this whole request, with its length, commits for the same partitions, if it is the same again;
        None: it is to be read, and judged, anew.
        """
        if not received.startswith(self.begins):
            return None
        return self._said_again(received, _SAID_FROM, received[8:12])

    def said_in_frame(self, frame: memoryview) -> "CommitSaidAgain | None":
        """The same of a request without its length."""
        if frame[:4] != self.begins[4:]:
            return None
        return self._said_again(frame, _BEHIND_CORRELATION_ID, frame[4:8].tobytes())

    def _said_again(self, buffer: Buffer, start: int, correlation_id: bytes) -> "CommitSaidAgain | None":
        if self.known.topics is not self.topics or not self.service.serving:
            return None
        offsets = self.pattern.numbers_in(buffer, start)
        if offsets is None or min(offsets) < 0:
            return None
        return CommitSaidAgain(self, offsets, correlation_id)


class CommitSaidAgain(CommitAgain):
    """A commit that was said before with other offsets, and where it goes what becomes of it."""

    __slots__ = ("_correlation_id", "_habit", "_reply")

    def __init__(self, habit: CommitHabit, offsets: Sequence[int], correlation_id: bytes) -> None:
        # Not by the class above: a call for each of forty thousand a second.
        same = self._same = habit.same
        self.key = same.key
        self._offsets = offsets
        self.partitions = len(offsets)
        self._habit = habit
        self._correlation_id = correlation_id
        self._reply: Reply | None = None

    def ask(self, _received: bytes, reply: Reply) -> None:
        """Hand it in; it was read already."""
        self._reply = reply
        reply.park(len(self._offsets), self.nobody_waits)
        service = self._habit.service
        self.connection = reply.session.seat(self.key, service).id
        hand_in(service, self, reply)

    def nobody_waits(self) -> None:
        """The connection is gone; the commit still counts."""
        self._reply = None

    def answer(self, judgement: Judgement) -> None:
        """All of it was accepted, or nothing."""
        reply, habit = self._reply, self._habit
        if reply is None:
            return
        if judgement.error is _NONE and not judgement.refused:
            reply.send(habit.before + self._correlation_id + habit.behind)
            return
        error = wording.worded(habit.header.api_version, judgement.error)
        refused = judgement.refused
        errors = {(one.topic, one.number): refused.get(one, error) for one in habit.same.partitions}
        header = habit.header._replace(
            correlation_id=int.from_bytes(self._correlation_id, "big", signed=True)
        )
        reply.send(offset_commit_answer(header, habit.request.topics, errors))


def hand_in(service: ShardService, commit: Commit, reply: Reply) -> None:
    """Let the next batch write it, or hang up on who has too much unanswered."""
    if not service.commit(commit):
        reply.hang_up("too much is unanswered")


def commit_habit(
    header: RequestHeader,
    frame: memoryview,
    places: Sequence[int],
    request: OffsetCommitRequest,
    known: TopicsOfNow,
    service: ShardService,
    stated: Stated,
) -> CommitHabit | None:
    """What to remember of a commit that was let in whole; None if no two such commits are the same.

    `frame` is the request without its length; `places` is where behind its header the offsets stand.
    """
    named = sum(len(positions) for _, positions in request.topics)
    if not named or named != len(stated.offsets) or request.retention_ms >= 0:
        # A partition named twice, or offsets that expire so long after now.
        return None
    client_id_bytes = header.body_start - _BEHIND_CORRELATION_ID
    answer = offset_commit_answer(header, request.topics, _NONE)
    return CommitHabit(
        len(frame).to_bytes(LENGTH_BYTES, "big") + bytes(frame[:_CORRELATION_ID_AT]),
        Pattern(bytes(frame[_BEHIND_CORRELATION_ID:]), [client_id_bytes + place for place in places]),
        header,
        request,
        known.topics,
        known,
        service,
        SaidAgain(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation,
            tuple(stated.offsets),
            stated.notes,
        ),
        answer[:_CORRELATION_ID_AT],
        answer[_BEHIND_CORRELATION_ID:],
    )
