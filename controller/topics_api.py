"""This room is the REST door that creates, grows, shrinks and deletes topics; the controller decides."""

import re
from typing import Any, Final
from uuid import UUID

from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import UNSET
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.buckets import Buckets
from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key, if_match_parameter, not_a_tag, tag_of
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import MayOperate, MayView, caller_of, refuse_beyond
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, example, lists
from access.rest.views import RestView, query_of
from controller.api import (
    PartitionShape,
    TopicDetail,
    TopicList,
    partitions,
    shown_with_logs,
    topic_shown,
    topic_tag,
)
from controller.models import Topic
from controller.requests_api import REASON_LENGTH, AskedShape, ControllerRequestShape, ask, told
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import Scope
from muster.messages.link.from_broker import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    GrownTopic,
    NamedTopic,
    NewTopic,
    RemovePartitions,
)

NAME_LENGTH = 249
REPLICAS_MAX = 100
PARTITIONS_MAX = 10_000
CONFIGS_MAX = 100
CONFIG_LENGTH = 10_000

_TAG: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(\d{1,18})")

created_topics = Buckets(1_000, 5)
"""As at each Kafka door (kafkaserver.admin.creation_quota), here for each principal and web process."""

REASON = OpenApiParameter(
    "reason",
    OpenApiTypes.STR,
    required=True,
    description=f"Why, for the journal; 1 to {REASON_LENGTH} characters.",
)


class ReplicasField(serializers.ListField):
    """The brokers of one partition, its preferred leader first."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(child=Int32Field(min_value=0), min_length=1, max_length=REPLICAS_MAX, **arguments)


@example(
    topic="gates",
    partitions=6,
    replication_factor=3,
    configs={"retention.ms": "86400000"},
    reason="a topic for gates",
)
class NewTopicShape(AskedShape):
    """A topic to create. What is left out is the cluster's default; `assignments` excludes both numbers.

    `assignments[n]` are the brokers of partition n, its preferred leader first. `validate_only`: only judge.
    """

    topic = serializers.CharField(max_length=NAME_LENGTH)
    partitions = Int32Field(min_value=1, max_value=PARTITIONS_MAX, required=False)
    replication_factor = Int32Field(min_value=1, max_value=REPLICAS_MAX, required=False)
    assignments = serializers.ListField(
        child=ReplicasField(), allow_empty=False, max_length=PARTITIONS_MAX, required=False
    )
    configs = serializers.DictField(
        child=serializers.CharField(max_length=CONFIG_LENGTH, allow_blank=True), required=False
    )
    validate_only = serializers.BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if "assignments" in attrs and {"partitions", "replication_factor"} & attrs.keys():
            text = "It says how many partitions and replicas there are: leave both numbers out."
            raise serializers.ValidationError({"assignments": text})
        if len(attrs.get("configs", ())) > CONFIGS_MAX:
            raise serializers.ValidationError({"configs": f"At most {CONFIGS_MAX} configs."})
        return attrs

    def wish(self) -> CreateTopics:
        """What is asked of the controller, when it is valid."""
        stated = self.validated_data
        topic = NewTopic(
            name=stated["topic"],
            partition_count=stated.get("partitions", -1),
            replication_factor=stated.get("replication_factor", -1),
            assignments={number: tuple(of) for number, of in enumerate(stated.get("assignments", ()))},
            configs=dict(stated.get("configs", {})),
        )
        return CreateTopics(topics=(topic,), timeout_ms=0, validate_only=stated["validate_only"])


@example(partitions=12, reason="more gates")
class GrowthShape(AskedShape):
    """How many partitions a topic is to have, more than it has; `assignments`: brokers of each new one."""

    partitions = Int32Field(min_value=1, max_value=2**31 - 1)
    assignments = serializers.ListField(
        child=ReplicasField(), allow_empty=False, max_length=PARTITIONS_MAX, required=False
    )
    validate_only = serializers.BooleanField(default=False)

    def wish(self, topic: str, expected_version: int | None) -> CreatePartitions:
        """What is asked of the controller, when it is valid."""
        stated = self.validated_data
        given = stated.get("assignments")
        grown = GrownTopic(
            name=topic,
            partition_count=stated["partitions"],
            assignments=None if given is None else tuple(tuple(one) for one in given),
            expected_version=expected_version,
        )
        return CreatePartitions(topics=(grown,), timeout_ms=0, validate_only=stated["validate_only"])


@example(partitions=4, force=False, reason="fewer gates")
class RemovalShape(AskedShape):
    """How many partitions a topic is to have, fewer than it has: the highest ones are removed.

    `force`: although groups have not read all that is in them.
    """

    partitions = Int32Field(min_value=1, max_value=2**31 - 1)
    force = serializers.BooleanField(default=False)
    validate_only = serializers.BooleanField(default=False)

    def wish(self, topic: str, expected_version: int | None, told: Scope) -> RemovePartitions:
        """What is asked of the controller, when it is valid; `told`: the groups that may be named."""
        stated = self.validated_data
        return RemovePartitions(
            topic=topic,
            partition_count=stated["partitions"],
            force=stated["force"],
            expected_version=expected_version,
            validate_only=stated["validate_only"],
            told_groups=UNSET if told.is_everything else told.patterns,
        )


_ANSWERED_LATER = (
    "The controller decides it. Who does not hear its answer within 5 s gets 202 and the address where it"
    " will stand."
)


class Topics(TopicList):
    """Topics: viewers list them, operators create them."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @extend_schema(
        operation_id="create_a_topic",
        summary="Create a topic",
        description=f"{_ANSWERED_LATER} Its partitions have leaders a moment after the answer. 200: it was"
        " only judged (`validate_only`).",
        parameters=[IDEMPOTENCY_KEY],
        request=NewTopicShape,
        responses={200: ControllerRequestShape, 201: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def post(self, request: Request) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        shape = NewTopicShape(data=request.data)
        shape.is_valid(raise_exception=True)
        name = shape.validated_data["topic"]
        refuse_beyond(caller, topic=name)
        if not shape.validated_data["validate_only"] and (wait_s := created_topics.take(caller.principal)):
            text = f"Topics are created too quickly; ask again in {int(wait_s) + 1} s."
            problem = Problem(429, text, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            problem.headers = {"Retry-After": str(int(wait_s) + 1)}
            raise problem
        row = ask(shape.wish(), caller, shape.validated_data["reason"], key)
        return told(row, status=201, made=lambda: _headers_of(name))


class OneTopic(TopicDetail):
    """One topic: viewers read it, operators delete it."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "DELETE" else MayView()]

    @extend_schema(
        operation_id="delete_a_topic",
        summary="Delete a topic",
        description=f"{_ANSWERED_LATER} All its records, and what groups committed for it, are lost. It is"
        " named by its ETag in If-Match, or by `topic_id`.",
        parameters=[
            if_match_parameter("the topic", required=False),
            IDEMPOTENCY_KEY,
            REASON,
            OpenApiParameter("topic_id", OpenApiTypes.UUID, description="Only the topic that has this id."),
        ],
        request=None,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def delete(self, request: Request, topic: str) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        said = query_of(request, ("reason", "topic_id"))
        expected_id, expected_version = None, None
        if "topic_id" in said:
            expected_id = serializers.UUIDField().run_validation(said["topic_id"])
        if "topic_id" not in said or "If-Match" in request.headers:
            tagged_id, expected_version = expected_topic(request)
            if expected_id not in (None, tagged_id or expected_id):
                raise Problem(400, "If-Match and topic_id name different topics.", ErrorCode.INVALID_REQUEST)
            expected_id = expected_id or tagged_id
        named = NamedTopic(name=topic, expected_version=expected_version, expected_id=expected_id)
        row = ask(DeleteTopics(topics=(named,)), caller, reason_of(said), key)
        return told(row, current=lambda: topic_now(topic))


class TopicPartitions(RestView):
    """The partitions of one topic, as many as there are."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @lists("List partitions of a topic", PartitionShape)
    def get(self, request: Request, page: PageRequest, topic: str) -> Response:
        if topic_now(topic) is None:
            raise Problem(404, "There is no such topic.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        rows = partitions().filter(topic__name=topic).order_by("partition")
        if page.after:
            rows = rows.filter(partition__gt=page.after[0])
        found = list(rows[: page.limit + 1])
        return page_response(request, page, found, lambda row: [row.partition], shown_with_logs(found))

    @extend_schema(
        operation_id="add_partitions_to_a_topic",
        summary="Add partitions to a topic",
        description=f"{_ANSWERED_LATER} Keys are spread over all partitions: a key may be found in another"
        " one from then on. Fewer partitions are another request, and lose records.",
        parameters=[if_match_parameter("the topic"), IDEMPOTENCY_KEY],
        request=GrowthShape,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def post(self, request: Request, topic: str) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        _, expected_version = expected_topic(request)
        shape = GrowthShape(data=request.data)
        shape.is_valid(raise_exception=True)
        row = ask(shape.wish(topic, expected_version), caller, shape.validated_data["reason"], key)
        return told(row, made=lambda: _headers_of(topic), current=lambda: topic_now(topic))


class RemovedPartitions(RestView):
    """The highest partitions of one topic, to be removed."""

    permission_classes = (MayOperate,)

    @extend_schema(
        operation_id="remove_partitions_of_a_topic",
        summary="Remove the highest partitions of a topic",
        description=f"{_ANSWERED_LATER} Their records are lost, and what groups committed for them. Refused"
        " (409) while a group has not read all that is in them, unless it is forced. What is produced to"
        " them while it is asked may be lost as well. Partitions that are added later are others.",
        parameters=[if_match_parameter("the topic"), IDEMPOTENCY_KEY],
        request=RemovalShape,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def post(self, request: Request, topic: str) -> Response:
        caller, key = caller_of(request), idempotency_key(request)
        _, expected_version = expected_topic(request)
        shape = RemovalShape(data=request.data)
        shape.is_valid(raise_exception=True)
        wish = shape.wish(topic, expected_version, caller.groups)
        row = ask(wish, caller, shape.validated_data["reason"], key)
        return told(row, made=lambda: _headers_of(topic), current=lambda: topic_now(topic))


def expected_topic(request: Request) -> tuple[UUID | None, int | None]:
    """The id and the version of the topic that If-Match names; None: any. Raises Problem."""
    said = tag_of(request, "the topic")
    if said is None:
        return None, None
    tag = _TAG.fullmatch(said)
    if tag is None:
        raise not_a_tag("the topic")
    return UUID(tag[1]), int(tag[2])


def reason_of(said: dict[str, str]) -> str:
    """Why, from the address. Raises Problem."""
    reason = said.get("reason", "").strip()
    if not 1 <= len(reason) <= REASON_LENGTH or "\x00" in reason:
        raise Problem(400, f"Say why in the address, ?reason=…, in 1 to {REASON_LENGTH} characters.")
    return reason


def topic_now(name: str) -> tuple[dict[str, Any], str] | None:
    """The topic as it is now, and its tag."""
    found = Topic.objects.filter(name=name).first() if "\x00" not in name else None
    return None if found is None else (topic_shown(found), topic_tag(found))


def _headers_of(name: str) -> dict[str, str]:
    """Where the topic is found, and its tag."""
    found = topic_now(name)
    return {"Location": reverse("api-topic", args=[name])} | ({"ETag": f'"{found[1]}"'} if found else {})
