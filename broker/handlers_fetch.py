"""This room answers consumers' Fetch: regions of files below the high watermark, now or when they come."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from broker.core.replica_log import PartitionKey
from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed, StoredRecords
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
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

NO_TOPIC_ID = UUID(int=0)
RESPONSE_BYTES = 57_671_680
"""Kafka's `fetch.max.bytes` of a broker: no answer is larger, whatever was asked."""

_UNKNOWN = -1


class Asked(NamedTuple):
    """One partition of a fetch. `leader_epoch` and `last_epoch` are -1 if the client states none."""

    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int


class AskedTopic(NamedTuple):
    """One topic of a fetch, by the name and id that this broker knows for it; None: unknown here."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[Asked, ...]


def asked_topics(plane: DataPlane, version: int, request: Any) -> list[AskedTopic]:
    """What `request` (kio's class) asks, with names for ids and ids for names."""
    view, asked = plane.view, []
    for topic in request.topics:
        name: str | None
        topic_id: UUID | None
        if version >= TOPIC_IDS:
            topic_id = topic.topic_id
            name = view.names_by_id.get(topic_id) if topic_id else None
        else:
            name = topic.topic
            known = view.topics.get(topic.topic)
            topic_id = known.topic_id if known else None
        asked.append(AskedTopic(name, topic_id, tuple(_asked(p) for p in topic.partitions)))
    return asked


def _asked(partition: Any) -> Asked:
    return Asked(
        partition.partition,
        partition.fetch_offset,
        partition.partition_max_bytes,
        getattr(partition, "current_leader_epoch", _UNKNOWN),
        getattr(partition, "last_fetched_epoch", _UNKNOWN),
    )


def refused(partition: int, error_code: ErrorCode) -> FetchedPartition[StoredRecords]:
    """An answer that holds nothing but why."""
    return FetchedPartition(partition, error_code, _UNKNOWN, _UNKNOWN)


class _Reading:
    """One pass over a fetch: what can be answered right now."""

    __slots__ = ("has_news", "left_bytes", "read_bytes", "topics")

    def __init__(self, max_bytes: int) -> None:
        self.left_bytes = max_bytes
        self.read_bytes = 0
        self.has_news = False
        """True if an error or a divergence must be told whatever the minimum of bytes is."""
        self.topics: list[FetchedTopic[StoredRecords]] = []

    def read(
        self, hosted: HostedPartition, asked: Asked, limit_offset: int
    ) -> FetchedPartition[StoredRecords]:
        """Batches of one partition; the first partition that has any gives one even if it is too large."""
        log = hosted.log
        region = log.read(
            asked.offset,
            min(asked.max_bytes, self.left_bytes),
            limit_offset,
            at_least_one=self.read_bytes == 0,
        )
        if region is not None:
            self.read_bytes += len(region)
            self.left_bytes = max(self.left_bytes - len(region), 0)
        return FetchedPartition(
            asked.partition, ErrorCode.NONE, hosted.high_watermark, log.start_offset, region
        )


class _ParkedFetch:
    """A consumer's fetch, until it has its bytes, its time is over, or a partition is lost."""

    __slots__ = (
        "_handler",
        "_is_done",
        "_is_woken",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_reply",
        "_timer",
        "correlation_id",
        "topics",
        "version",
    )

    def __init__(
        self,
        handler: "FetchHandler",
        header: RequestHeader,
        request: Any,
        topics: list[AskedTopic],
        reply: Reply,
    ) -> None:
        self._handler = handler
        self._reply = reply
        self._min_bytes = request.min_bytes
        self._max_bytes = min(getattr(request, "max_bytes", RESPONSE_BYTES), RESPONSE_BYTES)
        self._partitions: list[HostedPartition] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_done = False
        self._is_woken = False
        self.correlation_id = header.correlation_id
        self.version = header.api_version
        self.topics = topics

    def answer_or_park(self, max_wait_ms: int) -> None:
        reading = self._handler.read(self.topics, self._max_bytes)
        if self._is_satisfied(reading) or max_wait_ms <= 0:
            self._answer(reading)
            return
        self._partitions = self._handler.partitions_of(self.topics)
        for hosted in self._partitions:
            hosted.readers.add(self)
        self._timer = asyncio.get_running_loop().call_later(max_wait_ms / 1000, self._time_is_over)

    def _is_satisfied(self, reading: _Reading) -> bool:
        return reading.has_news or reading.read_bytes >= self._min_bytes

    def grew(self, key: PartitionKey) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._handler.wake_ups.soon(self.look_again)

    def lost(self, key: PartitionKey) -> None:
        self.grew(key)

    def look_again(self) -> None:
        """At most once a loop turn, however many partitions grew in it."""
        self._is_woken = False
        if self._is_done:
            return
        if not self._reply.is_wanted:
            self._leave()
            return
        reading = self._handler.read(self.topics, self._max_bytes)
        if self._is_satisfied(reading):
            self._answer(reading)

    def _time_is_over(self) -> None:
        if not self._is_done:
            self._answer(self._handler.read(self.topics, self._max_bytes))

    def _leave(self) -> None:
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
        for hosted in self._partitions:
            hosted.readers.discard(self)

    def _answer(self, reading: _Reading) -> None:
        self._leave()
        self._reply.send(*lay_out_fetch_reply(self.version, self.correlation_id, reading.topics))


class FetchHandler:
    """Serves consumers' fetches from one data plane. Session id 0 is answered: each fetch is full."""

    def __init__(self, plane: DataPlane, wake_ups: WakeUps) -> None:
        self._plane = plane
        self.wake_ups = wake_ups

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Answer or park. Raises MalformedFrame; a replica id is refused (design.md section 8)."""
        request = read_request(header, frame)
        topics = asked_topics(self._plane, header.api_version, request)
        if replica_id(request) >= 0:
            answers = [
                FetchedTopic(
                    topic.name or "",
                    topic.topic_id or NO_TOPIC_ID,
                    [refused(p.partition, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) for p in topic.partitions],
                )
                for topic in topics
            ]
            reply.send(*lay_out_fetch_reply(header.api_version, header.correlation_id, answers))
            return
        if header.api_version >= TOPIC_IDS:
            topics = [_with_id(topic, asked) for topic, asked in zip(topics, request.topics, strict=True)]
        else:
            topics = [_with_name(topic, asked) for topic, asked in zip(topics, request.topics, strict=True)]
        parked = _ParkedFetch(self, header, request, topics, reply)
        parked.answer_or_park(int(request.max_wait.total_seconds() * 1000))

    def partitions_of(self, topics: Sequence[AskedTopic]) -> list[HostedPartition]:
        """The partitions asked for that are here."""
        named = (
            self._plane.named(topic.name or "", asked.partition)
            for topic in topics
            for asked in topic.partitions
        )
        return [hosted for hosted in named if hosted is not None]

    def read(self, topics: Sequence[AskedTopic], max_bytes: int) -> _Reading:
        """What these topics hold for a consumer at this moment."""
        reading = _Reading(max_bytes)
        for topic in topics:
            answers = [self._read_partition(reading, topic, asked) for asked in topic.partitions]
            reading.topics.append(FetchedTopic(topic.name or "", topic.topic_id or NO_TOPIC_ID, answers))
        return reading

    def _read_partition(
        self, reading: _Reading, topic: AskedTopic, asked: Asked
    ) -> FetchedPartition[StoredRecords]:
        answer = self._judge_and_read(reading, topic, asked)
        if answer.error_code != ErrorCode.NONE or answer.diverging is not None:
            reading.has_news = True
        return answer

    def _judge_and_read(
        self, reading: _Reading, topic: AskedTopic, asked: Asked
    ) -> FetchedPartition[StoredRecords]:
        """Checks in the order of conformance 215, 216, 226, 229."""
        hosted = self._plane.named(topic.name or "", asked.partition)
        if hosted is None:
            return refused(asked.partition, self._why_not_here(topic, asked.partition))
        refusal = hosted.replica.refusal(asked.leader_epoch)
        if refusal is not ErrorCode.NONE:
            return refused(asked.partition, refusal)
        log = hosted.log
        if asked.last_epoch >= 0:
            end = log.end_of_epoch(asked.last_epoch)
            if end.epoch != asked.last_epoch or end.end_offset < asked.offset:
                answer = refused(asked.partition, ErrorCode.NONE)
                return answer._replace(diverging=Diverging(end.epoch, end.end_offset))
        if not log.start_offset <= asked.offset <= log.end_offset:
            answer = refused(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            return answer._replace(high_watermark=hosted.high_watermark, log_start_offset=log.start_offset)
        try:
            return reading.read(hosted, asked, hosted.high_watermark)
        except StorageFailed:
            return refused(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)

    def _why_not_here(self, topic: AskedTopic, partition: int) -> ErrorCode:
        view = self._plane.view
        if topic.name is not None and view.partition(topic.name, partition) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if topic.name is None and topic.topic_id is not None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def replica_id(request: Any) -> int:
    """Who fetches: a broker's id, or -1 for a consumer; version 15 moved it into a tagged field."""
    state = getattr(request, "replica_state", None)
    return int(state.replica_id if state is not None else request.replica_id)


def _with_id(topic: AskedTopic, asked: Any) -> AskedTopic:
    """The answer repeats the id that was asked, known or not."""
    return topic._replace(topic_id=asked.topic_id)


def _with_name(topic: AskedTopic, asked: Any) -> AskedTopic:
    return topic._replace(name=asked.topic)
