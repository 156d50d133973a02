"""This room is the REST door of a group's rebalances, told from the journal."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.paging import PageRequest, page_response
from access.rest.shapes import Int32Field, Int64Field, example, lists
from access.rest.views import RestView
from groups.history import Rebalance
from groups.journal import rebalances_of
from groups.members import find_group

TOLD = 500
"""More than the journal is folded for: a page never ends in the middle of what is told."""


@example(
    started="2026-11-21T03:12:41Z",
    cause="member joined",
    detail="cleo",
    generation=43,
    failed=False,
    open=False,
    members=3,
    moved=2,
    preparing_ms=980.0,
    completing_ms=260.0,
    length_ms=1240.0,
)
class RebalanceShape(serializers.Serializer[Any]):
    """One attempt; lengths in milliseconds. `generation` is null until one is opened.

    Of a classic group an attempt has `failed`, too, whose generation was never assigned.
    """

    started = serializers.DateTimeField()
    cause = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)
    generation = Int64Field(allow_null=True)
    failed = serializers.BooleanField()
    open = serializers.BooleanField()
    members = Int32Field()
    moved = Int32Field()
    preparing_ms = serializers.FloatField()
    completing_ms = serializers.FloatField()
    length_ms = serializers.FloatField()


class RebalanceList(RestView):
    """The last rebalances of a group, newest first, as far back as its page looks."""

    @lists("List rebalances of a group", RebalanceShape)
    def get(self, request: Request, page: PageRequest, group: str) -> Response:
        found = find_group(group)
        told = rebalances_of(found.name, found.shard, TOLD)
        if page.after:
            # Not so many rows further: others begin meanwhile. Nor by the time: a clock may be set back.
            # Where the last one told lies too far back by now, so do those that are older.
            starts = [one.started.isoformat() for one in reversed(told)]
            older = starts.index(page.after[0]) if page.after[0] in starts else 0
            told = told[len(told) - older :]
        return page_response(request, page, told, lambda row: [row.started.isoformat()], _shown)


def _shown(rebalance: Rebalance) -> dict[str, Any]:
    return {
        "started": rebalance.started,
        "cause": rebalance.cause,
        "detail": rebalance.detail,
        "generation": rebalance.generation,
        "failed": rebalance.failed,
        "open": rebalance.open,
        "members": rebalance.members,
        "moved": rebalance.moved,
        "preparing_ms": rebalance.preparing_ms,
        "completing_ms": rebalance.completing_ms,
        "length_ms": rebalance.length_ms,
    }
