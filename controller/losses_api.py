"""This room is the REST door of elections that may have lost records: what they lost, and who has seen it."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import number_filter, text_filter, word_filter
from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import MayOperate, MayView, caller_of, refuse_beyond
from access.rest.shapes import Int32Field, Int64Field, StatedShape, example, lists
from access.rest.views import RestView
from controller import losses
from controller.requests_api import AskedShape, ControllerRequestShape, ask, told
from controller.topics_api import NAME_LENGTH
from muster.messages.link.losses import AcknowledgeLosses, NamedLoss

STATES = ("open", "acknowledged")
LOSSES_MAX = 1_000


class CutShape(serializers.Serializer[Any]):
    """What one replica held when it came to follow, and to where it was cut; null: it did not say.

    `cut_to` is null where nobody can tell: the new leader had deleted, by then, what both may have held, or
    the partition moved away from the replica before it followed. So is `end_offset` where the log could not
    be read, and is gone.
    """

    broker_id = Int32Field()
    end_offset = Int64Field(allow_null=True)
    cut_to = Int64Field(allow_null=True)
    records = Int64Field(allow_null=True)
    high_watermark = Int64Field(allow_null=True)
    size_bytes = Int64Field(allow_null=True)


@example(
    topic="flights",
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    partition=5,
    leader_epoch=7,
    leader=2,
    isr=[1],
    reason="unclean election asked for by olga",
    elected_at="2026-11-21T03:12:41Z",
    committed=10_240,
    committed_at="2026-11-21T03:10:02Z",
    start_offset=10_000,
    told_at="2026-11-21T03:12:41Z",
    lost=250,
    cuts=[
        {
            "broker_id": 1,
            "end_offset": 10_250,
            "cut_to": 10_000,
            "records": 250,
            "high_watermark": 10_250,
            "size_bytes": 25_600,
        }
    ],
    waits_for=[],
    acknowledged_at=None,
    acknowledged_by="",
    acknowledged_why="",
    version=88_020,
)
class LossShape(serializers.Serializer[Any]):
    """An election that may have lost records.

    `isr` held all that was committed. `committed`: up to where, as the last leader had said before.
    `start_offset`: where the new leader's log ended; null with `told_at`: it does not know any more.
    `lost`: how many committed records, at least; null: nobody can tell. `waits_for`: who has not told.
    """

    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    leader_epoch = Int32Field()
    leader = Int32Field()
    isr = serializers.ListField(child=Int32Field())
    reason = serializers.CharField()
    elected_at = serializers.DateTimeField()
    committed = Int64Field(allow_null=True)
    committed_at = serializers.DateTimeField(allow_null=True)
    start_offset = Int64Field(allow_null=True)
    told_at = serializers.DateTimeField(allow_null=True)
    lost = Int64Field(allow_null=True)
    cuts = CutShape(many=True)
    waits_for = serializers.ListField(child=Int32Field())
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    acknowledged_by = serializers.CharField(allow_blank=True)
    acknowledged_why = serializers.CharField(allow_blank=True)
    version = Int64Field()


class NamedLossShape(StatedShape):
    """One of them; `version`: of the one you know, null: whatever it is now."""

    topic = serializers.CharField(max_length=NAME_LENGTH)
    partition = Int32Field(min_value=0, max_value=2**31 - 1)
    leader_epoch = Int32Field(min_value=0, max_value=2**31 - 1)
    version = Int64Field(min_value=0, allow_null=True)


@example(
    losses=[{"topic": "flights", "partition": 5, "leader_epoch": 7, "version": 88_020}],
    reason="replayed from the source",
)
class AcknowledgedLossesShape(AskedShape):
    """Losses that somebody has seen: they are findings no more. What is told of them later is kept."""

    losses = serializers.ListField(child=NamedLossShape(), allow_empty=False, max_length=LOSSES_MAX)

    def wish(self) -> AcknowledgeLosses:
        """What is asked of the controller, when it is valid."""
        return AcknowledgeLosses(
            losses=tuple(
                NamedLoss(
                    topic=one["topic"],
                    partition=one["partition"],
                    leader_epoch=one["leader_epoch"],
                    expected_version=one["version"],
                )
                for one in self.validated_data["losses"]
            )
        )


class Losses(RestView):
    """Elections that may have lost records: viewers list them, operators acknowledge them."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @lists(
        "List what elections lost",
        LossShape,
        text_filter("topic", "Only of this topic."),
        number_filter("partition", "Only of partitions with this number.", bits=31),
        word_filter("state", STATES, "Only open ones, or only those that were acknowledged."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        caller = caller_of(request)
        refuse_beyond(caller, topic=page.filters.get("topic"))
        rows = losses.listed(
            topic=page.filters.get("topic"),
            partition=page.filters.get("partition"),
            state=page.filters.get("state"),
            scope=caller.topics,
            before=page.after[0] if page.after else None,
            limit=page.limit + 1,
        )
        return page_response(request, page, rows, lambda row: [row.row.id], _shown)

    @extend_schema(
        operation_id="acknowledge_what_elections_lost",
        summary="Acknowledge what elections lost",
        description="The controller decides it, each by itself. Who does not hear its answer within 5 s gets"
        " 202 and the address where it will stand.",
        parameters=[IDEMPOTENCY_KEY],
        request=AcknowledgedLossesShape,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def post(self, request: Request) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        shape = AcknowledgedLossesShape(data=request.data)
        shape.is_valid(raise_exception=True)
        for name in {one["topic"] for one in shape.validated_data["losses"]}:
            refuse_beyond(caller, topic=name)
        return told(ask(shape.wish(), caller, shape.validated_data["reason"], key))


def _known(told: int) -> int | None:
    """What the row says; it has −1 for what nobody could tell."""
    return told if told >= 0 else None


def _shown(one: losses.LossRow) -> dict[str, Any]:
    row = one.row
    return {
        "topic": row.topic_name,
        "topic_id": row.topic_id,
        "partition": row.partition,
        "leader_epoch": row.leader_epoch,
        "leader": row.leader,
        "isr": row.isr,
        "reason": row.reason,
        "elected_at": row.elected_at,
        "committed": row.committed,
        "committed_at": row.committed_at,
        "start_offset": row.start_offset,
        "told_at": row.told_at,
        "lost": one.lost,
        "cuts": [
            {
                "broker_id": cut.broker_id,
                "end_offset": _known(cut.end_offset),
                "cut_to": _known(cut.cut_to),
                "records": cut.records,
                "high_watermark": _known(cut.high_watermark),
                "size_bytes": _known(cut.size_bytes),
            }
            for cut in one.cuts
        ],
        "waits_for": one.waits_for,
        "acknowledged_at": row.acknowledged_at,
        "acknowledged_by": row.acknowledged_by,
        "acknowledged_why": row.acknowledged_why,
        "version": row.version,
    }
