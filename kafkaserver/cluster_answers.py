"""This room is the view of the cluster at every door, and answers ApiVersions and DescribeCluster from it.

The view is replaced as a whole whenever the controller has pushed something (design.md 8a rules 2 and 3).
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from uuid import UUID

from muster.kafkawire.api_table import (
    SERVED,
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    part,
    read_request,
    response_class,
)
from muster.kernel.error_codes import ErrorCode

NOBODY: Final = -1
BROKERS: Final = 1
"""The one type of endpoint that DescribeCluster lists."""
_CONTROLLERS: Final = 2
OPERATIONS_NOT_ASKED: Final = -(2**31)
"""Kafka's word for operations that nobody wanted to know."""


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

    `in_sync`: see `told_in_sync`. `failed`: brokers that cannot use their log of it, though they may live.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    failed: tuple[int, ...] = ()


def told_in_sync(leader: int, isr: tuple[int, ...], live: Container[int]) -> tuple[int, ...]:
    """The members of the ISR that live: the others do not count for acks=all either.

    Where nobody leads it is whole, as in Kafka: one of these has to come back, and this says who.
    """
    return isr if leader == NOBODY else tuple(broker_id for broker_id in isr if broker_id in live)


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
        """Any live broker, as with KRaft: it forwards what the controller decides (rule 6).

        A node where none lives: told of nobody, librdkafka's admin client does not look again for a minute.
        """
        return min(self.brokers, default=min(self.nodes, default=NOBODY))

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        """The partition, or None if this cluster has no such topic or partition."""
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        return known.partitions[partition]


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


def answer_describe_cluster(
    view: MetadataView, header: RequestHeader, frame: memoryview, operations: int = OPERATIONS_NOT_ASKED
) -> bytes:
    """Brokers and nodes, and the controller. Controllers have no listener of their own to be asked for.

    `operations`: what the caller may do with the cluster, told if it wants to know. Raises MalformedFrame.
    """
    request = read_request(header, frame)
    shape = response_class(ApiKey.DESCRIBE_CLUSTER, header.api_version)
    asked = getattr(request, "endpoint_type", BROKERS)
    error, text = ErrorCode.NONE, None
    if asked == _CONTROLLERS:
        error, text = ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a listener of brokers"
    elif asked != BROKERS:
        error, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there are no endpoints of type {asked}"
    if error is not ErrorCode.NONE:
        # As in Kafka nothing is told of the cluster beside it.
        body = build(
            shape,
            error_code=error,
            error_message=text,
            endpoint_type=BROKERS,
            cluster_id="",
            controller_id=NOBODY,
            brokers=(),
            cluster_authorized_operations=OPERATIONS_NOT_ASKED,
        )
        return encode_reply(ApiKey.DESCRIBE_CLUSTER, header.api_version, header.correlation_id, body)
    listed = part(shape, "DescribeClusterBroker")
    fenced = view.fenced if getattr(request, "include_fenced_brokers", False) else ()
    everybody = [(one, False) for one in view.everybody] + [(one, True) for one in fenced]
    body = build(
        shape,
        error_code=error,
        error_message=text,
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
            for one, is_fenced in everybody
        ),
        cluster_authorized_operations=(
            operations if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED
        ),
    )
    return encode_reply(ApiKey.DESCRIBE_CLUSTER, header.api_version, header.correlation_id, body)
