"""This room is the REST door of brokers, topics and partitions."""

from typing import Any

from django.db.models import F, Q, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.rest.paging import PageRequest, page_request, page_response, whole_number
from access.rest.problems import Problem
from access.rest.shapes import detail_schema, list_schema, number_filter, text_filter, word_filter
from access.rest.versions import versioned
from controller.models import NO_LEADER, Broker, Partition, Topic
from controller.queries import state_of
from muster.kernel.error_codes import ErrorCode

_STATES = ("live", "fenced")
_TROUBLES = ("offline", "under-replicated")


class BrokerShape(serializers.Serializer[Any]):
    broker_id = serializers.IntegerField()
    state = serializers.CharField()
    fenced = serializers.BooleanField()
    endpoints = serializers.DictField(child=serializers.CharField())
    rack = serializers.CharField(allow_blank=True)
    broker_epoch = serializers.IntegerField()
    version = serializers.IntegerField()
    registered_at = serializers.DateTimeField(allow_null=True)
    changed_at = serializers.DateTimeField()


class TopicShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partitions = serializers.IntegerField()
    replication_factor = serializers.IntegerField()
    configs = serializers.DictField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()


class PartitionShape(serializers.Serializer[Any]):
    """`version` is Kafka's partition epoch; `leader` is null if there is none."""

    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = serializers.IntegerField()
    replicas = serializers.ListField(child=serializers.IntegerField())
    adding = serializers.ListField(child=serializers.IntegerField())
    removing = serializers.ListField(child=serializers.IntegerField())
    leader = serializers.IntegerField(allow_null=True)
    leader_epoch = serializers.IntegerField()
    isr = serializers.ListField(child=serializers.IntegerField())
    version = serializers.IntegerField()
    changed_at = serializers.DateTimeField()
    high_watermark = serializers.IntegerField(allow_null=True)
    high_watermark_at = serializers.DateTimeField(allow_null=True)


class BrokerList(APIView):
    """Brokers in the order of their ids."""

    @list_schema("List brokers", BrokerShape, word_filter("state", _STATES, "Only live or fenced ones."))
    def get(self, request: Request) -> Response:
        page = page_request(request, ("state",))
        state = _word(page, "state", _STATES)
        rows = Broker.objects.defer("secret_hash").order_by("broker_id")
        if state:
            rows = rows.filter(fenced=state == "fenced")
        if page.after:
            rows = rows.filter(broker_id__gt=page.after[0])
        found = list(rows[: page.limit + 1])
        return page_response(request, page, found, lambda row: [row.broker_id], _broker)


class BrokerDetail(APIView):
    """One broker; its version is the metadata version of the turn that last changed it."""

    @detail_schema("Read a broker", BrokerShape)
    def get(self, request: Request, broker_id: int) -> Response:
        rows = Broker.objects.defer("secret_hash")
        found = rows.filter(broker_id=broker_id).first() if broker_id < 2**31 else None
        if found is None:
            raise Problem(404, "There is no such broker.", ErrorCode.BROKER_ID_NOT_REGISTERED)
        return versioned(request, _broker(found), f"{found.broker_epoch}-{found.metadata_version}")


class TopicList(APIView):
    """Topics in the order of their names."""

    @list_schema("List topics", TopicShape, text_filter("q", "Topic contains."))
    def get(self, request: Request) -> Response:
        page = page_request(request, ("q",))
        rows = Topic.objects.order_by("name")
        if page.filters.get("q"):
            rows = rows.filter(name__contains=page.filters["q"])
        if page.after:
            rows = rows.filter(name__gt=page.after[0])
        return page_response(request, page, list(rows[: page.limit + 1]), lambda row: [row.name], _topic)


class TopicDetail(APIView):
    """One topic; a topic created anew under the name has another id, and another ETag."""

    @detail_schema("Read a topic", TopicShape)
    def get(self, request: Request, topic: str) -> Response:
        found = Topic.objects.filter(name=topic).first() if "\x00" not in topic else None
        if found is None:
            raise Problem(404, "There is no such topic.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return versioned(request, _topic(found), f"{found.topic_id}-{found.metadata_version}")


class PartitionList(APIView):
    """Partitions in the order of topic and number."""

    @list_schema(
        "List partitions",
        PartitionShape,
        text_filter("topic", "Only this topic."),
        number_filter("leader", "Only those that this broker leads."),
        number_filter("replica", "Only those of which this broker holds a replica."),
        word_filter("state", _TROUBLES, "Only offline ones, or those whose ISR is not whole."),
    )
    def get(self, request: Request) -> Response:
        page = page_request(request, ("topic", "leader", "replica", "state"))
        rows = _troubled(_of(page), _word(page, "state", _TROUBLES)).order_by("topic__name", "partition")
        if page.after:
            name, number = page.after
            rows = rows.filter(Q(topic__name__gt=name) | Q(topic__name=name, partition__gt=number))
        found = list(rows[: page.limit + 1])
        return page_response(request, page, found, lambda row: [row.topic.name, row.partition], _partition)


class PartitionDetail(APIView):
    """One partition; the ETag also tells its high watermark, and when it was said."""

    @detail_schema("Read a partition", PartitionShape)
    def get(self, request: Request, topic: str, partition: int) -> Response:
        fits = "\x00" not in topic and partition < 2**31
        found = _partitions().filter(topic__name=topic, partition=partition).first() if fits else None
        if found is None:
            raise Problem(404, "There is no such partition.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        progress = getattr(found, "progress", None)
        said = f"{progress.high_watermark}-{int(progress.at.timestamp() * 1000)}" if progress else "none"
        return versioned(request, _partition(found), f"{found.topic_id}-{found.version}-{said}")


def _partitions() -> QuerySet[Partition]:
    return Partition.objects.select_related("topic", "progress")


def _of(page: PageRequest) -> QuerySet[Partition]:
    rows = _partitions()
    leader, replica = whole_number(page.filters, "leader"), whole_number(page.filters, "replica")
    if "topic" in page.filters:
        rows = rows.filter(topic__name=page.filters["topic"])
    if leader is not None:
        rows = rows.filter(leader=leader)
    if replica is not None:
        rows = rows.filter(assigned__contains=[replica])
    return rows


def _troubled(rows: QuerySet[Partition], state: str | None) -> QuerySet[Partition]:
    if state == "offline":
        return rows.filter(leader=NO_LEADER)
    if state == "under-replicated":
        return rows.exclude(isr__contains=F("assigned"))
    return rows


def _word(page: PageRequest, name: str, words: tuple[str, ...]) -> str | None:
    word = page.filters.get(name)
    if word is not None and word not in words:
        raise Problem(400, f"{name} must be one of {', '.join(words)}.", ErrorCode.INVALID_REQUEST)
    return word


def _broker(broker: Broker) -> dict[str, Any]:
    return {
        "broker_id": broker.broker_id,
        "state": state_of(broker),
        "fenced": broker.fenced,
        "endpoints": broker.endpoints,
        "rack": broker.rack,
        "broker_epoch": broker.broker_epoch,
        "version": broker.metadata_version,
        "registered_at": broker.registered_at,
        "changed_at": broker.changed_at,
    }


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partitions": topic.partition_count,
        "replication_factor": topic.replication_factor,
        "configs": topic.configs,
        "version": topic.metadata_version,
        "created_at": topic.created_at,
    }


def _partition(partition: Partition) -> dict[str, Any]:
    progress = getattr(partition, "progress", None)
    return {
        "topic": partition.topic.name,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "replicas": partition.assigned,
        "adding": partition.adding,
        "removing": partition.removing,
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "isr": partition.isr,
        "version": partition.version,
        "changed_at": partition.changed_at,
        "high_watermark": progress.high_watermark if progress else None,
        "high_watermark_at": progress.at if progress else None,
    }
