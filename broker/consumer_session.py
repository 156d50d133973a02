"""This room is what one consumer fetches here, and what of it has news: for one fetch or for many (KIP-227).

A consumer that is remembered names only what moved. Its partitions are watched, not looked at: a fetch costs
what changed since the one before.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from uuid import UUID

from broker.core.fetch_sessions import NO_SESSION, Turns
from broker.core.nearest_replica import refusal_at_follower
from broker.core.replica_log import PartitionKey
from broker.fetch_answers import RESPONSE_BYTES, Answer, look_for_damage, records_of, refused
from broker.hosted import HostedPartition
from broker.log.outcomes import StoredRecords
from broker.nearest import NOBODY, NearestReplicas
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
from kafkaserver.callers import caller_of
from kafkaserver.quotas import ClientQuotas
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from muster.kafkawire.batches import ZSTD
from muster.kafkawire.fetch_requests import (
    UNKNOWN,
    ZSTD_SINCE,
    AskedPartition,
    AskedTopic,
    FetchRequest,
    ForgottenTopic,
)
from muster.kafkawire.fetching import Diverging, FetchedTopic, lay_out_fetch_reply
from muster.kernel.error_codes import ErrorCode

LONGEST_WAIT_MS: Final = 60_000
"""No fetch is parked for longer, whatever was asked: an empty answer is a right one."""

BUSY_MS: Final = 500
"""So long a client is asked to keep away when too many partitions are waited for already (KIP-219)."""

TopicKey = UUID | str
"""By its id from version 13 on, by its name before."""

Refusal = int | Diverging
"""Kafka's number of an error, or where the reader's history parts from this one."""


class _Topic:
    """One topic of a session, named as it was asked."""

    __slots__ = ("key", "may_read", "name", "places", "topic_id")

    def __init__(self, name: str, topic_id: UUID, key: TopicKey) -> None:
        self.name = name
        self.topic_id = topic_id
        self.key = key
        self.may_read: bool | None = None
        """Whether its reader may; None: not found out yet. Nobody's rights change on one connection."""
        self.places: dict[int, _Place] = {}


class _Place:
    """One partition of a session: where its reader stands, and what that was told of it last."""

    __slots__ = (
        "asked",
        "at_follower",
        "hosted",
        "session",
        "told_high_watermark",
        "told_refusal",
        "told_start",
        "topic",
    )

    def __init__(self, session: "ConsumerSession", topic: _Topic, asked: AskedPartition) -> None:
        self.session = session
        self.topic = topic
        self.asked = asked
        self.hosted: HostedPartition | None = None
        """Where it is watched."""
        self.at_follower = False
        """It was read last from a replica that follows."""
        self.told_high_watermark = self.told_start = UNKNOWN
        self.told_refusal: Refusal = ErrorCode.NONE

    def grew(self, _key: PartitionKey) -> None:
        """More can be read: looked at once a loop turn, however many grew in it."""
        session = self.session
        session.dirty[self] = None
        if session.waits:
            session.wake()

    def lost(self, key: PartitionKey) -> None:
        """This broker leads it no more, or in another epoch."""
        self.leave()
        self.at_follower = False
        self.grew(key)

    def began_later(self, key: PartitionKey) -> None:
        """Its reader may stand on what is deleted."""
        self.grew(key)

    def leave(self) -> None:
        """Watch it no longer."""
        if self.hosted is not None:
            self.hosted.readers.discard(self)
            self.hosted = None


class ConsumerSession:
    """What one consumer fetches; one fetch at a time is under way.

    While that is parked it holds no region of a file; what has grown is read again, and nothing else.
    """

    __slots__ = (
        "_answers",
        "_caller",
        "_has_news",
        "_header",
        "_is_woken",
        "_left_bytes",
        "_max_bytes",
        "_min_bytes",
        "_nearby",
        "_nearest",
        "_on_close",
        "_plane",
        "_quotas",
        "_rack",
        "_read_bytes",
        "_refused",
        "_reply",
        "_sent",
        "_timer",
        "_topics",
        "_wake_ups",
        "by_id",
        "dirty",
        "size",
        "turns",
        "waits",
    )

    def __init__(
        self,
        plane: DataPlane,
        nearest: NearestReplicas,
        quotas: ClientQuotas,
        wake_ups: WakeUps,
        on_close: Callable[["ConsumerSession"], None],
        *,
        by_id: bool,
    ) -> None:
        self._on_close = on_close
        self._plane = plane
        self._nearest = nearest
        self._nearby = NOBODY
        """The brokers to which its consumer may be sent."""
        self._rack = ""
        self._quotas = quotas
        self._wake_ups = wake_ups
        self.by_id = by_id
        self.turns = Turns(NO_SESSION)
        """Those of a session that is kept; id 0: it ends with its answer."""
        self.size = 0
        """Partitions that it names."""
        self.dirty: dict[_Place, None] = {}
        """What may have more to tell than was told."""
        self.waits = False
        self._topics: dict[TopicKey, _Topic] = {}
        self._answers: dict[_Place, Answer] = {}
        """What the next answer says of each partition that it names."""
        self._sent: list[_Place] = []
        """Whose records the last answer held."""
        self._refused: dict[_Place, None] = {}
        """Told an error: it is tried again with each fetch."""
        self._timer: asyncio.TimerHandle | None = None
        self._has_news = self._is_woken = False
        self._left_bytes = self._read_bytes = 0

    @property
    def is_kept(self) -> bool:
        """Its consumer may ask again, and name only what moved."""
        return self.turns.session_id != NO_SESSION

    # -- requests

    def move(self, asked_topics: Iterable[AskedTopic]) -> None:
        """These partitions are fetched, from there on; one that is named twice, from where it was last."""
        topics, dirty = self._topics, self.dirty
        for asked_topic in asked_topics:
            name, topic_id, partitions = asked_topic
            key = topic_id if self.by_id else name
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = _Topic(name, topic_id, key)
            places = topic.places
            for asked in partitions:
                place = places.get(asked.partition)
                if place is None:
                    place = places[asked.partition] = _Place(self, topic, asked)
                    self.size += 1
                else:
                    place.asked = asked
                    place.told_refusal = ErrorCode.NONE
                dirty[place] = None

    def forget(self, topics: Iterable[ForgottenTopic]) -> None:
        """These are fetched no longer."""
        for gone in topics:
            key = gone.topic_id if self.by_id else gone.name
            topic = self._topics.get(key)
            if topic is None:
                continue
            for partition in gone.partitions:
                place = topic.places.pop(partition, None)
                if place is not None:
                    self.size -= 1
                    place.leave()
                    self.dirty.pop(place, None)
                    self._refused.pop(place, None)
            if not topic.places:
                del self._topics[key]

    def fetch(self, header: RequestHeader, request: FetchRequest, reply: Reply) -> None:
        """Answer with what there is if that is enough, or as soon as it is."""
        self._header = header
        self._reply = reply
        self._caller = caller_of(reply)
        self._rack = request.rack_id
        self._max_bytes = min(request.max_bytes, RESPONSE_BYTES)
        self._min_bytes = min(request.min_bytes, max(self._max_bytes, 1))
        if self._refused:
            self.dirty.update(self._refused)
        if self._sent:
            # Who did not say that it moved stands where it stood.
            self.dirty.update(dict.fromkeys(place for place in self._sent if self._still_names(place)))
            self._sent = []
        wait_ms = self._heed_quota()
        if wait_ms:
            if self.turns.is_first:
                # Nothing is answered, so nothing can be remembered of it.
                self.close()
            self._reply.throttle(wait_ms)
            self._answer(throttle_ms=wait_ms)
            return
        self._read()
        if self._is_satisfied or request.max_wait_ms <= 0 or not self.size:
            self._answer()
            return
        elements = 1 if self.is_kept else self.size
        if not reply.may_park(elements):
            self._answer(throttle_ms=BUSY_MS)
            return
        reply.park(elements, self.close)
        self._park(min(request.max_wait_ms, LONGEST_WAIT_MS))

    def refuse(self, header: RequestHeader, reply: Reply, error_code: ErrorCode) -> None:
        """Answer every partition with the same refusal."""
        self._header, self._reply = header, reply
        for place in self._places():
            place.told_refusal = error_code
            self._answers[place] = refused(place.asked.partition, error_code)
        self._answer()

    def _places(self) -> Iterator[_Place]:
        return (place for topic in self._topics.values() for place in topic.places.values())

    def _still_names(self, place: _Place) -> bool:
        return place.topic.places.get(place.asked.partition) is place

    def _heed_quota(self) -> int:
        """No answer holds more than a second of this client's quota; how long it has to wait before any."""
        if not self._quotas.bounds_fetches:
            return 0
        room = self._quotas.room_to_fetch(self._caller.principal, self._header.client_id, self._plane.clock())
        if room is None:
            return 0
        wait_ms, most_bytes = room
        self._max_bytes = min(self._max_bytes, most_bytes)
        if self._min_bytes > self._max_bytes:
            # It can never have so much at once: whatever there is has to do.
            self._min_bytes = 1
        return wait_ms

    # -- reading

    @property
    def _is_satisfied(self) -> bool:
        return self._has_news or self._read_bytes >= self._min_bytes

    def _read(self) -> None:
        """What may have news is read at this moment; all others have nothing that is new."""
        self._left_bytes, self._read_bytes, self._has_news = self._max_bytes, 0, False
        unread, self.dirty = self.dirty, {}
        answers, is_kept = self._answers, self.is_kept
        # A consumer may say of which rack it is in one fetch, and of none in the next.
        self._nearby = self._nearest.brokers_on(self._rack)
        for place in unread:
            if not self._left_bytes and is_kept and place.told_start != UNKNOWN:
                self.dirty[place] = None
                continue
            answer = answers[place] = self._read_place(place)
            _, error, high_watermark, _, records, diverging, preferred = answer
            before, refusal = place.told_refusal, diverging or error
            place.told_refusal = refusal
            if records is not None:
                size_bytes = len(records)
                self._read_bytes += size_bytes
                self._left_bytes = max(self._left_bytes - size_bytes, 0)
            elif refusal:
                self._refused[place] = None
                self._has_news |= refusal != before
            elif preferred >= 0:
                # Told again as long as its reader comes here.
                self._has_news = True
                self.dirty[place] = None
            elif place.asked.offset < high_watermark:
                # There was no room left for its records.
                self.dirty[place] = None

    def _read_place(self, place: _Place) -> Answer:
        """Checks in the order of conformance 216, 228, 229, 226, behind whether it may be read at all."""
        asked = place.asked
        hosted = place.hosted or self._find(place)
        if isinstance(hosted, ErrorCode):
            return refused(asked.partition, hosted)
        if self._header.api_version < ZSTD_SINCE and hosted.log.settings.codec == ZSTD:
            return refused(asked.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        refusal = hosted.replica.refusal(asked.leader_epoch)
        if refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._rack:
            place.at_follower = True
            refusal = refusal_at_follower(hosted.replica, asked.offset)
        if refusal is not ErrorCode.NONE:
            return refused(asked.partition, refusal)
        # What a follower holds above its high watermark may part from everybody else's: it says nothing.
        can_tell = asked.last_epoch >= 0 and not (place.at_follower and asked.offset > hosted.high_watermark)
        if can_tell and (parts := hosted.replica.divergence(asked.offset, asked.last_epoch)):
            told = Diverging(parts.epoch, parts.end_offset)
            return refused(asked.partition, ErrorCode.NONE)._replace(diverging=told)
        if self._nearby and not place.at_follower:
            away = self._nearest.answer_for(hosted, asked, self._nearby)
            if away is not None:
                return away
        # The first partition that has any gives a batch even if it is too large.
        is_first = self._read_bytes == 0
        end = hosted.replica.readable_end
        answer = records_of(hosted, asked, end, self._left_bytes, at_least_one=is_first, is_for_consumer=True)
        if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            look_for_damage(hosted, asked.offset, self._plane.staying)
        return answer

    def _find(self, place: _Place) -> HostedPartition | ErrorCode:
        """The partition, watched if its reader may wait for it; else why not."""
        topic = place.topic
        found = self._plane.found(topic.key, place.asked.partition)
        if topic.may_read is None:
            topic.may_read = self._may_read(topic, found)
        if topic.may_read is False:
            # Any other error would tell whether there is such a partition, and who leads it.
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if isinstance(found, ErrorCode):
            return found
        if self.by_id:
            # The same id, and the same object: a look-up then compares nothing.
            topic.key = found.key.topic_id
        if self.waits or self.is_kept:
            self._watch(place, found)
        return found

    def _may_read(self, topic: _Topic, found: HostedPartition | ErrorCode) -> bool | None:
        """Whether its reader may; None: nobody here knows whose id it is."""
        if isinstance(found, HostedPartition):
            return self._caller.may_read(found.topic)
        name = self._plane.name_of(topic.topic_id) if self.by_id else topic.name
        return None if name is None else self._caller.may_read(name)

    # -- waiting

    def _watch(self, place: _Place, hosted: HostedPartition) -> None:
        """It is looked at again when it has news, whatever it answers now."""
        place.hosted = hosted
        hosted.readers.add(place)

    def _park(self, wait_ms: int) -> None:
        self.waits = True
        self._keep_no_region()
        if not self.is_kept:
            for place in self._places():
                self._find(place)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._time_is_over)

    def _keep_no_region(self) -> None:
        """A region keeps its file open: what was read is read again when the answer leaves."""
        for place, answer in self._answers.items():
            if answer.records is not None:
                self._answers[place] = answer._replace(records=None)
                self.dirty[place] = None

    def wake(self) -> None:
        """There is news: look at it after everything else of this loop turn."""
        if not self._is_woken:
            self._is_woken = True
            self._wake_ups.soon(self._look_again)

    def _look_again(self) -> None:
        self._is_woken = False
        if not self.waits:
            return
        self._read()
        if self._is_satisfied:
            self._answer()
        else:
            self._keep_no_region()

    def _time_is_over(self) -> None:
        """What there is, however little."""
        if self.waits:
            self._read()
            self._answer()

    # -- answers

    def _answer(self, throttle_ms: int = 0) -> None:
        was_parked = self.waits
        self._unpark()
        if self._read_bytes and not throttle_ms and self._quotas.bounds_fetches:
            throttle_ms = self._quotas.fetched(
                self._caller.principal, self._header.client_id, self._read_bytes, self._plane.clock()
            )
            self._reply.throttle(throttle_ms)
        header = self._header
        topics = list(self._worded())
        if (not self.is_kept and was_parked) or (not self.size and self.is_kept):
            self.close()
        reply = self._reply
        del self._reply  # It holds regions of files.
        session_id, leader_of = self.turns.session_id, self._plane.leader_of
        version, correlation_id = header.api_version, header.correlation_id
        laid_out = lay_out_fetch_reply(version, correlation_id, topics, 0, session_id, throttle_ms, leader_of)
        reply.send(*laid_out)

    def _worded(self) -> Iterator[FetchedTopic[StoredRecords]]:
        """What the answers say that was not told yet; errors are told again."""
        by_topic: dict[_Topic, list[Answer]] = {}
        answers, self._answers = self._answers, {}
        is_kept = self.is_kept
        for place, answer in answers.items():
            if is_kept and not self._remember(place, answer):
                continue
            if place.at_follower and answer.records is not None:
                self._nearest.bytes_read += len(answer.records)
            by_topic.setdefault(place.topic, []).append(answer)
        return (FetchedTopic(topic.name, topic.topic_id, answers) for topic, answers in by_topic.items())

    def _remember(self, place: _Place, answer: Answer) -> bool:
        """What the reader of `place` is told with the next answer; False: it knows that already."""
        if place.told_refusal:
            place.told_high_watermark = place.told_start = UNKNOWN
            return True
        self._refused.pop(place, None)
        is_known = (
            place.told_high_watermark == answer.high_watermark and place.told_start == answer.log_start_offset
        )
        if answer.records is not None:
            self._sent.append(place)
        elif is_known and answer.preferred < 0:
            return False
        place.told_high_watermark = answer.high_watermark
        place.told_start = answer.log_start_offset
        return True

    def answer_parked(self) -> None:
        """Its consumer asks again before it was answered: what there is."""
        self._time_is_over()

    def _unpark(self) -> None:
        self.waits = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """It is not remembered any more; who waits is told so, and begins anew."""
        self.turns.session_id = NO_SESSION
        self._time_is_over()
        self.close()

    def close(self) -> None:
        """Watch nothing any more."""
        self._unpark()
        self.turns.session_id = NO_SESSION
        for place in self._places():
            place.leave()
        self._on_close(self)
