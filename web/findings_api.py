"""This room is the REST door of what needs a person: the findings of the pages, in their words."""

from html import unescape
from typing import Any, Final, cast

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.html import strip_tags
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.paging import PageRequest, page_response
from access.rest.permissions import caller_of
from access.rest.shapes import example, lists
from access.rest.views import RestView
from access.tokens import Caller
from controller.findings import Finding
from groups import standing
from web import wording

_OF_ONE_GROUP: Final = "group_"
"""Kinds of findings that name one group, and what it consumes."""


@example(
    kind="broker_fenced",
    severity="warning",
    since="2026-11-21T03:04:27Z",
    what="Broker 3 is fenced",
    means="19 replicas, none in sync. 19 partitions are under-replicated; none is under min ISR.",
    because="The controller has no session with it at 10.0.0.3:9092.",
    may="Start the broker process again. It catches up and comes back into the ISR by itself.",
    groups=[],
)
class FindingShape(serializers.Serializer[Any]):
    """One thing that needs a person: what is wrong, since when, because of what, and what may be done.

    `kind` is its name in docs/operations.md; `since` null: nobody knows; `groups`: those that suffer from it.
    """

    kind = serializers.CharField()
    severity = serializers.ChoiceField(choices=[("critical", "critical"), ("warning", "warning")])
    since = serializers.DateTimeField(allow_null=True)
    what = serializers.CharField()
    means = serializers.CharField()
    because = serializers.CharField()
    may = serializers.CharField()
    groups = serializers.ListField(child=serializers.CharField())


class Findings(RestView):
    """What needs a person now, most urgent first; a token that names bound is told of its groups only."""

    @lists("List findings", FindingShape)
    def get(self, request: Request, page: PageRequest) -> Response:
        found = _known_to(caller_of(request), standing.of(cast(HttpRequest, request)).findings)
        first = int(page.after[0]) if page.after else 0
        rows = list(enumerate(found, 1))[first : first + page.limit + 1]
        return page_response(request, page, rows, lambda row: [row[0]], lambda row: _told(row[1]))


def _known_to(caller: Caller, found: list[Finding]) -> list[Finding]:
    """All of them; or those about one group that the token covers, which may consume any topic it covers."""
    if caller.is_unbounded:
        return found
    if not caller.topics.is_everything:
        return []
    return [
        one
        for one in found
        if one.kind.startswith(_OF_ONE_GROUP) and all(caller.groups.covers(name) for name in one.groups)
    ]


def _told(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "since": finding.since,
        **{part: _words(finding, part) for part in ("what", "means", "because", "may")},
        "groups": list(finding.groups),
    }


def _words(finding: Finding, part: str) -> str:
    """What the page says, without its links, and names in full."""
    with wording.in_full():
        shown = render_to_string(finding.what, {"finding": finding, "part": part})
    return " ".join(unescape(strip_tags(shown)).split())
