"""This room is the REST door of operators' requests: ask something of a group, look at what became of it."""

import re
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from django.urls import reverse
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key, if_match_parameter, not_a_tag, tag_of
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import MayOperate, MayView, caller_of
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, Int64Field, StatedShape, WordField, detail_schema, example, lists
from access.rest.views import RestView
from access.tokens import Caller
from groups import asking
from groups.api import group_detail
from groups.core.requests import (
    ASSIGNORS,
    COPIES_MAX,
    PARTITIONS_MAX,
    QUARANTINE_MAX_MS,
    REBALANCE_MODES,
    RESETS,
    AnyWish,
    Asked,
    DeleteOffsets,
    ResetOffsets,
    Scope,
    UndoReset,
    Verdict,
    kind_of,
)
from groups.members import find_group
from groups.models import NAME_LENGTH
from muster.kernel.error_codes import ErrorCode
from runtime.requests import AnotherAsked, TooManyOpen

REASON_LENGTH = 500
MOST_CHANGES = 10_000
"""Partitions of which one page of requests tells; a request may tell of as many alone."""

MEMBER_LENGTH = 300
"""A member of Kafka's clients is its client.id, of 255 letters at most, a hyphen, and 36 by chance."""

TOPICS_MAX = 1_000
OFFSET_MAX = 2**62

_TAG = re.compile(r"(\d{1,19})-(\d{1,19})")
_STATUS_OF: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_MEMBER_ID: 404,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.LEADER_NOT_AVAILABLE: 503,
}
"""Other refusals are 409: the group's state does not allow it."""


class WishShape(StatedShape):
    """What all requests say: why, and whether only to look what would be done."""

    kind = serializers.CharField()
    reason = serializers.CharField(max_length=REASON_LENGTH)
    dry_run = serializers.BooleanField(default=False)

    def wish(self, group: str) -> AnyWish:
        """What is asked of the group, when it is valid. Raises Problem."""
        stated = {name: value for name, value in self.validated_data.items() if name not in _OF_ALL}
        wish: AnyWish = msgspec.convert(stated, AnyWish)
        return wish


_OF_ALL = ("reason", "dry_run")


class ScopeShape(StatedShape):
    """Partitions of a topic; without `partitions` all of them. A list of none is no way to say all."""

    topic = serializers.CharField(max_length=NAME_LENGTH)
    partitions = serializers.ListField(
        child=Int32Field(min_value=0), allow_empty=False, max_length=PARTITIONS_MAX, default=list
    )


@example(kind="remove_member", reason="it reads and never commits", member="cleo", quarantine_ms=600000)
class RemoveMemberWishShape(WishShape):
    """Cut a member off. Whoever comes under its name is refused for `quarantine_ms`, 7 days at most."""

    member = serializers.CharField(max_length=MEMBER_LENGTH, trim_whitespace=False)
    quarantine_ms = Int64Field(min_value=0, max_value=QUARANTINE_MAX_MS, default=0)


@example(kind="lift_quarantine", reason="it was mended", member="cleo")
class LiftQuarantineWishShape(WishShape):
    """Let whoever has this name come again."""

    member = serializers.CharField(max_length=MEMBER_LENGTH, trim_whitespace=False)


@example(kind="rebalance", reason="ann was given more memory")
class RebalanceWishShape(WishShape):
    """Ask for a rebalance now."""


@example(kind="set_strategy", reason="ranges for the join", assignor="range")
class SetStrategyWishShape(WishShape):
    """Assign otherwise from now on; what is left out stays.

    `copies` is for the redundant assignor: an owner, and so many less one that stand by.
    """

    assignor = WordField(ASSIGNORS, required=False)
    rebalance_mode = WordField(REBALANCE_MODES, required=False)
    copies = Int32Field(required=False, min_value=2, max_value=COPIES_MAX)


@example(kind="delete_group", reason="its program was retired")
class DeleteGroupWishShape(WishShape):
    """Delete a group that has no members, with its offsets."""


@example(kind="delete_offsets", reason="not read any more", scope=[{"topic": "flights"}])
class DeleteOffsetsWishShape(WishShape):
    """Delete committed offsets of topics that no member reads."""

    scope = serializers.ListField(child=ScopeShape(), allow_empty=False, max_length=TOPICS_MAX)


@example(kind="reset_offsets", reason="read it again", to="time", time="2026-11-21T00:00:00Z")
class ResetOffsetsWishShape(WishShape):
    """Set the committed offsets of a group without members.

    `to` takes `time` with `time`, `offset` with `offset`, `shift` with `by`, `group` with `from_group`.
    Without `scope` all topics are meant of which the group, or `from_group`, committed something. What lies
    outside of a log is moved to its nearer end, and said.
    """

    to = WordField(RESETS)
    time = serializers.DateTimeField(
        required=False, error_messages={"invalid": "Write a time like 2026-11-21T03:00:00Z."}
    )
    offset = Int64Field(required=False, min_value=0, max_value=OFFSET_MAX)
    by = Int64Field(required=False, min_value=-OFFSET_MAX, max_value=OFFSET_MAX)
    from_group = serializers.CharField(required=False, max_length=NAME_LENGTH, trim_whitespace=False)
    scope = serializers.ListField(child=ScopeShape(), allow_empty=False, max_length=TOPICS_MAX, default=list)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        needed = _TAKEN_BY.get(attrs["to"])
        for name in ("time", "offset", "by", "from_group"):
            if (name == needed) != (name in attrs):
                text = "It is needed." if name == needed else f"`to: {attrs['to']}` does not take it."
                raise serializers.ValidationError({name: text})
        if "time" in attrs and attrs["time"].timestamp() < 0:
            # To Kafka's ListOffsets -1 is the end, and -2 the beginning.
            raise serializers.ValidationError({"time": "It must not be before 1970."})
        return attrs

    def wish(self, group: str) -> AnyWish:
        stated = self.validated_data
        value = stated.get("offset", stated.get("by", 0))
        if "time" in stated:
            value = int(stated["time"].timestamp() * 1000)
        scope = tuple(Scope(one["topic"], tuple(one["partitions"])) for one in stated["scope"])
        return ResetOffsets(stated["to"], value, stated.get("from_group", ""), scope)


_TAKEN_BY = {"time": "time", "offset": "offset", "shift": "by", "group": "from_group"}


@example(kind="undo_reset", reason="it was the wrong group", request="5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11")
class UndoResetWishShape(WishShape):
    """Put back what was committed before a reset, unless something else was committed since."""

    request = serializers.UUIDField()

    def wish(self, group: str) -> AnyWish:
        done = asking.request_of(self.validated_data["request"])
        reset = done is not None and done.group == group and isinstance(done.asked.wish, ResetOffsets)
        if done is None or not reset or done.answer is None or done.answer.verdict is not Verdict.DONE:
            text = "`request` must name a reset of this group that was carried out."
            raise Problem(404, text, ErrorCode.INVALID_REQUEST)
        changes = tuple(one for one in done.answer.changes if one.before != one.after)
        return UndoReset(str(done.id), changes)


WISHES: Final[dict[str, type[WishShape]]] = {
    "remove_member": RemoveMemberWishShape,
    "lift_quarantine": LiftQuarantineWishShape,
    "rebalance": RebalanceWishShape,
    "set_strategy": SetStrategyWishShape,
    "delete_group": DeleteGroupWishShape,
    "delete_offsets": DeleteOffsetsWishShape,
    "reset_offsets": ResetOffsetsWishShape,
    "undo_reset": UndoResetWishShape,
}


class ChangeShape(serializers.Serializer[Any]):
    """A committed offset before and after; null where none is."""

    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    before = Int64Field(allow_null=True)
    after = Int64Field(allow_null=True)
    note = serializers.CharField(allow_blank=True)


@example(
    request="5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    group="departures",
    kind="delete_group",
    wish={"kind": "delete_group"},
    dry_run=False,
    principal="olga",
    reason="its program was retired",
    verdict="done",
    error=None,
    text="Deleted, with 6 committed offsets.",
    changes=[],
    asked_at="2026-11-21T03:12:41Z",
    answered_at="2026-11-21T03:12:41Z",
)
class RequestShape(serializers.Serializer[Any]):
    """A request and what became of it; `verdict` is null until the owner of the group has answered."""

    request = serializers.UUIDField()
    group = serializers.CharField()
    kind = serializers.CharField()
    wish = serializers.DictField()
    dry_run = serializers.BooleanField()
    principal = serializers.CharField()
    reason = serializers.CharField()
    verdict = serializers.ChoiceField([(one.value, one.value) for one in Verdict], allow_null=True)
    error = serializers.CharField(allow_null=True)
    text = serializers.CharField(allow_blank=True)
    changes = ChangeShape(many=True)
    asked_at = serializers.DateTimeField()
    answered_at = serializers.DateTimeField(allow_null=True)


class RequestList(RestView):
    """Requests about a group: they are decided by the owner of its shard, and kept for 7 days."""

    def get_permissions(self) -> list[BasePermission]:
        """Whoever may view sees what was asked; only operators ask."""
        return [MayOperate() if self.request.method == "POST" else MayView()]

    @lists("List requests about a group", RequestShape)
    def get(self, request: Request, page: PageRequest, group: str) -> Response:
        after = (datetime.fromisoformat(page.after[0]), UUID(page.after[1])) if page.after else None
        rows, more = asking.requests_of(find_group(group).name, after, page.limit, MOST_CHANGES)
        return page_response(
            request, page, rows, lambda row: [row.asked_at.isoformat(), str(row.id)], request_shown, more=more
        )

    @extend_schema(
        operation_id="ask_something_of_a_group",
        summary="Ask something of a group",
        description="The owner of the group decides it. Who does not hear its answer within 5 s gets 202 and"
        " the address where it will stand.",
        parameters=[if_match_parameter("the group"), IDEMPOTENCY_KEY],
        request=PolymorphicProxySerializer(
            component_name="GroupWish", serializers=dict(WISHES), resource_type_field_name="kind"
        ),
        responses={200: RequestShape, 202: RequestShape},
    )
    def post(self, request: Request, group: str) -> Response:
        caller, expected, key = caller_of(request), _expected(request), idempotency_key(request)
        asked, reason = asked_by(request.data, expected, group)
        _refuse_beyond(caller, asked.wish)
        try:
            found = find_group(group)
        except Problem:
            # It may be gone because this very request was carried out: who did not hear it asks again.
            before = asking.asked_before(group, asked, caller.principal, reason, key)
            if before is None:
                raise
            return _told(before, group, caller)
        try:
            row = asking.ask(found, asked, caller.principal, reason, key)
        except AnotherAsked as error:
            text = "This Idempotency-Key was given to another request."
            raise Problem(422, text, ErrorCode.INVALID_REQUEST) from error
        except TooManyOpen as error:
            raise Problem(429, "Too many of your requests have no answer yet.") from error
        return _told(row, group, caller)


class RequestDetail(RestView):
    """One request, and what became of it."""

    @detail_schema("Read a request", RequestShape)
    def get(self, request: Request, request_id: UUID) -> Response:
        row = asking.request_of(request_id)
        # Whoever may not know of its group is told as little as of one that is not there.
        if row is None or not caller_of(request).groups.covers(row.group):
            raise Problem(404, "There is no such request, or it was answered more than 7 days ago.")
        return Response(request_shown(row))


def _expected(request: Request) -> tuple[int, int] | None:
    said = tag_of(request, "the group")
    if said is None:
        return None
    tag = _TAG.fullmatch(said)
    if tag is None:
        raise not_a_tag("the group")
    return int(tag[1]), int(tag[2])


def asked_by(body: Any, expected: tuple[int, int] | None, group: str) -> tuple[Asked, str]:
    """The request that a body states, and its reason. Raises ValidationError, Problem."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind not in WISHES:
        text = f"`kind` must be one of {', '.join(WISHES)}."
        raise Problem(400, text, ErrorCode.INVALID_REQUEST)
    shape = WISHES[kind](data=body)
    shape.is_valid(raise_exception=True)
    stated = shape.validated_data
    return Asked(shape.wish(group), expected, stated["dry_run"]), stated["reason"]


def _refuse_beyond(caller: Caller, wish: AnyWish) -> None:
    """What a wish names beside its group, the token must be good for, too. Raises Problem."""
    if isinstance(wish, ResetOffsets) and wish.source and not caller.groups.covers(wish.source):
        text = f"The token is not good for group {wish.source}."
        raise Problem(403, text, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if isinstance(wish, ResetOffsets | DeleteOffsets):
        if not wish.scope and not caller.topics.is_everything:
            text = "The token is good for some topics only: name them in `scope`."
            raise Problem(403, text, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topics = [one.topic for one in wish.scope]
    else:
        topics = [one.topic for one in wish.changes] if isinstance(wish, UndoReset) else []
    for topic in topics:
        if not caller.topics.covers(topic):
            text = f"The token is not good for topic {topic}."
            raise Problem(403, text, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _told(row: asking.Request, group: str, caller: Caller) -> Response:
    """The answer to who asked: 200, 202 while there is none, or the problem that it is."""
    address = reverse("api-request", args=[row.id])
    if row.failed:
        raise Problem(500, row.failed, ErrorCode.UNKNOWN_SERVER_ERROR, request=str(row.id))
    if row.answer is None:
        return Response(request_shown(row), status=202, headers={"Location": address})
    if row.answer.verdict is Verdict.CHANGED_MEANWHILE:
        now = find_group(group)
        current = group_detail(now, caller.topics)
        problem = Problem(412, row.answer.text, request=str(row.id), current=current)
        problem.headers = {"ETag": f'"{now.generation}-{now.version}"'}
        raise problem
    if row.answer.verdict is Verdict.REFUSED:
        raise Problem(_STATUS_OF.get(row.error, 409), row.answer.text, row.error, request=str(row.id))
    return Response(request_shown(row), headers={"Location": address})


def request_shown(row: asking.Request) -> dict[str, Any]:
    """One request as REST tells it."""
    answer = row.answer
    return {
        "request": row.id,
        "group": row.group,
        "kind": kind_of(row.asked.wish),
        "wish": msgspec.to_builtins(row.asked.wish),
        "dry_run": row.asked.dry_run,
        "principal": row.principal,
        "reason": row.reason,
        "verdict": answer.verdict.value if answer else None,
        "error": row.error.name if row.error else None,
        "text": answer.text if answer else row.failed,
        "changes": [
            {
                "topic": one.topic,
                "topic_id": one.topic_id,
                "partition": one.partition,
                "before": None if one.before < 0 else one.before,
                "after": None if one.after < 0 else one.after,
                "note": one.note,
            }
            for one in (answer.changes if answer else ())
        ],
        "asked_at": row.asked_at,
        "answered_at": row.answered_at,
    }
