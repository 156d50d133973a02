"""This room shows the rows of the heart in Django's admin, read-only: leases, node runs, journal, work due."""

from django.contrib import admin
from django.http import HttpRequest

from access.read_only import ReadOnlyAdmin
from runtime.models import Cluster, JournalEntry, Lease, NodeSession, WorkItem


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin):
    list_display = (
        "cluster_id",
        "metadata_version",
        "epoch_floor",
        "feature_level",
        "shard_count",
        "timeline",
    )


@admin.register(NodeSession)
class NodeSessionAdmin(ReadOnlyAdmin):
    list_display = ("node", "run", "ended", "draining", "renewals", "pid", "addresses", "started_at")
    list_filter = ("ended", "draining", "node")
    search_fields = ("node", "run")


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    list_display = ("name", "run", "epoch", "held_by")
    search_fields = ("name", "run")

    @admin.display(description="node")
    def held_by(self, lease: Lease) -> str:
        """The node whose run holds it; empty: nobody."""
        return self._nodes.get(lease.run or "", "")

    def get_queryset(self, request: HttpRequest):  # type: ignore[no-untyped-def]
        self._nodes = dict(NodeSession.objects.filter(ended=False).values_list("run", "node"))
        return super().get_queryset(request)


@admin.register(JournalEntry)
class JournalEntryAdmin(ReadOnlyAdmin):
    list_display = ("at", "lane", "seq", "key", "cause", "summary", "node")
    list_filter = ("lane", "node")
    # A substring search over the whole journal would read all of it; keys are found by their index.
    search_fields = ("=key", "=turn_id")
    ordering = ("-id",)
    show_full_result_count = False


@admin.register(WorkItem)
class WorkItemAdmin(ReadOnlyAdmin):
    list_display = (
        "offered_at",
        "kind",
        "key",
        "state",
        "lane",
        "based_on",
        "claim_epoch",
        "claimed_by",
        "finished_at",
        "error",
    )
    list_filter = ("state", "kind")
    search_fields = ("=key", "claimed_by", "principal")
