"""This room shows the rows of groups in Django's admin, read-only."""

from django.contrib import admin

from groups.models import (
    ClassicMember,
    CommittedOffset,
    ConsumerGroup,
    GroupMember,
    GroupQuarantine,
    PartitionOwnership,
)
from runtime.admin import ReadOnlyAdmin


@admin.register(ConsumerGroup)
class ConsumerGroupAdmin(ReadOnlyAdmin):
    list_display = ("name", "phase", "generation", "version", "protocol", "shard", "error", "changed_at")
    list_filter = ("phase", "protocol", "rebalance_mode", "ephemeral")
    search_fields = ("name", "error")


@admin.register(GroupMember)
class GroupMemberAdmin(ReadOnlyAdmin):
    list_display = (
        "member_id",
        "group_id",
        "client_id",
        "client_host",
        "node",
        "session_timeout_ms",
        "auto_commit",
        "auto_offset_reset",
        "joined_at",
        "registered_at",
    )
    list_filter = ("auto_offset_reset", "auto_commit", "node")
    search_fields = ("member_id", "group__name", "client_host", "client_id")
    # What a member proves itself with is nobody's to read.
    exclude = ("token_hash",)


@admin.register(ClassicMember)
class ClassicMemberAdmin(ReadOnlyAdmin):
    list_display = (
        "member_id",
        "group_instance_id",
        "group_id",
        "client_id",
        "client_host",
        "node",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "joined_at",
    )
    list_filter = ("node",)
    search_fields = ("member_id", "group_instance_id", "group__name", "client_host", "client_id")


@admin.register(PartitionOwnership)
class PartitionOwnershipAdmin(ReadOnlyAdmin):
    list_display = ("group_id", "topic_name", "partition", "copy", "owner", "state", "since_generation")
    list_filter = ("state",)
    search_fields = ("group__name", "topic_name", "owner")


@admin.register(CommittedOffset)
class CommittedOffsetAdmin(ReadOnlyAdmin):
    list_display = (
        "group_id",
        "topic_name",
        "partition",
        "offset",
        "leader_epoch",
        "version",
        "committed_at",
        "expires_at",
    )
    list_filter = ("committed_at",)
    search_fields = ("group__name", "topic_name")


@admin.register(GroupQuarantine)
class GroupQuarantineAdmin(ReadOnlyAdmin):
    list_display = ("group_id", "member_id", "length_ms", "why", "imposed_at")
    search_fields = ("group__name", "member_id")
