"""This room is the REST door that moves partitions to other brokers, and cancels such moves."""

import re
from typing import Final
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key, if_match_parameter, not_a_tag, tag_of
from access.rest.permissions import MayOperate, MayView, caller_of, refuse_beyond
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, Int64Field, StatedShape, detail_schema, example
from access.rest.versions import versioned
from access.rest.views import RestView, query_of
from controller import copying
from controller.api import ReassignmentList, ReassignmentShape, shown_with_progress
from controller.models import PHASES, Reassignment
from controller.requests_api import AskedShape, ControllerRequestShape, ask, told
from controller.topics_api import NAME_LENGTH, REASON, ReplicasField, reason_of
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import AlterReassignments, WantedReplicas

PARTITIONS_MAX = 10_000
THROTTLE_MAX = 2**53

_TAG: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(\d{1,18})(?:-\d{1,18})?")
_OVER: Final = PHASES[2:]


class TargetShape(StatedShape):
    """Where one partition is to be; null: cancel what moves it. `version`: of the partition you know."""

    topic = serializers.CharField(max_length=NAME_LENGTH)
    partition = Int32Field(min_value=0, max_value=2**31 - 1)
    replicas = ReplicasField(allow_null=True)
    version = Int64Field(min_value=0, allow_null=True)


@example(
    partitions=[{"topic": "flights", "partition": 5, "replicas": [4, 2, 3], "version": 88015}],
    throttle=50_000_000,
    reason="broker 1 is to be replaced",
)
class TargetsShape(AskedShape):
    """Partitions and where they are to be, each judged by itself; `version` null: whatever it is now.

    `throttle`: bytes a second that a broker may send, and that one may take, for these moves; 0: any.
    """

    partitions = serializers.ListField(child=TargetShape(), allow_empty=False, max_length=PARTITIONS_MAX)
    may_change_factor = serializers.BooleanField(default=False)
    throttle = Int64Field(min_value=0, max_value=THROTTLE_MAX, default=0)

    def wish(self) -> AlterReassignments:
        """What is asked of the controller, when it is valid."""
        stated = self.validated_data
        return AlterReassignments(
            partitions=tuple(
                WantedReplicas(
                    topic=one["topic"],
                    partition=one["partition"],
                    replicas=None if one["replicas"] is None else tuple(one["replicas"]),
                    expected_version=one["version"],
                )
                for one in stated["partitions"]
            ),
            may_change_factor=stated["may_change_factor"],
            throttle=stated["throttle"],
        )


class Reassignments(ReassignmentList):
    """Reassignments: viewers list them, operators ask for them."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @extend_schema(
        operation_id="move_partitions",
        summary="Move partitions to other brokers",
        description="The controller judges each partition by itself: 200 with `partly done` if it refuses"
        " some, a problem if it refuses all. The moves go on behind the answer. No answer within 5 s: 202.",
        parameters=[IDEMPOTENCY_KEY],
        request=TargetsShape,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def post(self, request: Request) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        shape = TargetsShape(data=request.data)
        shape.is_valid(raise_exception=True)
        for name in {one["topic"] for one in shape.validated_data["partitions"]}:
            refuse_beyond(caller, topic=name)
        return told(ask(shape.wish(), caller, shape.validated_data["reason"], key))


class OneReassignment(RestView):
    """One reassignment: viewers read it, operators cancel it."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "DELETE" else MayView()]

    @detail_schema("Read a reassignment", ReassignmentShape)
    def get(self, request: Request, move_id: UUID) -> Response:
        found = self._found(request, move_id)
        shown = shown_with_progress([found])(found)
        said_at = shown["copying"] and shown["copying"]["said_at"]
        return versioned(request, shown, f"{found.id}-{found.version}-{copying.version_of(said_at)}")

    @extend_schema(
        operation_id="cancel_a_reassignment",
        summary="Cancel a reassignment",
        description="The partition goes back to where it was, unless too few in-sync replicas would stay.",
        parameters=[if_match_parameter("the reassignment"), IDEMPOTENCY_KEY, REASON],
        request=None,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def delete(self, request: Request, move_id: UUID) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        said = tag_of(request, "the reassignment")
        tag = _TAG.fullmatch(said) if said is not None else None
        if said is not None and tag is None:
            raise not_a_tag("the reassignment")
        found = self._found(request, move_id)
        reason = reason_of(query_of(request, ("reason",)))
        # One that was cancelled under the same key is told again; any other that is over cannot be.
        is_other = tag is not None and (tag[1], int(tag[2])) != (str(found.id), found.version)
        if is_other and found.phase not in _OVER:
            text = f"The reassignment is at version {found.version} by now. Look at it, then ask again."
            problem = Problem(
                412, text, ErrorCode.INVALID_UPDATE_VERSION, current=shown_with_progress([found])(found)
            )
            problem.headers = {"ETag": f'"{found.id}-{found.version}"'}
            raise problem
        wanted = WantedReplicas(topic=found.topic_name, partition=found.partition, expected_move=found.id)
        return told(ask(AlterReassignments(partitions=(wanted,)), caller, reason, key))

    def _found(self, request: Request, move_id: UUID) -> Reassignment:
        found = Reassignment.objects.filter(id=move_id).first()
        # Whoever may not know of its topic is told as little as of one that is not there.
        if found is None or not caller_of(request).topics.covers(found.topic_name):
            text = "There is no such reassignment, or it ended more than 30 days ago."
            raise Problem(404, text, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return found
