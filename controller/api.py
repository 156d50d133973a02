"""This room is the REST door of brokers, topics and partitions."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, Value
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import number_filter, text_filter, word_filter
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import caller_of, refuse_beyond
from access.rest.problems import Problem
from access.rest.shapes import EXAMPLES, Int32Field, Int64Field, detail_schema, example, lists
from access.rest.versions import versioned
from access.rest.views import RestView
from access.scoped_rows import within
from controller import conditions, copying
from controller.models import NO_LEADER, PHASES, Broker, LagNote, Partition, Reassignment, Topic
from controller.queries import held, live_ids, state_of
from muster.kernel.error_codes import ErrorCode
from runtime import database_clock

_STATES = {
    "live": Q(fenced=False),
    "fenced": Q(fenced=True, broker_epoch__gt=0),
    "never-connected": Q(broker_epoch=0),
}
"""What a broker's `state` may be, here and in the filter of the list."""

_TROUBLES = ("offline", "under-replicated")
_LAGGING = LagNote.objects.filter(
    topic_id=OuterRef("topic_id"),
    partition=OuterRef("partition"),
    broker_id=OuterRef("leader"),
    lagging__overlap=OuterRef("isr"),
)


@example(
    broker_id=3,
    state="live",
    fenced=False,
    cordoned=False,
    endpoints={"client": "10.0.3.11:9092", "replication": "10.0.3.11:9093"},
    rack="c",
    broker_epoch=203,
    version=88003,
    registered_at="2026-11-21T03:12:41Z",
    changed_at="2026-11-21T03:12:41Z",
    set_back="",
)
class BrokerShape(serializers.Serializer[Any]):
    """`set_back`: how it has proved that the database was set back, which keeps it out; empty: it has not."""

    broker_id = Int32Field()
    state = serializers.ChoiceField(choices=list(_STATES))
    fenced = serializers.BooleanField()
    cordoned = serializers.BooleanField()
    endpoints = serializers.DictField(child=serializers.CharField())
    rack = serializers.CharField(allow_blank=True)
    broker_epoch = Int64Field()
    version = Int64Field()
    registered_at = serializers.DateTimeField(allow_null=True)
    changed_at = serializers.DateTimeField()
    set_back = serializers.CharField(allow_blank=True)


@example(**EXAMPLES["BrokerShape"], leaders=41, replicas=122, out_of_sync=0, size_bytes=38_100_000_000)
class HeldShape(BrokerShape):
    """`leaders`, `replicas`, `out_of_sync`: of how many partitions; `size_bytes`: of its replicas' logs.

    Null for a token that is good for some topics only, `size_bytes` also where no leader has said.
    """

    leaders = Int32Field(allow_null=True)
    replicas = Int32Field(allow_null=True)
    out_of_sync = Int32Field(allow_null=True)
    size_bytes = Int64Field(allow_null=True)


@example(
    topic="flights",
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    partitions=6,
    replication_factor=3,
    configs={"min.insync.replicas": "2"},
    version=88001,
    created_at="2026-11-21T03:12:41Z",
)
class TopicShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partitions = Int32Field()
    replication_factor = Int32Field()
    configs = serializers.DictField()
    version = Int64Field()
    created_at = serializers.DateTimeField()


@example(
    topic="flights",
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    partition=5,
    replicas=[1, 2, 3],
    adding=[],
    removing=[],
    leader=1,
    leader_epoch=9,
    isr=[1, 2, 3],
    version=88015,
    changed_at="2026-11-21T03:12:41Z",
    high_watermark=8434691,
    high_watermark_at="2026-11-21T03:12:41Z",
    size_bytes=912_680_550,
    offline_replicas=[],
    damaged_replicas=[],
    lagging_replicas=[],
)
class PartitionShape(serializers.Serializer[Any]):
    """`version` is Kafka's partition epoch; `leader` is null if there is none.

    `size_bytes`: of its leader's log. `offline_replicas`, `damaged_replicas`: live brokers whose log of it is
    so; see the list of logs. `lagging_replicas`: live members of `isr` that do not keep up, so that its
    leader refuses acks=all.
    """

    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    replicas = serializers.ListField(child=Int32Field())
    adding = serializers.ListField(child=Int32Field())
    removing = serializers.ListField(child=Int32Field())
    leader = Int32Field(allow_null=True)
    leader_epoch = Int32Field()
    isr = serializers.ListField(child=Int32Field())
    version = Int64Field()
    changed_at = serializers.DateTimeField()
    high_watermark = Int64Field(allow_null=True)
    high_watermark_at = serializers.DateTimeField(allow_null=True)
    size_bytes = Int64Field(allow_null=True)
    offline_replicas = serializers.ListField(child=Int32Field())
    damaged_replicas = serializers.ListField(child=Int32Field())
    lagging_replicas = serializers.ListField(child=Int32Field())


class CopyingShape(serializers.Serializer[Any]):
    """How far the new replicas of a move are. `rate`: bytes a second now, null: no broker has said yet.

    `produced_rate`: what producers write meanwhile, which is to be copied, too. `silent`: new replicas of
    which their brokers have said nothing. `ends_at` is a guess.
    """

    replicas = Int32Field()
    in_sync = Int32Field()
    silent = Int32Field()
    to_copy_bytes = Int64Field(allow_null=True)
    copied_bytes = Int64Field(allow_null=True)
    rate = Int64Field(allow_null=True)
    produced_rate = Int64Field(allow_null=True)
    stalled_since = serializers.DateTimeField(allow_null=True)
    said_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)


@example(
    id="0192f0c2-7d0e-7c3a-9a44-6c1f2f0b8a11",
    topic="flights",
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    partition=5,
    origin=[1, 2, 3],
    target=[4, 2, 3],
    phase="InProgress",
    reason="",
    principal="mira",
    throttle=50_000_000,
    version=88020,
    asked_at="2026-11-21T03:12:41Z",
    started_at="2026-11-21T03:12:41Z",
    ended_at=None,
    copied_bytes=None,
    copying={
        "replicas": 1,
        "in_sync": 0,
        "silent": 0,
        "to_copy_bytes": 4_294_967_296,
        "copied_bytes": 1_288_490_188,
        "rate": 48_000_000,
        "produced_rate": 2_000_000,
        "stalled_since": None,
        "said_at": "2026-11-21T03:12:42Z",
        "ends_at": "2026-11-21T03:13:44Z",
    },
)
class ReassignmentShape(serializers.Serializer[Any]):
    """One partition on its way from `origin` to `target`; `reason` says why it ended before.

    `throttle`: bytes a second; 0: any. `copying`: how far it is, null unless it is under way and has new
    replicas; `copied_bytes`: how much was copied when it ended, null: it has not ended, or nobody said.
    """

    id = serializers.UUIDField()
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    origin = serializers.ListField(child=Int32Field())
    target = serializers.ListField(child=Int32Field())
    phase = serializers.ChoiceField(choices=[(phase, phase) for phase in PHASES])
    reason = serializers.CharField(allow_blank=True)
    principal = serializers.CharField(allow_blank=True)
    throttle = Int64Field()
    version = Int64Field()
    asked_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    copied_bytes = Int64Field(allow_null=True)
    copying = CopyingShape(allow_null=True)


class ReassignmentList(RestView):
    """Reassignments, those that were asked for last first."""

    @lists(
        "List reassignments",
        ReassignmentShape,
        text_filter("topic", "Only of this topic."),
        word_filter("phase", PHASES, "Only those in this phase."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        caller = caller_of(request)
        refuse_beyond(caller, topic=page.filters.get("topic"))
        rows = Reassignment.objects.filter(within(caller.topics, "topic_name"))
        rows = rows.order_by("-asked_version", "asked_place")
        if "topic" in page.filters:
            rows = rows.filter(topic_name=page.filters["topic"])
        if "phase" in page.filters:
            rows = rows.filter(phase=page.filters["phase"])
        if page.after:
            version, place = page.after
            earlier = Q(asked_version__lt=version)
            rows = rows.filter(earlier | Q(asked_version=version, asked_place__gt=place))
        found = list(rows[: page.limit + 1])
        return page_response(
            request, page, found, lambda row: [row.asked_version, row.asked_place], shown_with_progress(found)
        )


class BrokerList(RestView):
    """Brokers in the order of their ids, with what they lead and hold."""

    @lists("List brokers", HeldShape, word_filter("state", _STATES, "Only those in this state."))
    def get(self, request: Request, page: PageRequest) -> Response:
        rows = Broker.objects.defer("secret_hash").order_by("broker_id")
        if "state" in page.filters:
            rows = rows.filter(_STATES[page.filters["state"]])
        if page.after:
            rows = rows.filter(broker_id__gt=page.after[0])
        found = list(rows[: page.limit + 1])
        shown = found[: page.limit]
        show = _shown_with_holdings(shown) if caller_of(request).is_unbounded else _shown_alone
        return page_response(request, page, found, lambda row: [row.broker_id], show)


class BrokerDetail(RestView):
    """One broker; its version is the metadata version of the turn that last changed it."""

    @detail_schema("Read a broker", BrokerShape)
    def get(self, request: Request, broker_id: int) -> Response:
        rows = Broker.objects.defer("secret_hash")
        found = rows.filter(broker_id=broker_id).first() if broker_id < 2**31 else None
        if found is None:
            raise Problem(404, "There is no such broker.", ErrorCode.BROKER_ID_NOT_REGISTERED)
        return versioned(request, broker_shown(found), broker_tag(found))


class TopicList(RestView):
    """Topics in the order of their names."""

    @lists("List topics", TopicShape, text_filter("q", "Topic contains, in capitals or not."))
    def get(self, request: Request, page: PageRequest) -> Response:
        rows = Topic.objects.filter(within(caller_of(request).topics, "name")).order_by("name")
        if page.filters.get("q"):
            rows = rows.filter(name__icontains=page.filters["q"])
        if page.after:
            rows = rows.filter(name__gt=page.after[0])
        return page_response(request, page, list(rows[: page.limit + 1]), lambda row: [row.name], topic_shown)


class TopicDetail(RestView):
    """One topic; a topic created anew under the name has another id, and another ETag."""

    @detail_schema("Read a topic", TopicShape)
    def get(self, request: Request, topic: str) -> Response:
        found = Topic.objects.filter(name=topic).first() if "\x00" not in topic else None
        if found is None:
            raise Problem(404, "There is no such topic.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return versioned(request, topic_shown(found), topic_tag(found))


class PartitionList(RestView):
    """Partitions in the order of topic and number."""

    @lists(
        "List partitions",
        PartitionShape,
        text_filter("topic", "Only this topic."),
        number_filter("leader", "Only those that this broker leads."),
        number_filter("replica", "Only those of which this broker holds a replica."),
        word_filter("state", _TROUBLES, "Only offline ones, or those with a replica out of sync."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        caller = caller_of(request)
        refuse_beyond(caller, topic=page.filters.get("topic"))
        rows = _of(page).filter(within(caller.topics, "topic__name"))
        rows = _troubled(rows, page.filters.get("state")).order_by("topic__name", "partition")
        if page.after:
            name, number = page.after
            rows = rows.filter(Q(topic__name__gt=name) | Q(topic__name=name, partition__gt=number))
        found = list(rows[: page.limit + 1])
        return page_response(
            request, page, found, lambda row: [row.topic.name, row.partition], shown_with_logs(found)
        )


class PartitionDetail(RestView):
    """One partition; the ETag also tells its high watermark, when that was said, bad logs and who lags."""

    @detail_schema("Read a partition", PartitionShape)
    def get(self, request: Request, topic: str, partition: int) -> Response:
        fits = "\x00" not in topic and partition < 2**31
        found = partitions().filter(topic__name=topic, partition=partition).first() if fits else None
        if found is None:
            raise Problem(404, "There is no such partition.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        progress = getattr(found, "progress", None)
        said = f"{progress.high_watermark}-{int(progress.at.timestamp() * 1000)}" if progress else "none"
        logs = conditions.of_partitions([found.id], conditions.IN_TROUBLE).get(found.id, [])
        lagging = conditions.lagging([found.id]).get(found.id, [])
        bad = "".join(f"-{log.broker_id}{log.state[0]}{int(log.since.timestamp() * 1000)}" for log in logs)
        bad += "".join(f"-{broker}l" for broker in lagging)
        body = _partition_shown(found, logs, lagging)
        return versioned(request, body, f"{found.topic_id}-{found.version}-{said}{bad}")


def partitions() -> QuerySet[Partition]:
    """Partitions with what a list tells of them, in one statement."""
    return Partition.objects.select_related("topic", "progress")


def _of(page: PageRequest) -> QuerySet[Partition]:
    rows = partitions()
    if "topic" in page.filters:
        rows = rows.filter(topic__name=page.filters["topic"])
    if "leader" in page.filters:
        rows = rows.filter(leader=page.filters["leader"])
    if "replica" in page.filters:
        rows = rows.filter(assigned__contains=[page.filters["replica"]])
    return rows


def _troubled(rows: QuerySet[Partition], state: str | None) -> QuerySet[Partition]:
    """As the page of the cluster counts: who is in the ISR without a session is not in sync."""
    if state == "offline":
        return rows.filter(leader=NO_LEADER)
    if state == "under-replicated":
        live = list(Broker.objects.filter(fenced=False).values_list("broker_id", flat=True))
        numbers = ArrayField(IntegerField())
        # What a reassignment is still adding owes nothing: as if it were in sync and live.
        rows = rows.annotate(
            in_sync=Func(F("isr"), F("adding"), function="array_cat", output_field=numbers),
            reached=Func(
                F("adding"), Value(live, output_field=numbers), function="array_cat", output_field=numbers
            ),
        )
        whole = Q(in_sync__contains=F("assigned"), reached__contains=F("assigned"))
        return rows.filter(~whole | Q(leader=NO_LEADER) | Exists(_LAGGING))
    return rows


def broker_tag(broker: Broker) -> str:
    """Its ETag without the quotes."""
    return f"{broker.broker_epoch}-{broker.metadata_version}"


def broker_shown(broker: Broker) -> dict[str, Any]:
    """A broker as REST tells it."""
    return {
        "broker_id": broker.broker_id,
        "state": state_of(broker).lower().replace(" ", "-"),
        "fenced": broker.fenced,
        "cordoned": broker.cordoned,
        "endpoints": broker.endpoints,
        "rack": broker.rack,
        "broker_epoch": broker.broker_epoch,
        "version": broker.metadata_version,
        "registered_at": broker.registered_at,
        "changed_at": broker.changed_at,
        "set_back": broker.set_back,
    }


def _shown_with_holdings(shown: Sequence[Broker]) -> Callable[[Broker], dict[str, Any]]:
    """How each of these brokers is told with what it holds, which is counted once for all of them."""
    everybody = list(Broker.objects.only("broker_id", "fenced"))
    # Where all are shown, to ask of each partition whose it is would be for nothing.
    whose = [broker.broker_id for broker in shown] if len(shown) < len(everybody) else None
    counts = held(live_ids(everybody), whose)

    def show(broker: Broker) -> dict[str, Any]:
        replicas, leaders, out_of_sync, size_bytes = counts.get(broker.broker_id, (0, 0, 0, None))
        told = {"leaders": leaders, "replicas": replicas, "out_of_sync": out_of_sync}
        return broker_shown(broker) | told | {"size_bytes": size_bytes}

    return show


def _shown_alone(broker: Broker) -> dict[str, Any]:
    """Without what it holds: that would tell of topics of others."""
    unsaid = dict.fromkeys(("leaders", "replicas", "out_of_sync", "size_bytes"))
    return broker_shown(broker) | unsaid


def topic_tag(topic: Topic) -> str:
    """Its ETag without the quotes: one created anew under the name has another id."""
    return f"{topic.topic_id}-{topic.metadata_version}"


def topic_shown(topic: Topic) -> dict[str, Any]:
    """A topic as REST tells it."""
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partitions": topic.partition_count,
        "replication_factor": topic.replication_factor,
        "configs": topic.configs,
        "version": topic.metadata_version,
        "created_at": topic.created_at,
    }


def shown_with_progress(rows: Sequence[Reassignment]) -> Callable[[Reassignment], dict[str, Any]]:
    """How each of these reassignments is told; how far they are is read once for all."""
    far, now = copying.of_moves([row.id for row in rows if row.phase == PHASES[1]]), database_clock.now()
    return lambda row: _reassignment_shown(row, copying.told(far.get(row.id), now))


def _reassignment_shown(row: Reassignment, far: dict[str, Any] | None) -> dict[str, Any]:
    """A reassignment as REST tells it."""
    return {
        "id": row.id,
        "topic": row.topic_name,
        "topic_id": row.topic_id,
        "partition": row.partition,
        "origin": row.origin,
        "target": row.target,
        "phase": row.phase,
        "reason": row.reason,
        "principal": row.principal,
        "throttle": row.throttle,
        "version": row.version,
        "asked_at": row.asked_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "copied_bytes": row.copied_bytes,
        "copying": far,
    }


def shown_with_logs(rows: Sequence[Partition]) -> Callable[[Partition], dict[str, Any]]:
    """How each of these partitions is told; what is the matter with their logs is read once for all."""
    ids = [row.id for row in rows]
    logs, lagging = conditions.of_partitions(ids, conditions.IN_TROUBLE), conditions.lagging(ids)
    return lambda row: _partition_shown(row, logs.get(row.id, ()), lagging.get(row.id, ()))


def _partition_shown(
    partition: Partition, logs: Sequence[conditions.LogRow], lagging: Sequence[int]
) -> dict[str, Any]:
    """A partition as REST tells it, with those of its logs that are in trouble."""
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
        "size_bytes": progress.size_bytes if progress else None,
        "offline_replicas": [log.broker_id for log in logs if log.state == conditions.OFFLINE],
        "damaged_replicas": [log.broker_id for log in logs if log.state == conditions.DAMAGED],
        "lagging_replicas": lagging,
    }
