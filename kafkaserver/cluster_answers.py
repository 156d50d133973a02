"""This room answers ApiVersions, Metadata and DescribeCluster from one view, alike at every door.

The view is replaced as a whole whenever the controller has pushed something (design.md 8a rules 2 and 3).
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from muster.kafkawire.api_table import (
    SERVED,
    ApiKey,
    RequestHeader,
    build,
    encode_body,
    encode_reply,
    frame_reply,
    is_flexible,
    part,
    read_request,
    response_class,
)
from muster.kafkawire.numbers import uvarint
from muster.kernel.error_codes import ErrorCode

NOBODY: Final = -1
BROKERS: Final = 1
"""The one type of endpoint that DescribeCluster lists."""
OPERATIONS_NOT_ASKED: Final = -(2**31)
"""Kafka's word for operations that nobody wanted to know."""

FIRST_BY_ID: Final = 12
"""Metadata has had topic ids since version 10; and since this one names may be missing."""

_INT = struct.Struct(">i")
_PARTITION = struct.Struct(">hii")
_PARTITION_WITH_EPOCH = struct.Struct(">hiii")


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One live broker, or node, as clients reach it: both share one space of ids (design.md 8a rule 1)."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Who leads one partition and who holds it; `leader` -1: nobody leads at present.

    `in_sync` names the members that count for acks=all: alive and within the lag limit.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic; partition number i is `partitions[i]`."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionView, ...]
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class MetadataView:
    """All that a door tells clients about the cluster."""

    cluster_id: str = ""
    brokers: Mapping[int, BrokerView] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicView] = field(default_factory=lambda: MappingProxyType({}))
    names_by_id: Mapping[UUID, str] = field(default_factory=lambda: MappingProxyType({}))
    nodes: Mapping[int, BrokerView] = field(default_factory=lambda: MappingProxyType({}))
    """Nodes with a Kafka listener; they lead nothing and coordinate groups."""
    owners: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """The node that holds each shard of groups; a shard that nobody holds is missing."""
    fenced: tuple[BrokerView, ...] = ()
    """Brokers without a session, where they were last; only whoever asks for them is told."""

    @classmethod
    def of(
        cls,
        cluster_id: str,
        brokers: Iterable[BrokerView],
        topics: Iterable[TopicView],
        nodes: Iterable[BrokerView] = (),
        owners: Mapping[int, int] = MappingProxyType({}),
        fenced: Iterable[BrokerView] = (),
    ) -> "MetadataView":
        """The view of these brokers, topics, nodes, holders of shards, and brokers that are fenced."""
        named = {topic.name: topic for topic in topics}
        return cls(
            cluster_id,
            MappingProxyType({broker.broker_id: broker for broker in brokers}),
            MappingProxyType(named),
            MappingProxyType({topic.topic_id: name for name, topic in named.items()}),
            MappingProxyType({node.broker_id: node for node in nodes}),
            owners,
            tuple(fenced),
        )

    @property
    def everybody(self) -> Iterable[BrokerView]:
        """Brokers and nodes: a client drops the connection to whoever it is not told of (rule 3)."""
        return (*self.brokers.values(), *self.nodes.values())

    @property
    def controller_id(self) -> int:
        """Any live broker, as with KRaft: it forwards what the controller decides (rule 6)."""
        return min(self.brokers, default=NOBODY)

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        """The partition, or None if this cluster has no such topic or partition."""
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        return known.partitions[partition]


def _everything(_topic: str) -> bool:
    return True


def answer_api_versions(header: RequestHeader) -> bytes:
    """The whole table; a version that is too high gets error 35 and the table in the form of version 0."""
    api = SERVED[ApiKey.API_VERSIONS]
    refused = not api.minimum <= header.api_version <= api.maximum
    version = 0 if refused else header.api_version
    shape = response_class(ApiKey.API_VERSIONS, version)
    entry = part(shape, "ApiVersion")
    table = tuple(
        entry(api_key=api.key.value, min_version=api.advertised_minimum, max_version=api.maximum)
        for api in sorted(SERVED.values(), key=lambda api: api.key)
    )
    code = ErrorCode.UNSUPPORTED_VERSION if refused else ErrorCode.NONE
    body = build(shape, error_code=code, api_keys=table)
    return encode_reply(ApiKey.API_VERSIONS, version, header.correlation_id, body)


def answer_metadata(
    view: MetadataView, header: RequestHeader, frame: memoryview, may_see: Callable[[str], bool] = _everything
) -> bytes:
    """What `view` holds of the topics asked for, by name or id; brokers, nodes and controller always.

    Topics are never created by asking. Of all topics those are told that `may_see` names; whoever asks for
    another one is refused, whether there is such a topic or not. Raises MalformedFrame.
    """
    request = read_request(header, frame)
    version = header.api_version
    shape = response_class(ApiKey.METADATA, version)
    wants_all = request.topics is None or (version == 0 and not request.topics)
    if wants_all:
        topics = [_known_topic(version, view, topic) for topic in view.topics.values() if may_see(topic.name)]
    else:
        # A topic that is asked for twice is answered once, or a small request had an answer of any size.
        distinct = {(asked.name, getattr(asked, "topic_id", None)): asked for asked in request.topics}
        topics = [_asked_topic(version, view, asked, may_see) for asked in distinct.values()]
    broker = part(shape, "MetadataResponseBroker")
    without_topics = build(
        shape,
        brokers=tuple(
            build(broker, node_id=b.broker_id, host=b.host, port=b.port, rack=b.rack) for b in view.everybody
        ),
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        topics=(),
    )
    tail_bytes = 4 if 8 <= version <= 10 else 0
    encoded = _with_elements(version, encode_body(without_topics), tail_bytes, topics)
    return frame_reply(ApiKey.METADATA, version, header.correlation_id, encoded)


def answer_describe_cluster(
    view: MetadataView, header: RequestHeader, frame: memoryview, operations: int = OPERATIONS_NOT_ASKED
) -> bytes:
    """Brokers and nodes, and the controller. Controllers have no listener of their own to be asked for.

    `operations`: what the caller may do with the cluster, told if it wants to know. Raises MalformedFrame.
    """
    request = read_request(header, frame)
    shape = response_class(ApiKey.DESCRIBE_CLUSTER, header.api_version)
    asked = getattr(request, "endpoint_type", BROKERS)
    listed = part(shape, "DescribeClusterBroker")
    fenced = view.fenced if getattr(request, "include_fenced_brokers", False) else ()
    everybody = [(one, False) for one in view.everybody] + [(one, True) for one in fenced]
    body = build(
        shape,
        error_code=ErrorCode.NONE if asked == BROKERS else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        error_message=None if asked == BROKERS else "this is a listener of brokers",
        endpoint_type=BROKERS,
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        brokers=tuple(
            build(
                listed,
                broker_id=one.broker_id,
                host=one.host,
                port=one.port,
                rack=one.rack,
                is_fenced=is_fenced,
            )
            for one, is_fenced in (everybody if asked == BROKERS else ())
        ),
        cluster_authorized_operations=(
            operations if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED
        ),
    )
    return encode_reply(ApiKey.DESCRIBE_CLUSTER, header.api_version, header.correlation_id, body)


def _with_elements(version: int, empty: bytes, tail_bytes: int, elements: Sequence[bytes]) -> bytes:
    """`empty`, with `elements` in its last array; behind that lie `tail_bytes`, and tags if there are any.

    kio's writer takes half a second for ten thousand partitions, in which the loop does nothing else.
    """
    flexible = is_flexible(ApiKey.METADATA, version)
    end = len(empty) - tail_bytes - flexible
    count = uvarint(len(elements) + 1) if flexible else _INT.pack(len(elements))
    return b"".join((empty[: end - (1 if flexible else 4)], count, *elements, empty[end:]))


def _asked_topic(version: int, view: MetadataView, asked: Any, may_see: Callable[[str], bool]) -> bytes:
    topic_id = getattr(asked, "topic_id", None)
    if asked.name is None and version < FIRST_BY_ID:
        known, refusal = None, ErrorCode.INVALID_REQUEST
    elif asked.name is not None:
        known = view.topics.get(asked.name)
        refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        known = view.topics.get(view.names_by_id.get(topic_id, "")) if topic_id else None
        refusal = ErrorCode.UNKNOWN_TOPIC_ID
    name = asked.name if known is None else known.name
    if name is not None and not may_see(name):
        known, refusal = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if known is not None:
        return _known_topic(version, view, known)
    return encode_body(
        build(
            part(response_class(ApiKey.METADATA, version), "MetadataResponseTopic"),
            error_code=refusal,
            name="" if asked.name is None and version < FIRST_BY_ID else asked.name,
            topic_id=topic_id,
            is_internal=False,
            partitions=(),
        )
    )


def _known_topic(version: int, view: MetadataView, topic: TopicView) -> bytes:
    without_partitions = build(
        part(response_class(ApiKey.METADATA, version), "MetadataResponseTopic"),
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=(),
    )
    tail_bytes = 4 if version >= 8 else 0
    partitions = _partitions(version, view.brokers, topic.partitions)
    return _with_elements(version, encode_body(without_partitions), tail_bytes, partitions)


def _partitions(
    version: int, live: Mapping[int, BrokerView], partitions: Sequence[PartitionView]
) -> list[bytes]:
    """The partitions of one topic; thousands of them share a few sets of replicas."""
    sets: dict[tuple[tuple[int, ...], tuple[int, ...]], bytes] = {}
    encoded = []
    for index, known in enumerate(partitions):
        replicas = sets.get((known.replicas, known.in_sync))
        if replicas is None:
            replicas = sets[known.replicas, known.in_sync] = _replicas(version, live, known)
        leads = known.leader in live
        error_code = ErrorCode.NONE if leads else ErrorCode.LEADER_NOT_AVAILABLE
        leader = known.leader if leads else NOBODY
        if version >= 7:
            head = _PARTITION_WITH_EPOCH.pack(error_code, index, leader, known.leader_epoch)
        else:
            head = _PARTITION.pack(error_code, index, leader)
        encoded.append(head + replicas)
    return encoded


def _replicas(version: int, live: Mapping[int, BrokerView], known: PartitionView) -> bytes:
    """Who holds a partition, who of them is in sync, who is away; and no tags."""
    flexible = is_flexible(ApiKey.METADATA, version)
    away = tuple(broker_id for broker_id in known.replicas if broker_id not in live)
    parts = []
    for ids in (known.replicas, known.in_sync, away)[: 3 if version >= 5 else 2]:
        parts.append(uvarint(len(ids) + 1) if flexible else _INT.pack(len(ids)))
        parts.append(struct.pack(f">{len(ids)}i", *ids))
    return b"".join(parts) + (b"\x00" if flexible else b"")
