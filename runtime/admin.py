"""This room shows leases, node runs, the journal and work due in Django's admin, read-only."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from runtime.models import Cluster, JournalEntry, Lease, NodeSession, WorkItem

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # Django's own class takes no type argument at run time
    ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(ModelAdmin):
    """A ModelAdmin without add, change, delete and actions: every table has one writer elsewhere.

    Who may view is asked of the authentication backend, as Django does (`access.backends`).
    """

    actions = None
    list_per_page = 100
    # An exact count of ten million journal rows is not worth its seconds.
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


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

    @admin.display(description="node", ordering="node")
    def held_by(self, lease: Any) -> str:
        """The node whose run holds it; empty: nobody."""
        return lease.node or ""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        holder = NodeSession.objects.filter(run=OuterRef("run"), ended=False).values("node")[:1]
        rows: QuerySet[Any] = super().get_queryset(request)
        annotated: QuerySet[Any] = rows.annotate(node=Subquery(holder))
        return annotated


@admin.register(JournalEntry)
class JournalEntryAdmin(ReadOnlyAdmin):
    list_display = ("at", "lane", "seq", "key", "cause", "summary", "node")
    list_filter = ("lane", "node")
    # A substring search over the whole journal would read all of it; keys are found by their index.
    search_fields = ("=key", "=turn_id")
    ordering = ("-id",)


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
