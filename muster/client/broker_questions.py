"""This room translates what the SDK wants to know from brokers into Kafka requests, and the answers back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.fetch.v13.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.list_offsets.v5.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from muster.client.broker_connection import Question
from muster.client.history import Parting
from muster.kafkawire.api_table import ApiKey

EARLIEST = -2
LATEST = -1
"""Timestamps of ListOffsets that mean the ends of the log."""

CONSUMER = BrokerId(-1)


class Wanted(NamedTuple):
    """One partition to fetch: from where, under which leader epoch, and behind a batch of which."""

    topic: str
    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int = -1
    """Of the batch before `offset`; −1: not known."""


class Fetched(NamedTuple):
    """What a Fetch answered for one partition; `error_code` is Kafka's number."""

    topic_id: UUID
    partition: int
    error_code: int
    high_watermark: int
    records: bytes
    parting: Parting | None = None
    """The leader's log is another than the one that was read."""


class FoundOffset(NamedTuple):
    """What ListOffsets answered for one partition."""

    topic: str
    partition: int
    error_code: int
    offset: int


class Leader(NamedTuple):
    """Who leads a partition; −1: nobody at the moment."""

    broker_id: int
    leader_epoch: int


class ClusterView(NamedTuple):
    """What one broker's Metadata said: brokers' addresses by id, leaders by topic id and partition."""

    brokers: Mapping[int, str]
    leaders: Mapping[tuple[UUID, int], Leader]
    topic_ids: Mapping[str, UUID]
    """Of those asked for that exist."""


def ask_metadata(topics: Iterable[str]) -> Question:
    """Who leads the partitions of `topics`; topics that do not exist are not created by asking."""
    wanted = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in sorted(topics))
    body = MetadataRequest(
        topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return Question(ApiKey.METADATA, 12, body)


def read_metadata(answer: Any) -> ClusterView:
    """The answer to `ask_metadata`; topics that the broker does not know are left out."""
    brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    leaders = {
        (topic.topic_id, partition.partition_index): Leader(partition.leader_id, partition.leader_epoch)
        for topic in answer.topics
        if topic.topic_id is not None
        for partition in topic.partitions
    }
    ids = {topic.name: topic.topic_id for topic in answer.topics if not topic.error_code}
    return ClusterView(brokers, leaders, ids)


def ask_fetch(
    wanted: Sequence[Wanted], *, wait_ms: int, max_bytes: int, partition_max_bytes: int
) -> Question:
    """Fetch `wanted`; the broker answers at the first byte, or after `wait_ms`."""
    topics = tuple(
        FetchTopic(
            topic_id=topic_id,
            partitions=tuple(
                FetchPartition(
                    partition=i32(one.partition),
                    current_leader_epoch=i32(one.leader_epoch),
                    fetch_offset=i64(one.offset),
                    last_fetched_epoch=i32(one.last_epoch),
                    partition_max_bytes=i32(partition_max_bytes),
                )
                for one in partitions
            ),
        )
        for topic_id, partitions in _by_topic_id(wanted)
    )
    body = FetchRequest(
        replica_id=CONSUMER,
        max_wait=i32Timedelta.parse(timedelta(milliseconds=wait_ms)),
        min_bytes=i32(1),
        max_bytes=i32(max_bytes),
        isolation_level=i8(0),
        topics=topics,
        forgotten_topics_data=(),
    )
    return Question(ApiKey.FETCH, 13, body)


def read_fetch(answer: Any) -> Iterator[Fetched]:
    """The answer to `ask_fetch`, partition by partition."""
    for topic in answer.responses:
        for one in topic.partitions:
            told = one.diverging_epoch
            yield Fetched(
                topic.topic_id,
                one.partition_index,
                int(one.error_code),
                one.high_watermark,
                one.records or b"",
                None if told.end_offset < 0 else Parting(told.epoch, told.end_offset),
            )


def ask_offsets(wanted: Sequence[Wanted], timestamp: int) -> Question:
    """Where the logs of `wanted` begin (EARLIEST) or end (LATEST)."""
    topics = tuple(
        ListOffsetsTopic(
            name=TopicName(topic),
            partitions=tuple(
                ListOffsetsPartition(
                    partition_index=i32(one.partition),
                    current_leader_epoch=i32(one.leader_epoch),
                    timestamp=i64(timestamp),
                )
                for one in partitions
            ),
        )
        for topic, partitions in groupby(sorted(wanted), key=lambda one: one.topic)
    )
    body = ListOffsetsRequest(replica_id=CONSUMER, isolation_level=i8(0), topics=topics)
    return Question(ApiKey.LIST_OFFSETS, 5, body)


def read_offsets(answer: Any) -> Iterator[FoundOffset]:
    """The answer to `ask_offsets`, partition by partition."""
    for topic in answer.topics:
        for one in topic.partitions:
            yield FoundOffset(topic.name, one.partition_index, int(one.error_code), one.offset)


def _by_topic_id(wanted: Sequence[Wanted]) -> Iterator[tuple[UUID, Iterator[Wanted]]]:
    return groupby(
        sorted(wanted, key=lambda one: (one.topic_id, one.partition)), key=lambda one: one.topic_id
    )
