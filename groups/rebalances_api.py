"""This room is the REST door of a group's rebalances, told from the journal."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.rest.paging import page_request, page_response
from access.rest.problems import Problem
from access.rest.shapes import list_schema
from groups.history import Rebalance
from groups.journal import rebalances_of
from groups.models import ConsumerGroup
from muster.kernel.error_codes import ErrorCode

TOLD = 500
"""More than the journal is folded for: a page never ends in the middle of what is told."""


class RebalanceShape(serializers.Serializer[Any]):
    """One attempt. `generation` is null while it is open and if it failed; lengths in milliseconds."""

    started = serializers.DateTimeField()
    cause = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)
    generation = serializers.IntegerField(allow_null=True)
    failed = serializers.BooleanField()
    open = serializers.BooleanField()
    members = serializers.IntegerField()
    moved = serializers.IntegerField()
    preparing_ms = serializers.FloatField()
    completing_ms = serializers.FloatField()
    length_ms = serializers.FloatField()


class RebalanceList(APIView):
    """The last rebalances of a group, newest first, as far back as its page looks."""

    @list_schema("List a group's rebalances", RebalanceShape)
    def get(self, request: Request, group: str) -> Response:
        page = page_request(request, ())
        found = None if "\x00" in group else ConsumerGroup.objects.filter(name=group).first()
        if found is None:
            raise Problem(404, "There is no such group.", ErrorCode.INVALID_GROUP_ID)
        skipped = int(page.after[0]) if page.after else 0
        told = list(enumerate(rebalances_of(found.name, found.shard, TOLD), start=1))[skipped:]
        return page_response(request, page, told, lambda row: [row[0]], lambda row: _shown(row[1]))


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
