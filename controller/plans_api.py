"""This room is the REST door of plans: propose, look at cost and steps, approve, run, pause, cancel, undo."""

import re
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from django.urls import reverse
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import text_filter, word_filter
from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key, if_match_parameter, not_a_tag, tag_of
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import MayOperate, MayView, caller_of
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, Int64Field, StatedShape, WordField, detail_schema, example, lists
from access.rest.versions import versioned
from access.rest.views import RestView
from controller import copying, move_queries, plan_progress
from controller.models import PLAN_PHASES, STEP_STATES
from controller.plans_told import (
    ListedPlanShape,
    PlanShape,
    PlanStepShape,
    plan_listed,
    plan_shown,
    step_told,
)
from controller.reassignments_api import THROTTLE_MAX
from controller.requests_api import AskedShape, ControllerRequestShape, ask, told
from controller.topics_api import NAME_LENGTH, ReplicasField
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import Wish
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    PlanAnswer,
    PlanKind,
    PlannedMove,
    PlanOptions,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from runtime import database_clock
from runtime.models import Cluster

BROKERS_MAX = 1_000
TOPICS_MAX = 10_000
MOVES_MAX = 10_000
AT_A_TIME_MAX = 100_000

_TAG: Final = re.compile(r"\d{1,18}")


class PlannedMoveShape(StatedShape):
    """Where one partition is to be."""

    topic = serializers.CharField(max_length=NAME_LENGTH)
    partition = Int32Field(min_value=0, max_value=2**31 - 1)
    replicas = ReplicasField()


@example(kind="drain", brokers=[3], throttle=50_000_000, reason="broker 3 is to be replaced")
class NewPlanShape(AskedShape):
    """A plan to compute. `drain` and `fill` name brokers, `replication-factor` the factor, `undo` a plan.

    Without `topics` all are meant. `throttle`: bytes a second that a broker may send, and that one may take,
    for moves of the plan; 0: any. `at_a_time`: how many of its moves may be active; 0: as many as the
    controller allows.
    """

    kind = WordField([kind.value for kind in PlanKind])
    brokers = serializers.ListField(child=Int32Field(min_value=1), max_length=BROKERS_MAX, default=list)
    topics = serializers.ListField(
        child=serializers.CharField(max_length=NAME_LENGTH),
        allow_empty=False,
        max_length=TOPICS_MAX,
        default=list,
    )
    replication_factor = Int32Field(min_value=1, max_value=100, required=False)
    partitions = serializers.ListField(child=PlannedMoveShape(), max_length=MOVES_MAX, default=list)
    undoes = serializers.UUIDField(required=False)
    throttle = Int64Field(min_value=0, max_value=THROTTLE_MAX, default=0)
    at_a_time = Int32Field(min_value=0, max_value=AT_A_TIME_MAX, default=0)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        for name, kinds in _TAKEN_BY.items():
            if bool(attrs.get(name)) != (attrs["kind"] in kinds):
                text = "It is needed." if attrs["kind"] in kinds else f"`{attrs['kind']}` does not take it."
                raise serializers.ValidationError({name: text})
        return attrs

    def wish(self) -> ProposePlan:
        """What is asked of the controller, when it is valid."""
        stated = self.validated_data
        options = PlanOptions(
            kind=PlanKind(stated["kind"]),
            brokers=tuple(dict.fromkeys(stated["brokers"])),
            topics=tuple(dict.fromkeys(stated["topics"])),
            replication_factor=stated.get("replication_factor", 0),
            partitions=tuple(
                PlannedMove(topic=one["topic"], partition=one["partition"], replicas=tuple(one["replicas"]))
                for one in stated["partitions"]
            ),
            undoes=stated.get("undoes"),
        )
        return ProposePlan(
            options=options,
            throttle=stated["throttle"],
            at_a_time=stated["at_a_time"],
            reason=stated["reason"],
        )


_TAKEN_BY: Final = {
    "brokers": (PlanKind.DRAIN, PlanKind.FILL),
    "replication_factor": (PlanKind.REPLICATION_FACTOR,),
    "partitions": (PlanKind.EXPLICIT,),
    "undoes": (PlanKind.UNDO,),
}


class PlanChangeShape(AskedShape):
    """What all changes of a plan say."""

    kind = serializers.CharField()

    def wish(self, plan_id: UUID, expected_version: int | None) -> Wish:
        """What is asked of the controller, when it is valid."""
        stated = self.validated_data
        more = {name: stated[name] for name in ("moves", "throttle") if name in stated}
        made: Wish = _WISH_OF[stated["kind"]](
            plan_id=plan_id, expected_version=expected_version, reason=stated["reason"], **more
        )
        return made


@example(kind="approve", reason="looked through with ann")
class ApprovePlanShape(PlanChangeShape):
    """It was reviewed and may run."""


@example(kind="run", reason="the night shift is here")
class RunPlanShape(PlanChangeShape):
    """Begin, or go on after a pause."""


@example(kind="pause", reason="producers are slow")
class PausePlanShape(PlanChangeShape):
    """Ask for no more moves; those that are active go on."""


@example(kind="cancel", reason="broker 3 stays", moves=True)
class CancelPlanShape(PlanChangeShape):
    """End it. With `moves` its active moves end, too, and these partitions go back to where they were."""

    moves = serializers.BooleanField(default=False)


@example(kind="throttle", reason="the night is quiet", throttle=200_000_000)
class ThrottlePlanShape(PlanChangeShape):
    """Another rate in bytes a second, for its active moves at once; 0: any."""

    throttle = Int64Field(min_value=0, max_value=THROTTLE_MAX)


_CHANGES: Final[dict[str, type[PlanChangeShape]]] = {
    "approve": ApprovePlanShape,
    "run": RunPlanShape,
    "pause": PausePlanShape,
    "cancel": CancelPlanShape,
    "throttle": ThrottlePlanShape,
}
_WISH_OF: Final[dict[str, Callable[..., Any]]] = {
    "approve": ApprovePlan,
    "run": RunPlan,
    "pause": PausePlan,
    "cancel": CancelPlan,
    "throttle": ThrottlePlan,
}


class Plans(RestView):
    """Plans, proposed last first: viewers list them, operators propose them."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @lists(
        "List plans",
        ListedPlanShape,
        word_filter("phase", PLAN_PHASES, "Only those in this phase."),
        word_filter("kind", [kind.value for kind in PlanKind], "Only those of this kind."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        _refuse_narrow(request)
        after = (page.after[0], UUID(page.after[1])) if page.after else None
        phases = [page.filters["phase"]] if "phase" in page.filters else []
        rows = move_queries.plans(
            page.limit + 1, after=after, phases=phases, kind=page.filters.get("kind", "")
        )
        return page_response(
            request, page, rows, lambda row: [row.proposed_version, str(row.id)], plan_listed
        )

    @extend_schema(
        operation_id="propose_a_plan",
        summary="Propose a plan",
        description="A worker computes it; nothing moves before it was approved and run. Location is the"
        " plan, which is a Draft some seconds later. No answer within 5 s: 202.",
        parameters=[IDEMPOTENCY_KEY],
        request=NewPlanShape,
        responses={200: ControllerRequestShape, 201: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def post(self, request: Request) -> Response:
        _refuse_narrow(request)
        key = idempotency_key(request)
        shape = NewPlanShape(data=request.data)
        shape.is_valid(raise_exception=True)
        undoes = shape.validated_data.get("undoes")
        if undoes is not None:
            _require_over(undoes)
        row = ask(shape.wish(), caller_of(request), shape.validated_data["reason"], key)
        plan_id = row.answer.plan_id if isinstance(row.answer, PlanAnswer) else None
        return told(row, status=201, made=lambda: _headers_of(plan_id) if plan_id else {})


class OnePlan(RestView):
    """One plan: viewers read it, operators approve, run, pause, cancel it or give it another rate."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @detail_schema("Read a plan", PlanShape)
    def get(self, request: Request, plan_id: UUID) -> Response:
        _refuse_narrow(request)
        found = _found(plan_id)
        turn = Cluster.objects.values_list("metadata_version", flat=True).first() or 0
        counts = move_queries.step_counts(found)
        # Steps end, copies come, and whoever they come from or go to is lost, without a new version of it.
        ended = counts.done + counts.skipped + counts.cancelled + counts.failed
        progress = plan_progress.read(found, counts, database_clock.now())
        said = copying.version_of(progress.said_at)
        tag = f"{found.version}-{counts.asked}-{ended}-{said}-{turn if counts.asked else 0}"
        return versioned(request, plan_shown(found, counts, progress), tag)

    @extend_schema(
        operation_id="change_a_plan",
        summary="Approve, run, pause, cancel or throttle a plan",
        description="If-Match takes the ETag of the plan as it was reviewed; how far its steps are does not"
        " matter. To undo one that is over, propose a plan of the kind `undo`. No answer within 5 s: 202.",
        parameters=[if_match_parameter("the plan"), IDEMPOTENCY_KEY],
        request=PolymorphicProxySerializer(
            component_name="PlanChange", serializers=dict(_CHANGES), resource_type_field_name="kind"
        ),
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def post(self, request: Request, plan_id: UUID) -> Response:
        _refuse_narrow(request)
        key, expected = idempotency_key(request), _expected(request)
        kind = request.data.get("kind") if isinstance(request.data, dict) else None
        if not isinstance(kind, str) or kind not in _CHANGES:
            text = f"`kind` must be one of {', '.join(_CHANGES)}."
            raise Problem(400, text, ErrorCode.INVALID_REQUEST)
        shape = _CHANGES[kind](data=request.data)
        shape.is_valid(raise_exception=True)
        _found(plan_id)
        wish = shape.wish(plan_id, expected)
        row = ask(wish, caller_of(request), shape.validated_data["reason"], key)
        return told(row, made=lambda: _headers_of(plan_id), current=lambda: _now(plan_id))


class PlanSteps(RestView):
    """The steps of one plan in the order of asking: its diff, and what became of each."""

    @lists(
        "List steps of a plan",
        PlanStepShape,
        word_filter("state", STEP_STATES, "Only those in this state."),
        text_filter("topic", "Only of this topic."),
    )
    def get(self, request: Request, page: PageRequest, plan_id: UUID) -> Response:
        _refuse_narrow(request)
        _found(plan_id)
        rows = move_queries.steps(
            plan_id,
            page.limit + 1,
            after=page.after[0] if page.after else -1,
            state=page.filters.get("state", ""),
            topic=page.filters.get("topic", ""),
        )
        return page_response(request, page, rows, lambda row: [row.number], step_told)


def _refuse_narrow(request: Request) -> None:
    """A plan may name and move any topic. Raises Problem."""
    if not caller_of(request).topics.is_everything:
        text = "The token is good for some topics only, and a plan may be about any."
        raise Problem(403, text, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _expected(request: Request) -> int | None:
    """The plan's version: the first part of its ETag. Raises Problem."""
    said = tag_of(request, "the plan")
    if said is None:
        return None
    version = said.partition("-")[0]
    if not _TAG.fullmatch(version):
        raise not_a_tag("the plan")
    return int(version)


def _found(plan_id: UUID) -> move_queries.PlanRow:
    found = move_queries.plan(plan_id)
    if found is None:
        raise Problem(404, "There is no such plan, or it ended more than 30 days ago.")
    return found


def _require_over(plan_id: UUID) -> None:
    found = _found(plan_id)
    if not found.is_over:
        text = f"The plan that is to be undone is {found.phase}: cancel it first, or let it end."
        raise Problem(409, text, ErrorCode.INVALID_REQUEST)


def _now(plan_id: UUID) -> tuple[dict[str, Any], str] | None:
    """The plan as it is now, and its tag."""
    found = move_queries.plan(plan_id)
    return None if found is None else (plan_listed(found), str(found.version))


def _headers_of(plan_id: UUID) -> dict[str, str]:
    found = move_queries.plan(plan_id)
    address = {"Location": reverse("api-plan", args=[plan_id])}
    return address | ({"ETag": f'"{found.version}"'} if found else {})
