"""This room is the REST door of requests to the controller: each write of the cluster is one."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import text_filter, word_filter
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import caller_of, refuse_beyond, require_whole_cluster
from access.rest.problems import RETRY_AFTER_S, Problem
from access.rest.shapes import Int32Field, StatedShape, detail_schema, example, lists
from access.rest.views import RestView
from access.tokens import Caller
from controller import asking, outcomes
from controller.asked_about import About, Verdict
from controller.outcomes import Outcome, Result
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import Wish
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from runtime.requests import AnotherAsked, TooManyOpen

REASON_LENGTH = 500

_STATUS_OF: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.BROKER_ID_NOT_REGISTERED: 404,
    ErrorCode.INVALID_UPDATE_VERSION: 412,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400,
    ErrorCode.INVALID_CONFIG: 400,
    ErrorCode.UNKNOWN_SERVER_ERROR: 503,
}
"""Other refusals are 409: the cluster's state does not allow it."""

_OF_THE_LINK = ("correlation_id", "type", "principal", "reason", "told_groups")
"""What a wish says for its road alone, or what the request says already."""

_ABOUT_PLANS: Final = (ProposePlan, ApprovePlan, RunPlan, PausePlan, CancelPlan, ThrottlePlan)

Current = Callable[[], tuple[Mapping[str, Any], str] | None]
"""The row as it is now and its tag, for a 412; None: it is not there."""


class AskedShape(StatedShape):
    """What all writes say: why."""

    reason = serializers.CharField(max_length=REASON_LENGTH)


class ResultShape(serializers.Serializer[Any]):
    """What became of one thing that the request names; `error` is Kafka's, null if it was done."""

    kind = serializers.CharField()
    name = serializers.CharField()
    partition = Int32Field(allow_null=True)
    topic_id = serializers.UUIDField(allow_null=True)
    error = serializers.CharField(allow_null=True)
    text = serializers.CharField(allow_blank=True)


class AboutShape(serializers.Serializer[Any]):
    """What a request names: `topic`, `partition`, `broker`, `plan` (by its id), `quota`, or the `cluster`."""

    kind = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    partition = Int32Field(allow_null=True)


@example(
    request="5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    kind="CreateTopics",
    principal="olga",
    reason="a topic for gates",
    verdict="done",
    state="answered",
    asked_at="2026-11-21T03:12:41Z",
    answered_at="2026-11-21T03:12:41Z",
    about=[{"kind": "topic", "name": "gates", "partition": None}],
    about_count=1,
)
class ListedRequestShape(serializers.Serializer[Any]):
    """A request to the controller in brief. `about`: the first three of `about_count` things it names."""

    request = serializers.UUIDField()
    kind = serializers.CharField()
    about = AboutShape(many=True)
    about_count = serializers.IntegerField()
    principal = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    verdict = serializers.ChoiceField(choices=[(one.value, one.value) for one in Verdict])
    state = serializers.ChoiceField(choices=[(one, one) for one in ("waiting", "answered", "failed")])
    asked_at = serializers.DateTimeField()
    answered_at = serializers.DateTimeField(allow_null=True)


@example(
    request="5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    kind="CreateTopics",
    wish={"topics": [{"name": "gates", "partition_count": 6, "replication_factor": 3}]},
    principal="olga",
    reason="a topic for gates",
    verdict="done",
    text="",
    results=[
        {
            "kind": "topic",
            "name": "gates",
            "partition": None,
            "topic_id": "4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
            "error": None,
            "text": "",
        }
    ],
    asked_at="2026-11-21T03:12:41Z",
    answered_at="2026-11-21T03:12:41Z",
)
class ControllerRequestShape(serializers.Serializer[Any]):
    """A request to the controller and what became of it; it is kept for 7 days."""

    request = serializers.UUIDField()
    kind = serializers.CharField()
    wish = serializers.DictField()
    principal = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    verdict = serializers.ChoiceField(choices=[(one.value, one.value) for one in Verdict])
    text = serializers.CharField(allow_blank=True)
    results = ResultShape(many=True)
    asked_at = serializers.DateTimeField()
    answered_at = serializers.DateTimeField(allow_null=True)


class ControllerRequestList(RestView):
    """Requests to the controller, newest first: those of everybody, or one's own if a token is bounded."""

    @lists(
        "List requests to the controller",
        ListedRequestShape,
        text_filter("contains", "In who asked, or why; in capitals or not."),
        word_filter("kind", outcomes.KINDS, "Only such requests."),
        word_filter("state", asking.STATES, "Only those; `answered` with or without refusals."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        caller = caller_of(request)
        after = (datetime.fromisoformat(page.after[0]), UUID(page.after[1])) if page.after else None
        whose = None if caller.is_unbounded else caller.principal
        rows = asking.requests_after(after, page.limit + 1, whose, **page.filters)
        return page_response(request, page, rows, _place, partial(_listed, caller))


class ControllerRequestDetail(RestView):
    """One request to the controller, and what became of it."""

    @detail_schema("Read a request to the controller", ControllerRequestShape)
    def get(self, request: Request, request_id: UUID) -> Response:
        caller = caller_of(request)
        row = asking.request_of(request_id)
        if row is None or not (caller.is_unbounded or row.principal == caller.principal):
            raise Problem(404, "There is no such request, or it was answered more than 7 days ago.")
        _refuse_beyond(caller, row.wish)
        return Response(request_shown(row, outcomes.of(row)))


def _refuse_beyond(caller: Caller, wish: Wish) -> None:
    """Its principal may have asked it by a wider token, or on a page. Raises Problem."""
    topics = outcomes.topics_of(wish)
    # A plan is about topics, whichever they are.
    if topics is None and not (isinstance(wish, _ABOUT_PLANS) and caller.topics.is_everything):
        require_whole_cluster(caller)
    for name in topics or ():
        refuse_beyond(caller, topic=name)


def _place(row: asking.ListedRequest) -> list[str]:
    return [row.asked_at.isoformat(), str(row.id)]


def ask(wish: Wish, caller: Caller, reason: str, key: str | None) -> asking.Request:
    """Ask the controller, and wait for its answer for a while. Raises Problem."""
    try:
        return asking.ask(wish, caller.principal, reason, key)
    except AnotherAsked as error:
        text = "This Idempotency-Key was given to another request."
        raise Problem(422, text, ErrorCode.INVALID_REQUEST) from error
    except TooManyOpen as error:
        raise Problem(429, "Too many of your requests have no answer yet.") from error
    except asking.Unstorable as error:
        raise Problem(400, "No name and no value may hold U+0000.", ErrorCode.INVALID_REQUEST) from error
    except asking.TooLarge as error:
        text = "The request is too large: ask for less at a time."
        raise Problem(413, text, ErrorCode.POLICY_VIOLATION) from error


def told(
    row: asking.Request,
    *,
    status: int = 200,
    made: Callable[[], dict[str, str]] = dict,
    current: Current | None = None,
) -> Response:
    """The answer to who asked: 202 while there is none, the problem that it is, else `status`.

    `made` gives the headers of what was made; `current` tells the row for a 412.
    """
    outcome = outcomes.of(row)
    address = reverse("api-controller-request", args=[row.id])
    if outcome.verdict is Verdict.FAILED:
        raise Problem(500, outcome.text, ErrorCode.UNKNOWN_SERVER_ERROR, request=str(row.id))
    shown = request_shown(row, outcome)
    if outcome.verdict is Verdict.WAITING:
        return Response(shown, status=202, headers={"Location": address})
    if outcome.verdict is Verdict.REFUSED:
        raise _problem(row, outcome.results, current)
    if outcome.verdict is Verdict.WOULD_BE_DONE:
        return Response(shown, headers={"Location": address})
    return Response(shown, status=status, headers={"Location": address} | made())


def _problem(row: asking.Request, results: tuple[Result, ...], current: Current | None) -> Problem:
    first = results[0]
    status = _STATUS_OF.get(first.error, 409)
    more: dict[str, Any] = {"request": str(row.id)}
    if len(results) > 1:
        more["results"] = [_result(one) for one in results]
    now = current() if status == 412 and current is not None else None
    if now is not None:
        more["current"] = now[0]
    problem = Problem(status, first.words, first.error, **more)
    if now is not None:
        problem.headers = {"ETag": f'"{now[1]}"'}
    elif status == 503:
        problem.headers = {"Retry-After": RETRY_AFTER_S}
    return problem


def request_shown(row: asking.Request, outcome: Outcome) -> dict[str, Any]:
    """One request as REST tells it."""
    wish = msgspec.to_builtins(row.wish, str_keys=True)
    return {
        "request": row.id,
        "kind": outcomes.kind_of(row.wish),
        "wish": {name: value for name, value in wish.items() if name not in _OF_THE_LINK},
        "principal": row.principal,
        "reason": row.reason,
        "verdict": outcome.verdict.value,
        "text": outcome.text,
        "results": [_result(one) for one in outcome.results],
        "asked_at": row.asked_at,
        "answered_at": row.answered_at,
    }


def _result(one: Result) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": one.name,
        "partition": one.partition,
        "topic_id": one.topic_id,
        "error": one.error.name if one.error else None,
        "text": one.words if one.error else one.text,
    }


def _listed(caller: Caller, row: asking.ListedRequest) -> dict[str, Any]:
    # Its principal may have asked it by a wider token, or on a page.
    told = [one for one in row.about if caller.is_unbounded or _may_be_told(caller, one)]
    return {
        "request": row.id,
        "kind": row.kind,
        "about": [{"kind": one.kind, "name": one.name, "partition": one.partition} for one in told],
        "about_count": row.about_count,
        "principal": row.principal,
        "reason": row.reason,
        "verdict": row.verdict.value,
        "state": "failed" if row.failed else "answered" if row.answered else "waiting",
        "asked_at": row.asked_at,
        "answered_at": row.answered_at,
    }


def _may_be_told(caller: Caller, one: About) -> bool:
    """Whether a bounded token is good for what one of its principal's requests names."""
    if one.kind in ("topic", "partition"):
        return caller.topics.covers(one.name)
    # A plan is about topics, whichever they are.
    return one.kind == "cluster" or (one.kind == "plan" and caller.topics.is_everything)
