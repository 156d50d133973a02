"""This room is the REST door of how brokers are: disks, logs in trouble, clients that are made to wait."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import number_filter, text_filter, word_filter
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import caller_of, refuse_beyond, require_whole_cluster
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, Int64Field, detail_schema, example, lists
from access.rest.versions import versioned
from access.rest.views import RestView
from controller import conditions
from controller.models import Broker
from muster.kernel.client_quotas import KEYS
from muster.kernel.error_codes import ErrorCode


class DiskShape(serializers.Serializer[Any]):
    """The file system of its logs; since `short_since` less than the reserve is left: it takes no records."""

    total_bytes = Int64Field()
    usable_bytes = Int64Field()
    reserve_bytes = Int64Field()
    short_since = serializers.DateTimeField(allow_null=True)


class ThrottledShape(serializers.Serializer[Any]):
    """Whoever shares a quota and is made to wait; `user` or `client_id` null: whichever.

    `wait_ms` is what its latest answer said, `answers` how many said so since `since`.
    """

    user = serializers.CharField(allow_null=True)
    client_id = serializers.CharField(allow_null=True, allow_blank=True)
    quota = serializers.ChoiceField(choices=[(key, key) for key in KEYS])
    rate = Int64Field()
    wait_ms = Int64Field()
    answers = Int64Field()
    since = serializers.DateTimeField()


@example(
    broker_id=3,
    said_at="2026-11-21T03:12:41Z",
    disk={
        "total_bytes": 480_000_000_000,
        "usable_bytes": 38_100_000_000,
        "reserve_bytes": 1_073_741_824,
        "short_since": None,
    },
    logs_offline=0,
    logs_damaged=1,
    throttled=[
        {
            "user": "olga",
            "client_id": None,
            "quota": "producer_byte_rate",
            "rate": 10_485_760,
            "wait_ms": 812,
            "answers": 96,
            "since": "2026-11-21T03:11:02Z",
        }
    ],
    throttled_more=0,
    program="0.1.0+3f9ac21b",
)
class ConditionShape(serializers.Serializer[Any]):
    """How a broker is, as it said last; `said_at` null: it never said, `disk` null: it does not know.

    `program`: the version that it runs; null: one that does not say.
    """

    broker_id = Int32Field()
    said_at = serializers.DateTimeField(allow_null=True)
    disk = DiskShape(allow_null=True)
    logs_offline = Int32Field()
    logs_damaged = Int32Field()
    throttled = ThrottledShape(many=True)
    throttled_more = Int32Field()
    program = serializers.CharField(allow_null=True)


@example(
    topic="flights",
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    partition=5,
    broker_id=3,
    state="offline",
    why="not flushed: [Errno 5] Input/output error",
    since="2026-11-21T03:12:41Z",
)
class LogShape(serializers.Serializer[Any]):
    """The log of one partition on one live broker.

    `offline`: it can neither be read nor written; `damaged`: it lacks what it once held; `mended`: it did,
    and has copied it again.
    """

    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    broker_id = Int32Field()
    state = serializers.ChoiceField(choices=[(state, state) for state in conditions.TOLD])
    why = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField()


class BrokerConditionDetail(RestView):
    """How one broker is; the ETag changes with each of its words."""

    @detail_schema("Read the condition of a broker", ConditionShape)
    def get(self, request: Request, broker_id: int) -> Response:
        require_whole_cluster(caller_of(request))
        rows = Broker.objects.defer("secret_hash").select_related("condition")
        found = rows.filter(broker_id=broker_id).first() if broker_id < 2**31 else None
        if found is None:
            raise Problem(404, "There is no such broker.", ErrorCode.BROKER_ID_NOT_REGISTERED)
        offline, damaged = conditions.counts().get(broker_id, (0, 0))
        told = getattr(found, "condition", None)
        said = int(told.at.timestamp() * 1000) if told else 0
        waiting = conditions.throttled(told) if not found.fenced else []
        body = {
            "broker_id": broker_id,
            "said_at": told.at if told else None,
            "disk": None
            if told is None or told.disk_total_bytes is None
            else {
                "total_bytes": told.disk_total_bytes,
                "usable_bytes": told.disk_usable_bytes,
                "reserve_bytes": told.disk_reserve_bytes,
                "short_since": None if found.fenced else told.short_since,
            },
            "logs_offline": offline,
            "logs_damaged": damaged,
            "throttled": [_throttled(one) for one in waiting],
            "throttled_more": told.throttled_more if told and waiting else 0,
            "program": (told.version if told else "") or None,
        }
        return versioned(request, body, f"{found.broker_epoch}-{found.fenced:d}-{said}")


class LogList(RestView):
    """Logs of live brokers that are offline or were damaged, by topic, partition and broker."""

    @lists(
        "List logs in trouble",
        LogShape,
        text_filter("topic", "Only of this topic."),
        number_filter("broker", "Only of this broker."),
        word_filter("state", conditions.TOLD, "Only those in this state."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        caller = caller_of(request)
        refuse_beyond(caller, topic=page.filters.get("topic"))
        rows = conditions.logs(
            states=(page.filters["state"],) if "state" in page.filters else conditions.TOLD,
            broker_id=page.filters.get("broker"),
            topic=page.filters.get("topic"),
            scope=caller.topics,
            after=conditions.Place(*page.after) if page.after else None,
            limit=page.limit + 1,
        )
        return page_response(
            request, page, rows, lambda row: [row.topic_name, row.partition, row.broker_id], _log
        )


def _throttled(one: conditions.ThrottledRow) -> dict[str, Any]:
    return {
        "user": one.told.user,
        "client_id": one.told.client_id,
        "quota": one.told.quota,
        "rate": one.told.rate,
        "wait_ms": one.told.wait_ms,
        "answers": one.told.answers,
        "since": one.since,
    }


def _log(row: conditions.LogRow) -> dict[str, Any]:
    return {
        "topic": row.topic_name,
        "topic_id": row.topic_id,
        "partition": row.partition,
        "broker_id": row.broker_id,
        "state": row.state,
        "why": row.why,
        "since": row.since,
    }
