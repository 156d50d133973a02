"""This room answers consumers' Fetch: regions of files below the high watermark, now or when they come."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from broker.core.replica_log import PartitionKey
from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed, StoredRecords
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
from kafkaserver.callers import caller_of
from kafkaserver.quotas import ClientQuotas
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, read_request
from muster.kafkawire.fetching import (
    TOPIC_IDS,
    Diverging,
    FetchedPartition,
    FetchedTopic,
    lay_out_fetch_reply,
)
from muster.kernel.error_codes import ErrorCode

NO_TOPIC_ID: Final = UUID(int=0)
RESPONSE_BYTES: Final = 57_671_680
"""Kafka's `fetch.max.bytes` of a broker: no answer is larger, whatever was asked."""

LONGEST_WAIT_MS: Final = 60_000
"""No fetch is parked for longer, whatever was asked: an empty answer is a right one."""

BUSY_MS: Final = 500
"""So long a client is asked to keep away when too many partitions are waited for already (KIP-219)."""

_UNKNOWN: Final = -1

Answer = FetchedPartition[StoredRecords]


class Asked(NamedTuple):
    """One partition of a fetch. `leader_epoch` and `last_epoch` are -1 if the client states none.

    `start_offset` is where a follower's log begins.
    """

    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int
    start_offset: int = _UNKNOWN


def refused(partition: int, error_code: ErrorCode) -> Answer:
    """An answer that holds nothing but why."""
    return FetchedPartition(partition, error_code, _UNKNOWN, _UNKNOWN)


def replica_id(request: Any) -> int:
    """Who fetches: a broker's id, or -1 for a consumer; version 15 moved it into a tagged field."""
    state = getattr(request, "replica_state", None)
    return int(state.replica_id if state is not None else request.replica_id)


class _Topic:
    """One topic of a fetch, named as it was asked, and what is answered for each of its partitions."""

    __slots__ = ("answers", "asked", "name", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.asked: dict[int, Asked] = {}
        self.answers: dict[int, Answer] = {}


_Place = tuple[_Topic, int]
"""A partition of a fetch: its topic and its number."""


class _ConsumerFetch:
    """One fetch of a consumer, until it has its bytes, its time is over, or a partition is lost.

    While it is parked it holds no region of a file; what has grown is read again, and nothing else.
    """

    __slots__ = (
        "_caller",
        "_has_news",
        "_header",
        "_is_done",
        "_is_woken",
        "_left_bytes",
        "_max_bytes",
        "_min_bytes",
        "_plane",
        "_quotas",
        "_read_bytes",
        "_reply",
        "_timer",
        "_topics",
        "_unread",
        "_wake_ups",
        "_watched",
        "_with_region",
    )

    def __init__(
        self,
        plane: DataPlane,
        quotas: ClientQuotas,
        wake_ups: WakeUps,
        header: RequestHeader,
        request: Any,
        reply: Reply,
    ) -> None:
        self._plane = plane
        self._quotas = quotas
        self._wake_ups = wake_ups
        self._header = header
        self._reply = reply
        self._caller = caller_of(reply)
        self._min_bytes = request.min_bytes
        self._max_bytes = min(getattr(request, "max_bytes", RESPONSE_BYTES), RESPONSE_BYTES)
        self._topics = _topics(header.api_version, request.topics)
        self._unread: dict[_Place, None] = {}
        """Parked: what has more than was read of it."""
        self._with_region: list[_Place] = []
        self._watched: dict[PartitionKey, tuple[HostedPartition, _Place]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._has_news = self._is_done = self._is_woken = False
        self._left_bytes = self._read_bytes = 0

    def refuse(self, error_code: ErrorCode) -> None:
        """Answer every partition with the same refusal."""
        for topic in self._topics:
            topic.answers = {index: refused(index, error_code) for index in topic.asked}
        self._answer()

    def answer_or_park(self, max_wait_ms: int) -> None:
        """Answer with what there is if that is enough, or as soon as it is."""
        wait_ms = self._heed_quota()
        if wait_ms:
            self._reply.throttle(wait_ms)
            self._answer(throttle_ms=wait_ms)
            return
        self._read((topic, index) for topic in self._topics for index in topic.asked)
        if self._is_satisfied or max_wait_ms <= 0:
            self._answer()
            return
        elements = sum(len(topic.asked) for topic in self._topics)
        if not self._reply.may_park(elements):
            self._answer(throttle_ms=BUSY_MS)
            return
        self._reply.park(elements, self._leave)
        self._keep_no_region()
        for topic in self._topics:
            for index in topic.asked:
                self._watch(topic, index)
        wait_s = min(max_wait_ms, LONGEST_WAIT_MS) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._time_is_over)

    def _heed_quota(self) -> int:
        """No answer holds more than a second of this client's quota; how long it has to wait before any."""
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

    def _read(self, places: Iterable[_Place]) -> None:
        """What these partitions hold at this moment; all others have nothing that is new."""
        self._left_bytes, self._read_bytes, self._has_news = self._max_bytes, 0, False
        self._with_region = []
        by_id = self._header.api_version >= TOPIC_IDS
        plane = self._plane
        for topic, index in places:
            asked = topic.asked[index]
            hosted = (
                plane.led_by_id(topic.topic_id, index, asked.leader_epoch)
                if by_id
                else plane.led(topic.name, index, asked.leader_epoch)
            )
            if not isinstance(hosted, ErrorCode) and not self._caller.may_read(hosted.topic):
                hosted = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if isinstance(hosted, ErrorCode):
                topic.answers[index] = refused(index, hosted)
                self._has_news = True
                continue
            answer = topic.answers[index] = self._read_partition(hosted, asked)
            if answer.records is not None:
                self._with_region.append((topic, index))

    def _read_partition(self, hosted: HostedPartition, asked: Asked) -> Answer:
        """Checks in the order of conformance 216, 226, 229."""
        log, high_watermark = hosted.log, hosted.high_watermark
        diverging = hosted.replica.divergence(asked.offset, asked.last_epoch)
        if diverging is not None:
            self._has_news = True
            answer = refused(asked.partition, ErrorCode.NONE)
            return answer._replace(diverging=Diverging(diverging.epoch, diverging.end_offset))
        if not log.start_offset <= asked.offset <= log.end_offset:
            self._has_news = True
            answer = refused(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            return answer._replace(high_watermark=high_watermark, log_start_offset=log.start_offset)
        region = None
        if asked.offset < high_watermark:
            max_bytes = min(asked.max_bytes, self._left_bytes)
            try:
                # The first partition that has any gives a batch even if it is too large.
                region = log.read(asked.offset, max_bytes, high_watermark, at_least_one=self._read_bytes == 0)
            except StorageFailed:
                self._has_news = True
                return refused(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        if region is not None:
            self._read_bytes += len(region)
            self._left_bytes = max(self._left_bytes - len(region), 0)
        return FetchedPartition(asked.partition, ErrorCode.NONE, high_watermark, log.start_offset, region)

    def _keep_no_region(self) -> None:
        """A region keeps its file open: what was read is read again when the answer leaves."""
        for topic, index in self._with_region:
            topic.answers[index] = topic.answers[index]._replace(records=None)
        self._unread = dict.fromkeys(self._with_region)

    # -- waiting

    def _watch(self, topic: _Topic, index: int) -> None:
        hosted = (
            self._plane.hosted(topic.topic_id, index)
            if self._header.api_version >= TOPIC_IDS
            else self._plane.named(topic.name, index)
        )
        if hosted is not None:
            self._watched[hosted.key] = hosted, (topic, index)
            hosted.readers.add(self)

    def grew(self, key: PartitionKey) -> None:
        """More can be read of `key`: looked at once a loop turn, however many grew in it."""
        self._unread[self._watched[key][1]] = None
        if not self._is_woken:
            self._is_woken = True
            self._wake_ups.soon(self._look_again)

    def lost(self, key: PartitionKey) -> None:
        """This broker leads `key` no more, or in another epoch."""
        self.grew(key)

    def _look_again(self) -> None:
        self._is_woken = False
        if self._is_done:
            return
        self._read(self._unread)
        if self._is_satisfied:
            self._answer()
        else:
            self._keep_no_region()

    def _time_is_over(self) -> None:
        if not self._is_done:
            self._read(self._unread)
            self._answer()

    def _leave(self) -> None:
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
        for hosted, _ in self._watched.values():
            hosted.readers.discard(self)

    def _answer(self, throttle_ms: int = 0) -> None:
        self._leave()
        if self._read_bytes and not throttle_ms:
            throttle_ms = self._quotas.fetched(
                self._caller.principal, self._header.client_id, self._read_bytes, self._plane.clock()
            )
            self._reply.throttle(throttle_ms)
        topics = [
            FetchedTopic(topic.name, topic.topic_id, list(topic.answers.values()))
            for topic in self._topics
            if topic.answers
        ]
        header = self._header
        self._reply.send(
            *lay_out_fetch_reply(header.api_version, header.correlation_id, topics, throttle_ms=throttle_ms)
        )


def _topics(version: int, asked_topics: Iterable[Any]) -> list[_Topic]:
    """What a fetch asks; a partition that it names twice is answered once, where it was asked last."""
    topics: dict[UUID | str, _Topic] = {}
    for asked in asked_topics:
        if version >= TOPIC_IDS:
            topic_id = asked.topic_id or NO_TOPIC_ID
            topic = topics.get(topic_id) or topics.setdefault(topic_id, _Topic("", topic_id))
        else:
            name = asked.topic
            topic = topics.get(name) or topics.setdefault(name, _Topic(name, NO_TOPIC_ID))
        for partition in asked.partitions:
            index = partition.partition
            topic.asked[index] = Asked(
                index,
                partition.fetch_offset,
                partition.partition_max_bytes,
                getattr(partition, "current_leader_epoch", _UNKNOWN),
                getattr(partition, "last_fetched_epoch", _UNKNOWN),
            )
    return list(topics.values())


class FetchHandler:
    """Serves consumers' fetches from one data plane. Session id 0 is answered: each fetch is full."""

    def __init__(self, plane: DataPlane, wake_ups: WakeUps, quotas: ClientQuotas) -> None:
        self._plane = plane
        self._wake_ups = wake_ups
        self._quotas = quotas

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Answer or park. Raises MalformedFrame; a replica id is refused (design.md section 8)."""
        request = read_request(header, frame)
        fetch = _ConsumerFetch(self._plane, self._quotas, self._wake_ups, header, request, reply)
        if replica_id(request) >= 0:
            fetch.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        else:
            fetch.answer_or_park(int(request.max_wait.total_seconds() * 1000))
