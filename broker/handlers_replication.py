"""This room answers followers' fetches: incremental sessions (KIP-227), one per follower, to the log end.

A request names only what moved; every other position of the session counts as fetched again. So a
follower of 10,000 idle partitions costs one small frame for each wait.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from broker.core import throttling
from broker.core.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, Turns, next_number
from broker.core.nearest_replica import is_read_at
from broker.core.replica_log import EpochEnd, PartitionKey
from broker.core.throttling import Bucket, room, take
from broker.fetch_answers import RESPONSE_BYTES, Answer, look_for_damage, records_of, refused
from broker.hosted import HostedPartition
from broker.patience import Patience
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from muster.kafkawire.errors import UnsupportedRequest
from muster.kafkawire.fetch_requests import (
    AskedPartition,
    AskedTopic,
    FetchRequest,
    ForgottenTopic,
    read_fetch,
)
from muster.kafkawire.fetching import Diverging, FetchedTopic, fetch_refusal, lay_out_fetch_reply
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after

OLDEST_VERSION: Final = 15
"""From 15 on a fetch states the follower's broker epoch (KIP-903)."""

FOLLOWERS_ELEMENTS: Final = 50_000
"""A broker that begins to follow names all that it follows here in its first fetch."""

WHOLE_PASS_MS: Final = 1_000
"""How often positions that did not move count as fetched again, where that may change something."""

_NONE: Final = ErrorCode.NONE
"""To find it in its class takes as long as a call."""

Verdict = ErrorCode | EpochEnd


class Told(NamedTuple):
    """What a follower was last told of a partition besides records."""

    high_watermark: int
    start_offset: int


class Followed:
    """One partition of a session: where the follower stands, and what it was told besides records.

    It hears of the partition itself, so that nothing is looked up for a record: a topic's id is hashed and
    compared in Python, which took a third of what a follower's fetch cost.
    """

    __slots__ = ("_session", "asked", "hosted", "key", "told", "told_error", "verdict")

    def __init__(self, session: "FollowerSession", key: PartitionKey, asked: AskedPartition) -> None:
        self._session = session
        self.key = key
        self.asked = asked
        self.hosted: HostedPartition | None = None
        """The replica here that tells of its news, until this broker leads it no more as it did."""
        self.verdict: Verdict | None = None
        self.told: Told | None = None
        self.told_error: int | None = None

    def grew(self, _key: PartitionKey) -> None:
        """The log has more records than before."""
        session = self._session
        session.dirty[self] = None
        if self not in session.unsettled:
            session.stood(self)
        if session.is_parked:
            session.wake()

    def row_changed(self, _key: PartitionKey) -> None:
        """The follower may have to ask for its admission again."""
        self._session.unsettled[self] = None

    def committed(self, _key: PartitionKey) -> None:
        """The high watermark rose: worth telling with the next answer, not worth one."""
        self._session.dirty[self] = None

    def is_read_there(self, _key: PartitionKey) -> None:
        """The high watermark rose while consumers were sent to followers."""
        self._session.is_read_there(self)

    def began_later(self, _key: PartitionKey) -> None:
        """Worth an answer: an operator may wait for every replica to have deleted what he deleted."""
        self._session.dirty[self] = None
        self._session.wake()

    def lost(self, _key: PartitionKey) -> None:
        """This broker leads it no more, or in another epoch."""
        self.hosted = None
        self.verdict = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._session.dirty[self] = self._session.unsettled[self] = None
        self._session.wake()


class FollowerSession:
    """What one follower fetches from this broker, and what of it has news."""

    def __init__(self, plane: DataPlane, wake_ups: WakeUps, follower: int, session_id: int) -> None:
        self.turns = Turns(session_id)
        self._plane = plane
        self._wake_ups = wake_ups
        self._follower = follower
        self._broker_epoch = -1
        self._followed: dict[PartitionKey, Followed] = {}
        self.dirty: dict[Followed, None] = {}
        """What may have news."""
        self.unsettled: dict[Followed, None] = {}
        """Whose next fetch may change something though it does not move."""
        self._sent: dict[Followed, int] = {}
        """From where the last answer held records."""
        self._left_unstored: dict[PartitionKey, int] = {}
        """The same, of partitions that the follower then left out for a while."""
        self._read_there: set[Followed] = set()
        """Whose high watermark rose while consumers read at this follower."""
        self._fetched_at = self._judged_all_at = plane.clock()
        self._parked: tuple[RequestHeader, Reply, int, int] | None = None
        self.is_parked = False
        """A fetch waits for news."""
        self.patience = Patience(self._answer_parked)
        self._room_timer: asyncio.TimerHandle | None = None
        """Looks again when there is room for what is throttled."""
        self._is_woken = False

    # -- requests

    def fetch(self, header: RequestHeader, request: FetchRequest, reply: Reply) -> None:
        """Take over positions, judge them, answer what there is or wait for it."""
        self._answer_parked()
        self._broker_epoch = request.broker_epoch
        self._forget(request.forgotten)
        moved = self._move(request.topics)
        unstored = self._unstored(moved)
        now = self._fetched_at = self._plane.clock()
        self.patience.asked(((one.key, one.asked.leader_epoch) for one in moved), now)
        self._judge(moved, now)
        self._look_for_damage(unstored)
        if now >= after(self._judged_all_at, WHOLE_PASS_MS):
            self._judged_all_at = now
            self._judge(tuple(self.unsettled), now)
        max_bytes = min(request.max_bytes, RESPONSE_BYTES)
        if request.max_wait_ms <= 0 or not all(map(self._is_level, self.dirty)):
            answers, has_news = self._read(max_bytes, request.min_bytes)
            if has_news or request.max_wait_ms <= 0:
                self._send(header, reply, answers)
                return
            self._unread(answers)
        self._parked, self.is_parked = (header, reply, max_bytes, request.min_bytes), True
        # A session outlives its connection: by it is known until when its follower was level (`stood`).
        reply.park(1, self.close if self.turns.session_id == NO_SESSION else self._unpark)
        self.patience.begin(request.max_wait_ms)

    def _move(self, topics: Iterable[AskedTopic]) -> list[Followed]:
        moved = []
        for _, topic_id, partitions in topics:
            for asked in partitions:
                # Equal to a PartitionKey, and sooner made.
                followed = self._followed.get((topic_id, asked.partition))  # type: ignore[call-overload]
                if followed is None:
                    key = PartitionKey(topic_id, asked.partition)
                    followed = self._followed[key] = Followed(self, key, asked)
                elif followed.asked.leader_epoch != asked.leader_epoch:
                    # It has heard nothing of this epoch, not even that it is level (`epoch_untold`).
                    followed.told = None
                followed.asked = asked
                followed.told_error = None
                self.dirty[followed] = None
                moved.append(followed)
        return moved

    def _listen(self, followed: Followed) -> HostedPartition | None:
        """Let it hear of the replica here; None: there is none."""
        hosted = followed.hosted
        if hosted is None:
            hosted = followed.hosted = self._plane.hosted(*followed.key)
            if hosted is not None:
                hosted.followers.add(followed)
        return hosted

    def _unstored(self, moved: list[Followed]) -> list[Followed]:
        """Whoever did not store what it was sent stands where it stood, and is sent it again."""
        has_moved = set(moved)
        stood = [followed for followed in self._sent if followed not in has_moved]
        self.dirty.update(dict.fromkeys(stood))
        for followed in moved:
            before = self._left_unstored.pop(followed.key, None)
            if followed.asked.offset == self._sent.get(followed, before):
                stood.append(followed)
        self._sent.clear()
        return stood

    def _look_for_damage(self, unstored: list[Followed]) -> None:
        """What a follower does not store may be damaged here (replication.md section 4)."""
        for followed in unstored:
            asked, hosted = followed.asked, self._hosted(followed)
            if hosted is not None and followed.verdict is None:
                look_for_damage(hosted, asked.offset, self._plane.staying, asked.last_epoch)

    def _forget(self, topics: Iterable[ForgottenTopic]) -> None:
        for _, topic_id, partitions in topics:
            for partition in partitions:
                key = PartitionKey(topic_id, partition)
                if (followed := self._followed.pop(key, None)) is None:
                    continue
                if (offset := self._sent.pop(followed, None)) is not None:
                    self._left_unstored[key] = offset
                self._drop(followed)

    def _drop(self, followed: Followed) -> None:
        self.dirty.pop(followed, None)
        self.unsettled.pop(followed, None)
        self._read_there.discard(followed)
        if followed.hosted is not None:
            followed.hosted.followers.discard(followed)
            followed.hosted = None

    # -- judging

    def _judge(self, moved: Iterable[Followed], now: Instant) -> None:
        """Let the rules hear where the follower stands (replication.md section 4)."""
        for followed in moved:
            asked, hosted = followed.asked, followed.hosted or self._listen(followed)
            self.unsettled[followed] = None
            verdict: Verdict | None = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if hosted is not None:
                verdict = hosted.replica.follower_fetches(
                    self._follower,
                    self._broker_epoch,
                    asked.leader_epoch,
                    asked.offset,
                    asked.last_epoch,
                    now,
                    asked.start_offset,
                )
                hosted.look()
                hosted.look_at_starts()
                if hosted.replica.may_grow:
                    self._plane.on_may_grow(hosted)
            followed.verdict = verdict
            if verdict is not None:
                self.dirty[followed] = None
            elif hosted is not None and self._is_settled(hosted, asked):
                del self.unsettled[followed]

    def _is_settled(self, hosted: HostedPartition, asked: AskedPartition) -> bool:
        """True if the same fetch would change nothing, as long as neither log nor row changes."""
        return asked.offset >= hosted.log.end_offset and self._follower in hosted.replica.isr

    # -- news

    def stood(self, followed: Followed) -> None:
        """Its log grew, and the follower has not been judged since."""
        self.unsettled[followed] = None
        if followed.hosted is not None:
            followed.hosted.replica.follower_stood(self._follower, self._fetched_at)

    def is_read_there(self, followed: Followed) -> None:
        """Worth an answer if it is at this follower: its consumers see no record before it is told."""
        hosted = followed.hosted
        if hosted is not None and is_read_at(hosted.replica, self._follower, self._plane.clock()):
            self._read_there.add(followed)
            self.wake()

    def wake(self) -> None:
        """Look again whether there is something to answer, once for all that this loop turn brings."""
        if self._parked is not None and not self._is_woken:
            self._is_woken = True
            self._wake_ups.soon(self._look_again)

    def _look_again(self) -> None:
        self._is_woken = False
        if self._parked is None:
            return
        header, reply, max_bytes, min_bytes = self._parked
        answers, has_news = self._read(max_bytes, min_bytes)
        if has_news:
            self._unpark()
            self._send(header, reply, answers)
        else:
            self._unread(answers)

    # -- answers

    def _read(self, max_bytes: int, min_bytes: int) -> tuple[dict[Followed, Answer], bool]:
        """(answers for all that has news, whether they are worth an answer now)."""
        answers: dict[Followed, Answer] = {}
        left, is_urgent, wait_ms = max_bytes, False, 0
        for followed in tuple(self.dirty):
            if left <= 0:
                break
            asked, hosted = followed.asked, followed.hosted or self._hosted(followed)
            buckets = self._buckets(hosted)
            if buckets and not (may_send := room(buckets, self._plane.clock())):
                found = throttling.wait_ms(buckets, self._plane.clock())
                wait_ms = min(wait_ms or found, found)
                continue
            is_first = bool(buckets) or left == max_bytes
            most = min(left, may_send) if buckets else left
            answer = self._read_partition(followed, hosted, most, is_first)
            size_bytes = 0 if answer.records is None else len(answer.records)
            if not is_first and not size_bytes and _has_more(asked, hosted, answer):
                # Its next batch is larger than what is left: it comes first in the next answer.
                break
            del self.dirty[followed]
            take(buckets, size_bytes)
            is_refused = answer.error_code != _NONE or answer.diverging is not None
            if is_refused and followed.told_error != answer.error_code:
                is_urgent = True
            told = followed.told
            told_start = asked.start_offset if told is None else max(asked.start_offset, told.start_offset)
            if not is_refused and (told_start < answer.log_start_offset or followed in self._read_there):
                is_urgent = True
            if size_bytes or is_refused or told != (answer.high_watermark, answer.log_start_offset):
                answers[followed] = answer
                left -= size_bytes
        if wait_ms:
            self._look_again_in(wait_ms)
        return answers, is_urgent or max_bytes - left >= max(min_bytes, 1)

    def _hosted(self, followed: Followed) -> HostedPartition | None:
        """The replica here, whether or not it tells of its news."""
        return followed.hosted or self._plane.hosted(*followed.key)

    def _buckets(self, hosted: HostedPartition | None) -> tuple[Bucket, ...]:
        """What the follower has to find room in, as long as this partition is not in sync there."""
        return () if hosted is None else self._plane.throttled.sending(hosted, self._follower)

    def _look_again_in(self, wait_ms: int) -> None:
        if self._room_timer is None:
            self._room_timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._there_is_room)

    def _there_is_room(self) -> None:
        self._room_timer = None
        self.wake()

    def _is_level(self, followed: Followed) -> bool:
        """True if at most another high watermark is to be told of it, which is not worth an answer.

        So it is after nearly each fetch of a follower that keeps up: what it has just stored is committed.
        """
        asked, hosted, told = followed.asked, followed.hosted, followed.told
        return (
            hosted is not None
            and told is not None
            and followed.verdict is None
            and asked.offset == hosted.log.end_offset
            and hosted.log.start_offset <= max(asked.start_offset, told.start_offset)
            and followed not in self._read_there
        )

    def _read_partition(
        self, followed: Followed, hosted: HostedPartition | None, left: int, is_first: bool
    ) -> Answer:
        asked, verdict = followed.asked, followed.verdict
        if hosted is None:
            known = followed.key.topic_id in self._plane.view.names_by_id
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_ID
            return refused(asked.partition, error)
        if isinstance(verdict, EpochEnd):
            return refused(asked.partition, ErrorCode.NONE)._replace(
                diverging=Diverging(verdict.epoch, verdict.end_offset),
                log_start_offset=hosted.log.start_offset,
            )
        if verdict is not None and verdict is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return refused(asked.partition, verdict)
        answer = records_of(hosted, asked, hosted.log.end_offset, left, at_least_one=is_first)
        if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            look_for_damage(hosted, asked.offset, self._plane.staying)
        return answer

    def _unread(self, answers: dict[Followed, Answer]) -> None:
        """These were not sent after all."""
        for followed, answer in answers.items():
            self.dirty[followed] = None
            if answer.records is not None:
                take(self._buckets(self._hosted(followed)), -len(answer.records))

    def _send(self, header: RequestHeader, reply: Reply, answers: dict[Followed, Answer]) -> None:
        topics: dict[UUID, list[Answer]] = {}
        for followed, answer in answers.items():
            topics.setdefault(followed.key.topic_id, []).append(answer)
            if answer.error_code != _NONE or answer.diverging is not None:
                # Told until the follower moves: it may ask for nothing new, and wait for its time.
                followed.told_error = answer.error_code
                self.dirty[followed] = None
            else:
                followed.told = Told(answer.high_watermark, answer.log_start_offset)
                self._read_there.discard(followed)
                if answer.records is not None:
                    self._sent[followed] = followed.asked.offset
        laid_out = [FetchedTopic("", topic_id, partitions) for topic_id, partitions in topics.items()]
        reply.send(
            *lay_out_fetch_reply(
                header.api_version, header.correlation_id, laid_out, session_id=self.turns.session_id
            )
        )
        if self.turns.session_id == NO_SESSION:
            self.close()

    def _answer_parked(self) -> None:
        """Time is over, or the follower asks again: what there is, however little."""
        if self._parked is None:
            return
        header, reply, max_bytes, min_bytes = self._parked
        self._unpark()
        answers, _ = self._read(max_bytes, min_bytes)
        self._send(header, reply, answers)

    def _unpark(self) -> None:
        self._parked, self.is_parked = None, False
        self.patience.end()

    def close(self) -> None:
        """The follower has begun another session, or has none: a connection that waits yet hears so."""
        if self._parked is not None and self._parked[1].is_wanted:
            self._parked[1].send(fetch_refusal(self._parked[0], ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        self._unpark()
        if self._room_timer is not None:
            self._room_timer.cancel()
            self._room_timer = None
        while self._followed:
            self._drop(self._followed.popitem()[1])


def _has_more(asked: AskedPartition, hosted: HostedPartition | None, answer: Answer) -> bool:
    """True if an answer without records leaves out some that the follower lacks."""
    is_refused = answer.error_code != _NONE or answer.diverging is not None
    return hosted is not None and not is_refused and asked.offset < hosted.log.end_offset


class ReplicaFetchHandler:
    """Serves followers' fetches; at most one session for each follower, so a stranger cannot grow it."""

    def __init__(self, plane: DataPlane, wake_ups: WakeUps) -> None:
        self._plane = plane
        self._wake_ups = wake_ups
        self._sessions: dict[int, FollowerSession] = {}
        self._last_session_id = NO_SESSION
        plane.on_leading = self._await_followers

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Answer or park. Raises MalformedFrame, UnsupportedRequest for a fetch without a broker epoch."""
        if header.api_version < OLDEST_VERSION:
            raise UnsupportedRequest(f"a replica fetch of version {header.api_version}")
        request = read_fetch(header, frame, FOLLOWERS_ELEMENTS)
        refusal = self._refusal(request, reply)
        if refusal is not ErrorCode.NONE:
            reply.send(fetch_refusal(header, refusal))
        elif request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            self._begin(request.replica_id, request.session_epoch).fetch(header, request, reply)
        else:
            self._sessions[request.replica_id].fetch(header, request, reply)

    def _await_followers(self, hosted: HostedPartition) -> None:
        row, now = hosted.replica.row, self._plane.clock()
        for follower in row.assigned if row is not None else ():
            if follower in self._sessions and follower in self._plane.live:
                self._sessions[follower].patience.expect(hosted.key, hosted.replica.leader_epoch, now)

    def _refusal(self, request: FetchRequest, reply: Reply) -> ErrorCode:
        """Why the whole fetch is refused; its turn is taken if it is not."""
        follower = request.replica_id
        if follower != reply.identity or follower not in self._plane.broker_epochs:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if request.broker_epoch != self._plane.broker_epochs[follower]:
            # An earlier incarnation, or one that this broker has not been told of yet.
            return ErrorCode.STALE_BROKER_EPOCH
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            return ErrorCode.NONE
        session = self._sessions.get(follower)
        if session is None or session.turns.session_id != request.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return session.turns.take(request.session_epoch)

    def _begin(self, follower: int, session_epoch: int) -> FollowerSession:
        """A new session in the place of the follower's old one; the final epoch leaves none behind."""
        old = self._sessions.pop(follower, None)
        if old is not None:
            old.close()
        if session_epoch == FINAL_EPOCH:
            return FollowerSession(self._plane, self._wake_ups, follower, NO_SESSION)
        self._last_session_id = next_number(self._last_session_id)
        session = FollowerSession(self._plane, self._wake_ups, follower, self._last_session_id)
        self._sessions[follower] = session
        return session
