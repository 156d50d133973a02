"""This room is the REST door of groups and committed offsets."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import text_filter
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import caller_of, refuse_beyond
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, Int64Field, detail_schema, example, lists
from access.rest.versions import versioned
from access.rest.views import RestView
from groups import queries
from groups.filters import GROUP_FILTERS, group_filter
from groups.members import count_members, find_group, members_after
from groups.members_api import MemberShape, shown
from groups.models import ConsumerGroup, Phase, Protocol
from groups.offset_queries import OffsetRow, offset_of, offsets_after
from groups.waiting import waiting_of
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import Scope

MEMBERS_SHOWN = 100
OWNED_SHOWN = 1_000


@example(
    group="departures",
    phase="Stable",
    protocol="native",
    protocol_type="",
    generation=43,
    version=417,
    shard=39,
    error="",
    members=3,
    partitions=6,
    lag=32004,
    lag_unknown=0,
    changed_at="2026-11-21T03:12:41Z",
)
class GroupShape(serializers.Serializer[Any]):
    """A group of a list. `lag` counts what is known; `lag_unknown` how many partitions are not."""

    group = serializers.CharField()
    phase = serializers.ChoiceField(choices=[(phase, phase) for phase in Phase.values])
    protocol = serializers.ChoiceField(choices=[(protocol, protocol) for protocol in Protocol.values])
    protocol_type = serializers.CharField(allow_blank=True)
    generation = Int64Field()
    version = Int64Field()
    shard = Int32Field()
    error = serializers.CharField(allow_blank=True)
    members = Int32Field()
    partitions = Int32Field()
    lag = Int64Field(allow_null=True)
    lag_unknown = Int32Field()
    changed_at = serializers.DateTimeField()


class WaitingShape(serializers.Serializer[Any]):
    """For whom an open rebalance waits, as the group's owner said at `told_at`; the first 20 are named.

    They have to join, to give up partitions (a native group), or, in CompletingRebalance, to ask for their
    share. `arrived` have done it. It goes on without the others at `ends_at`.
    """

    members = serializers.ListField(child=serializers.CharField())
    missing = Int32Field()
    arrived = Int32Field()
    ends_at = serializers.DateTimeField(allow_null=True)
    told_at = serializers.DateTimeField()


@example(
    group="departures",
    phase="Stable",
    protocol="native",
    protocol_type="",
    generation=43,
    version=417,
    shard=39,
    waiting=None,
    assignor="sticky",
    rebalance_mode="incremental",
    copies=2,
    leader=None,
    ephemeral=False,
    error="",
    created_at="2026-11-21T03:12:41Z",
    changed_at="2026-11-21T03:12:41Z",
    member_count=0,
    members=[],
)
class GroupDetailShape(serializers.Serializer[Any]):
    """One group with its first members. All are at /members/{group}, its offsets at /offsets?group=…

    `protocol_type` is what the members of a classic group are, such as consumer; empty where only offsets are
    known. There `assignor` is the strategy that all members know, null while none is chosen, and `leader`
    the member that assigns; `rebalance_mode` is theirs, and null here, and so is `copies`, to how many
    members the redundant assignor gives a partition.

    `waiting` is null unless a rebalance has been open for a second or two, and waits for somebody.

    `members` ends after 100 of them, or when they own 1,000 partitions; `member_count` counts all.
    """

    group = serializers.CharField()
    phase = serializers.ChoiceField(choices=[(phase, phase) for phase in Phase.values])
    protocol = serializers.ChoiceField(choices=[(protocol, protocol) for protocol in Protocol.values])
    protocol_type = serializers.CharField(allow_blank=True)
    generation = Int64Field()
    version = Int64Field()
    shard = Int32Field()
    waiting = WaitingShape(allow_null=True)
    assignor = serializers.CharField(allow_null=True)
    rebalance_mode = serializers.CharField(allow_null=True)
    copies = Int32Field(allow_null=True)
    leader = serializers.CharField(allow_null=True)
    ephemeral = serializers.BooleanField()
    error = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    member_count = Int32Field()
    members = MemberShape(many=True)


@example(
    group="departures",
    topic="flights",
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    partition=5,
    offset=8407233,
    leader_epoch=-1,
    metadata="",
    version=2505,
    committed_at="2026-11-21T03:12:41Z",
    high_watermark=8434691,
    high_watermark_at="2026-11-21T03:12:41Z",
    lag=27458,
)
class OffsetShape(serializers.Serializer[Any]):
    """A committed offset: the next record to read. `lag` is null if the end is not known."""

    group = serializers.CharField()
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    offset = Int64Field()
    leader_epoch = Int32Field()
    metadata = serializers.CharField(allow_blank=True)
    version = Int64Field()
    committed_at = serializers.DateTimeField()
    high_watermark = Int64Field(allow_null=True)
    high_watermark_at = serializers.DateTimeField(allow_null=True)
    lag = Int64Field(allow_null=True)


class GroupList(RestView):
    """Groups in the order of their names."""

    @lists("List groups", GroupShape, *GROUP_FILTERS)
    def get(self, request: Request, page: PageRequest) -> Response:
        after, caller = page.after[0] if page.after else "", caller_of(request)
        refuse_beyond(caller, topic=page.filters.get("topic"))
        asked = group_filter(page.filters, caller.groups, caller.topics)
        rows = queries.groups_by_name(asked, after, page.limit + 1)
        return page_response(request, page, rows, lambda row: [row.name], _group)


class GroupDetail(RestView):
    """One group; its version rises with each turn."""

    @detail_schema("Read a group", GroupDetailShape)
    def get(self, request: Request, group: str) -> Response:
        found = find_group(group)
        told = group_detail(found, caller_of(request).topics)
        return versioned(request, told, f"{found.generation}-{found.version}")


class OffsetList(RestView):
    """Committed offsets in the order of group, topic, partition."""

    @lists(
        "List committed offsets",
        OffsetShape,
        text_filter("group", "Only this group."),
        text_filter("topic", "Only this topic."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        group, topic, caller = page.filters.get("group"), page.filters.get("topic"), caller_of(request)
        refuse_beyond(caller, group=group, topic=topic)
        after = tuple(page.after) if page.after else None
        rows = offsets_after(group, topic, after, page.limit + 1, (caller.groups, caller.topics))
        return page_response(request, page, rows, OffsetRow.key, _offset)


class OffsetDetail(RestView):
    """One committed offset; its version rises with each commit."""

    @detail_schema("Read a committed offset", OffsetShape)
    def get(self, request: Request, group: str, topic: str, partition: int) -> Response:
        fits = "\x00" not in group + topic and partition < 2**31
        row = offset_of(group, topic, partition) if fits else None
        if row is None:
            find_group(group)
            text = "The group has committed nothing for this partition."
            raise Problem(404, text, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return versioned(request, _offset(row), row.tag)


def _group(row: queries.GroupRow) -> dict[str, Any]:
    return {
        "group": row.name,
        "phase": row.phase,
        "protocol": row.protocol,
        "protocol_type": row.protocol_type,
        "generation": row.generation,
        "version": row.version,
        "shard": row.shard,
        "error": row.error,
        "members": row.members,
        "partitions": row.partitions,
        "lag": row.lag,
        "lag_unknown": row.unknown,
        "changed_at": row.changed_at,
    }


def group_detail(group: ConsumerGroup, topics: Scope) -> dict[str, Any]:
    """A group with its first members, as REST tells it to whoever may know of these topics."""
    members, _ = members_after(group, "", MEMBERS_SHOWN, OWNED_SHOWN, topics)
    native = group.protocol == Protocol.NATIVE
    return {
        "group": group.name,
        "phase": group.phase,
        "protocol": group.protocol,
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "version": group.version,
        "shard": group.shard,
        "waiting": _waiting(group),
        "assignor": group.assignor if native else group.protocol_name,
        "rebalance_mode": group.rebalance_mode if native else None,
        "copies": group.copies if native else None,
        "leader": None if native else group.leader,
        "ephemeral": group.ephemeral,
        "error": group.error,
        "created_at": group.created_at,
        "changed_at": group.changed_at,
        "member_count": count_members(group),
        "members": [shown(member) for member in members],
    }


def _waiting(group: ConsumerGroup) -> dict[str, Any] | None:
    told = waiting_of(group)
    if told is None:
        return None
    return {
        "members": told.waits_for,
        "missing": told.missing,
        "arrived": told.arrived,
        "ends_at": told.ends_at,
        "told_at": told.told_at,
    }


def _offset(row: OffsetRow) -> dict[str, Any]:
    return {
        "group": row.group,
        "topic": row.topic_name,
        "topic_id": row.topic_id,
        "partition": row.partition,
        "offset": row.offset,
        "leader_epoch": row.leader_epoch,
        "metadata": row.metadata,
        "version": row.version,
        "committed_at": row.committed_at,
        "high_watermark": row.high_watermark,
        "high_watermark_at": row.progress_at,
        "lag": row.lag,
    }
