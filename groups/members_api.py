"""This room is the REST door of the members of a group, and of what each owns."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.rest.paging import PageRequest, page_response
from access.rest.shapes import Int32Field, Int64Field, example, lists
from groups.members import OwningMember, find_group, members_after

MOST_OWNED = 5_000
"""Owned partitions of a page; one member is told whatever it owns."""


class OwnedShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    state = serializers.CharField()
    since_generation = Int64Field()


@example(
    member="ann",
    client_id="departures 1.9.2",
    client_host="10.0.1.31",
    node="node-1",
    session_timeout_ms=10000,
    auto_commit=True,
    auto_offset_reset="latest",
    subscription=[{"topic": "flights", "threads": 1}],
    joined_at="2026-11-21T03:12:41Z",
    owns=[],
)
class MemberShape(serializers.Serializer[Any]):
    member = serializers.CharField()
    client_id = serializers.CharField(allow_blank=True)
    client_host = serializers.CharField(allow_blank=True)
    node = serializers.CharField(allow_blank=True)
    session_timeout_ms = Int32Field()
    auto_commit = serializers.BooleanField()
    auto_offset_reset = serializers.CharField()
    subscription = serializers.JSONField()
    joined_at = serializers.DateTimeField()
    owns = OwnedShape(many=True)


class MemberList(APIView):
    """The members of a group in the order of their ids; a page ends early when they own much."""

    @lists("List members of a group", MemberShape)
    def get(self, request: Request, page: PageRequest, group: str) -> Response:
        after = page.after[0] if page.after else ""
        rows, more = members_after(find_group(group), after, page.limit, MOST_OWNED)
        return page_response(request, page, rows, lambda row: [row.member.member_id], shown, more=more)


def shown(row: OwningMember) -> dict[str, Any]:
    """One member as REST tells it."""
    member = row.member
    return {
        "member": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "node": member.node,
        "session_timeout_ms": member.session_timeout_ms,
        "auto_commit": member.auto_commit,
        "auto_offset_reset": member.auto_offset_reset,
        "subscription": member.subscription,
        "joined_at": member.joined_at,
        "owns": [
            {
                "topic": owned.topic_name,
                "topic_id": owned.topic_id,
                "partition": owned.partition,
                "state": owned.state,
                "since_generation": owned.since_generation,
            }
            for owned in row.owned
        ],
    }
