"""This room is the REST door of the members of a group, and of what each owns."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.paging import PageRequest, page_response
from access.rest.permissions import caller_of
from access.rest.shapes import Int32Field, Int64Field, example, lists
from access.rest.views import RestView
from groups.members import OwningMember, find_group, members_after
from groups.models import ClassicMember, GroupMember

MOST_OWNED = 5_000
"""Owned partitions of a page; one member is told whatever it owns."""


class StandbyShape(serializers.Serializer[Any]):
    """A partition that another member owns, and that this one reads along."""

    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()


class OwnedShape(serializers.Serializer[Any]):
    """Of a classic member the generation is not known, and the id is null if there is no such topic.

    It is null as well where the token is not good for the topic: a leader may assign what it calls anything.
    """

    topic = serializers.CharField()
    topic_id = serializers.UUIDField(allow_null=True)
    partition = Int32Field()
    state = serializers.CharField()
    since_generation = Int64Field(allow_null=True)


@example(
    member="ann",
    client_id="departures 1.9.2",
    client_host="10.0.1.31",
    node="node-1",
    group_instance_id=None,
    session_timeout_ms=10000,
    rebalance_timeout_ms=None,
    auto_commit=True,
    auto_offset_reset="latest",
    strategies=[],
    subscription=[{"topic": "flights", "threads": 1}],
    rack="",
    stands_by=False,
    joined_at="2026-11-21T03:12:41Z",
    owns=[],
    standby_for=[],
)
class MemberShape(serializers.Serializer[Any]):
    """A member of either world. `strategies`, best first, the rebalance timeout and a static member's
    `group_instance_id` are classic; `auto_commit` and `auto_offset_reset`, null there, are native.

    `subscription` is null if what a classic member says can be read by nobody but its leader. `stands_by`
    says whether a native member may stand by, `standby_for` for what it does.
    """

    member = serializers.CharField()
    client_id = serializers.CharField(allow_blank=True)
    client_host = serializers.CharField(allow_blank=True)
    node = serializers.CharField(allow_blank=True)
    group_instance_id = serializers.CharField(allow_null=True)
    session_timeout_ms = Int32Field()
    rebalance_timeout_ms = Int32Field(allow_null=True)
    auto_commit = serializers.BooleanField(allow_null=True)
    auto_offset_reset = serializers.CharField(allow_null=True)
    strategies = serializers.ListField(child=serializers.CharField())
    subscription = serializers.JSONField(allow_null=True)
    rack = serializers.CharField(allow_blank=True)
    stands_by = serializers.BooleanField()
    joined_at = serializers.DateTimeField()
    owns = OwnedShape(many=True)
    standby_for = StandbyShape(many=True)


class MemberList(RestView):
    """The members of a group in the order of their ids; a page ends early when they own much."""

    @lists("List members of a group", MemberShape)
    def get(self, request: Request, page: PageRequest, group: str) -> Response:
        after = page.after[0] if page.after else ""
        rows, more = members_after(
            find_group(group), after, page.limit, MOST_OWNED, caller_of(request).topics
        )
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
        **(_native(member) if isinstance(member, GroupMember) else _classic(member, row)),
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
        "standby_for": [
            {"topic": one.topic_name, "topic_id": one.topic_id, "partition": one.partition}
            for one in row.standby_for
        ],
    }


def _native(member: GroupMember) -> dict[str, Any]:
    return {
        "group_instance_id": None,
        "rebalance_timeout_ms": None,
        "auto_commit": member.auto_commit,
        "auto_offset_reset": member.auto_offset_reset,
        "strategies": [],
        "subscription": member.subscription,
        "rack": member.rack,
        "stands_by": member.stands_by,
    }


def _classic(member: ClassicMember, row: OwningMember) -> dict[str, Any]:
    stated = row.stated
    return {
        "group_instance_id": member.group_instance_id,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "auto_commit": None,
        "auto_offset_reset": None,
        "strategies": member.protocol_names,
        "subscription": None if stated is None else [{"topic": topic} for topic in stated.topics],
        "rack": stated.rack if stated else "",
        "stands_by": False,
    }
