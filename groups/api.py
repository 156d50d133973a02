"""This room is the REST door of groups and committed offsets."""

from typing import Any

from django.db.models import Prefetch
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.rest.paging import PageRequest, page_request, page_response, whole_number
from access.rest.problems import Problem
from access.rest.shapes import detail_schema, list_schema, number_filter, text_filter, word_filter
from access.rest.versions import versioned
from groups import queries
from groups.models import NAME_LENGTH, ConsumerGroup, GroupMember, Phase
from groups.offset_queries import OffsetRow, offset_of, offsets_after
from muster.kernel.error_codes import ErrorCode


class GroupShape(serializers.Serializer[Any]):
    """A group of a list. `lag` counts what is known; `lag_unknown` how many partitions are not."""

    group = serializers.CharField()
    phase = serializers.ChoiceField(choices=[(phase, phase) for phase in Phase.values])
    protocol = serializers.CharField()
    generation = serializers.IntegerField()
    version = serializers.IntegerField()
    shard = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True)
    members = serializers.IntegerField()
    partitions = serializers.IntegerField()
    lag = serializers.IntegerField(allow_null=True)
    lag_unknown = serializers.IntegerField()
    changed_at = serializers.DateTimeField()


class OwnedShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = serializers.IntegerField()
    state = serializers.CharField()
    since_generation = serializers.IntegerField()


class MemberShape(serializers.Serializer[Any]):
    member = serializers.CharField()
    client_id = serializers.CharField(allow_blank=True)
    client_host = serializers.CharField(allow_blank=True)
    node = serializers.CharField(allow_blank=True)
    session_timeout_ms = serializers.IntegerField()
    auto_commit = serializers.BooleanField()
    auto_offset_reset = serializers.CharField()
    subscription = serializers.JSONField()
    joined_at = serializers.DateTimeField()
    owns = OwnedShape(many=True)


class GroupDetailShape(serializers.Serializer[Any]):
    """One group with its members and what they own. Its offsets are at /offsets?group=…"""

    group = serializers.CharField()
    phase = serializers.ChoiceField(choices=[(phase, phase) for phase in Phase.values])
    protocol = serializers.CharField()
    generation = serializers.IntegerField()
    version = serializers.IntegerField()
    shard = serializers.IntegerField()
    assignor = serializers.CharField()
    rebalance_mode = serializers.CharField()
    ephemeral = serializers.BooleanField()
    error = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    members = MemberShape(many=True)


class OffsetShape(serializers.Serializer[Any]):
    """A committed offset: the next record to read. `lag` is null if the end is not known."""

    group = serializers.CharField()
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    leader_epoch = serializers.IntegerField()
    metadata = serializers.CharField(allow_blank=True)
    version = serializers.IntegerField()
    committed_at = serializers.DateTimeField()
    high_watermark = serializers.IntegerField(allow_null=True)
    high_watermark_at = serializers.DateTimeField(allow_null=True)
    lag = serializers.IntegerField(allow_null=True)


class GroupList(APIView):
    """Groups in the order of their names."""

    @list_schema(
        "List groups",
        GroupShape,
        text_filter("q", "Group or topic contains."),
        word_filter("phase", tuple(Phase.values), "Only groups in this phase."),
        text_filter("topic", "Only groups that own or have committed partitions of this topic."),
        number_filter("lag_over", "Only groups whose known lag is at least this."),
    )
    def get(self, request: Request) -> Response:
        page = page_request(request, ("q", "phase", "topic", "lag_over"))
        after = page.after[0] if page.after else ""
        rows = queries.groups_by_name(_filter(page), after, page.limit + 1)
        return page_response(request, page, rows, lambda row: [row.name], _group)


class GroupDetail(APIView):
    """One group; its version rises with each turn."""

    @detail_schema("Read a group", GroupDetailShape)
    def get(self, request: Request, group: str) -> Response:
        found = _find(group)
        return versioned(request, _group_detail(found), f"{found.generation}-{found.version}")


class OffsetList(APIView):
    """Committed offsets in the order of group, topic, partition."""

    @list_schema(
        "List committed offsets",
        OffsetShape,
        text_filter("group", "Only this group."),
        text_filter("topic", "Only this topic."),
    )
    def get(self, request: Request) -> Response:
        page = page_request(request, ("group", "topic"))
        group, topic = page.filters.get("group"), page.filters.get("topic")
        rows = offsets_after(group, topic, tuple(page.after) if page.after else None, page.limit + 1)
        return page_response(request, page, rows, OffsetRow.key, _offset)


class OffsetDetail(APIView):
    """One committed offset; its version rises with each commit."""

    @detail_schema("Read a committed offset", OffsetShape)
    def get(self, request: Request, group: str, topic: str, partition: int) -> Response:
        fits = "\x00" not in group + topic and partition < 2**31
        row = offset_of(group, topic, partition) if fits else None
        if row is None:
            text = "The group has committed nothing for this partition."
            raise Problem(404, text, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return versioned(request, _offset(row), row.tag)


def _find(name: str) -> ConsumerGroup:
    if "\x00" not in name and len(name) <= NAME_LENGTH:
        members = GroupMember.objects.defer("token_hash").order_by("member_id")
        rows = ConsumerGroup.objects.prefetch_related(Prefetch("members", members), "ownership")
        found = rows.filter(name=name).first()
        if found is not None:
            return found
    raise Problem(404, "There is no such group.", ErrorCode.INVALID_GROUP_ID)


def _filter(page: PageRequest) -> queries.GroupFilter:
    phase = page.filters.get("phase")
    if phase is not None and phase not in Phase.values:
        raise Problem(400, f"phase must be one of {', '.join(Phase.values)}.", ErrorCode.INVALID_REQUEST)
    return queries.GroupFilter(
        page.filters.get("q", ""),
        (phase,) if phase else (),
        page.filters.get("topic", ""),
        whole_number(page.filters, "lag_over"),
    )


def _group(row: queries.GroupRow) -> dict[str, Any]:
    return {
        "group": row.name,
        "phase": row.phase,
        "protocol": row.protocol,
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


def _group_detail(group: ConsumerGroup) -> dict[str, Any]:
    owned: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(group.ownership.all(), key=lambda row: (row.topic_name, row.partition, row.copy)):
        owned.setdefault(row.owner, []).append(
            {
                "topic": row.topic_name,
                "topic_id": row.topic_id,
                "partition": row.partition,
                "state": row.state,
                "since_generation": row.since_generation,
            }
        )
    return {
        "group": group.name,
        "phase": group.phase,
        "protocol": group.protocol,
        "generation": group.generation,
        "version": group.version,
        "shard": group.shard,
        "assignor": group.assignor,
        "rebalance_mode": group.rebalance_mode,
        "ephemeral": group.ephemeral,
        "error": group.error,
        "created_at": group.created_at,
        "changed_at": group.changed_at,
        "members": [_member(member, owned.get(member.member_id, [])) for member in group.members.all()],
    }


def _member(member: GroupMember, owns: list[dict[str, Any]]) -> dict[str, Any]:
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
        "owns": owns,
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
