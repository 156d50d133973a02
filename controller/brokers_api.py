"""This room is the REST door that cordons and unregisters brokers, and elects leaders."""

import re
from collections.abc import Sequence
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from msgspec import UNSET
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key, if_match_parameter, not_a_tag, tag_of
from access.rest.permissions import MayOperate, MayView, caller_of, refuse_beyond, require_whole_cluster
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, StatedShape, WordField, example
from access.rest.views import query_of
from controller import asking
from controller.api import BrokerDetail, PartitionList, broker_shown, broker_tag
from controller.models import Broker
from controller.requests_api import AskedShape, ControllerRequestShape, ask, told
from controller.topics_api import NAME_LENGTH, REASON, reason_of, topic_now
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.from_broker import ElectLeaders, Wish

PARTITIONS_MAX = 10_000

_TAG: Final = re.compile(r"\d{1,18}-(\d{1,18})")
_ANSWERS: Final = {200: ControllerRequestShape, 202: ControllerRequestShape}
_ANSWERED_LATER: Final = (
    "The controller decides it. Who does not hear its answer within 5 s gets 202 and the address where it"
    " will stand."
)


# ---------------------------------------------------------------------------------- brokers


@example(kind="cordon", reason="it gets new disks")
class BrokerWishShape(AskedShape):
    """`cordon`: it gets no new replicas, and keeps what it has; `uncordon`: it gets new ones again."""

    kind = WordField(("cordon", "uncordon"))


class OneBroker(BrokerDetail):
    """One broker: viewers read it, operators cordon and unregister it."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method in ("POST", "DELETE") else MayView()]

    @extend_schema(
        operation_id="cordon_or_uncordon_a_broker",
        summary="Cordon a broker, or lift its cordon",
        description=f"{_ANSWERED_LATER} A cordoned broker gets nothing new from placement, assignments, moves"
        " and plans.",
        parameters=[if_match_parameter("the broker"), IDEMPOTENCY_KEY],
        request=BrokerWishShape,
        responses=_ANSWERS,
    )
    def post(self, request: Request, broker_id: int) -> Response:
        expected = _expected(request)
        shape = BrokerWishShape(data=request.data)
        shape.is_valid(raise_exception=True)
        cordoned = shape.validated_data["kind"] == "cordon"
        wish = CordonBroker(broker_id=_checked(broker_id), cordoned=cordoned, expected_version=expected)
        return _asked(request, wish, broker_id, shape.validated_data["reason"])

    @extend_schema(
        operation_id="unregister_a_broker",
        summary="Unregister a broker",
        description=f"{_ANSWERED_LATER} Refused while the broker is live or still holds replicas: drain it"
        " and stop it first. Its secret opens nothing from then on, and moves that were to go there fail.",
        parameters=[if_match_parameter("the broker"), IDEMPOTENCY_KEY, REASON],
        request=None,
        responses=_ANSWERS,
    )
    def delete(self, request: Request, broker_id: int) -> Response:
        expected = _expected(request)
        wish = UnregisterBroker(broker_id=_checked(broker_id), expected_version=expected)
        return _asked(request, wish, broker_id, reason_of(query_of(request, ("reason",))))


def _asked(request: Request, wish: Wish, broker_id: int, reason: str) -> Response:
    caller, key = caller_of(request), idempotency_key(request)
    require_whole_cluster(caller)
    return told(ask(wish, caller, reason, key), current=lambda: _broker_now(broker_id))


def _checked(broker_id: int) -> int:
    """Raise Problem for what no broker can be called."""
    if broker_id >= 2**31:
        raise Problem(404, "There is no such broker.", ErrorCode.BROKER_ID_NOT_REGISTERED)
    return broker_id


def _expected(request: Request) -> int | None:
    """The version of the broker that If-Match names; None: any. Raises Problem."""
    said = tag_of(request, "the broker")
    if said is None:
        return None
    tag = _TAG.fullmatch(said)
    if tag is None:
        raise not_a_tag("the broker")
    return int(tag[1])


def _broker_now(broker_id: int) -> tuple[dict[str, Any], str] | None:
    found = Broker.objects.defer("secret_hash").filter(broker_id=broker_id).first()
    return None if found is None else (broker_shown(found), broker_tag(found))


# ---------------------------------------------------------------------------------- elections


class ElectedTopicShape(StatedShape):
    """Partitions of a topic; without `partitions` all that it has when this is asked for the first time."""

    topic = serializers.CharField(max_length=NAME_LENGTH)
    partitions = serializers.ListField(
        child=Int32Field(min_value=0), allow_empty=False, max_length=PARTITIONS_MAX, required=False
    )


@example(
    election="preferred",
    topics=[{"topic": "flights", "partitions": [0, 5]}],
    reason="broker 1 is back",
)
class ElectionShape(AskedShape):
    """Which leaders to elect; without `topics` the preferred ones of all partitions.

    `unclean`: any live replica where nobody leads, though it may lack committed records, which are lost then:
    the partitions must be named.
    """

    election = WordField(("preferred", "unclean"))
    topics = serializers.ListField(
        child=ElectedTopicShape(), allow_empty=False, max_length=PARTITIONS_MAX, required=False
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if attrs["election"] == "unclean" and "topics" not in attrs:
            text = "Name the partitions: an unclean election may lose records."
            raise serializers.ValidationError({"topics": text})
        return attrs

    def wish(self, before: Wish | None) -> ElectLeaders:
        """What is asked of the controller, when it is valid; `before`: what was, under the same key.

        Raises Problem, ValidationError.
        """
        stated = self.validated_data
        named, whole = None, ()
        if "topics" in stated:
            whole = tuple(one["topic"] for one in stated["topics"] if not one.get("partitions"))
            named = tuple(
                (one["topic"], number)
                for one in stated["topics"]
                for number in one.get("partitions") or _all_of(one["topic"], before)
            )
            if len(named) > PARTITIONS_MAX:
                raise serializers.ValidationError({"topics": f"At most {PARTITIONS_MAX} partitions."})
        return ElectLeaders(
            correlation_id=0,
            partitions=named,
            unclean=stated["election"] == "unclean",
            # Else a request for some partitions would answer this one under its key.
            whole_topics=whole or UNSET,
        )


def _all_of(topic: str, before: Wish | None) -> Sequence[int]:
    """The partitions of a topic: those it had when this was asked `before`, or has now. Raises Problem."""
    named = before.partitions if isinstance(before, ElectLeaders) else None
    if known := [number for name, number in named or () if name == topic]:
        return known
    now = topic_now(topic)
    if now is None:
        raise Problem(404, "There is no such topic.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return range(now[0]["partitions"])


class Partitions(PartitionList):
    """Partitions: viewers list them, operators elect their leaders."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @extend_schema(
        operation_id="elect_leaders",
        summary="Elect leaders",
        description=f"{_ANSWERED_LATER} Each partition is judged by itself: one that needs no election is"
        " told with ELECTION_NOT_NEEDED, which is no refusal.",
        parameters=[IDEMPOTENCY_KEY],
        request=ElectionShape,
        responses=_ANSWERS,
    )
    def post(self, request: Request) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        shape = ElectionShape(data=request.data)
        shape.is_valid(raise_exception=True)
        if "topics" in shape.validated_data:
            for name in {one["topic"] for one in shape.validated_data["topics"]}:
                refuse_beyond(caller, topic=name)
        else:
            require_whole_cluster(caller)
        before = asking.asked_under(caller.principal, key) if key is not None else None
        wish = shape.wish(before.wish if before is not None else None)
        return told(ask(wish, caller, shape.validated_data["reason"], key))
