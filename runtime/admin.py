"""This room shows leases, node runs, the journal and work due in Django's admin, read-only."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.functional import cached_property

from runtime.models import Cluster, JournalEntry, Lease, NodeIdentity, NodeSession, Refusal, WorkItem

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # Django's own class takes no type argument at run time
    ModelAdmin = admin.ModelAdmin


MOST_COUNTED = 10_000
"""Rows that a list of the admin counts; deeper pages would cost more than they tell: filter instead."""


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts at most MOST_COUNTED rows: an exact count of ten million turns is not worth its seconds."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, or MOST_COUNTED."""
        listed: Any = self.object_list
        return int(listed.order_by()[:MOST_COUNTED].count())


class ReadOnlyAdmin(ModelAdmin):
    """A ModelAdmin without add, change, delete and actions: every table has one writer elsewhere.

    Who may view is asked of the authentication backend, as Django does (`access.backends`).
    """

    actions = None
    list_per_page = 100
    show_full_result_count = False
    paginator = BoundedPaginator

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Only by what the list offers as a filter: any column would be one to guess secrets by."""
        offered = {getattr(named, "parameter_name", named) for named in self.list_filter}
        return lookup.partition("__")[0] in offered | {self.date_hierarchy}

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


@admin.register(NodeIdentity)
class NodeIdentityAdmin(ReadOnlyAdmin):
    list_display = ("node_id", "name", "given_at")
    search_fields = ("name",)


@admin.register(NodeSession)
class NodeSessionAdmin(ReadOnlyAdmin):
    list_display = (
        "node",
        "run",
        "ended",
        "draining",
        "renewals",
        "pid",
        "addresses",
        "version",
        "started_at",
    )
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


class LaneFilter(admin.SimpleListFilter):
    """The lanes as the leases name them: asking the journal which it holds would read all of it."""

    title = "lane"
    parameter_name = "lane"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in Lease.objects.order_by("name").values_list("name", flat=True)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(lane=self.value()) if self.value() else queryset


@admin.register(JournalEntry)
class JournalEntryAdmin(ReadOnlyAdmin):
    list_display = ("at", "lane", "seq", "key", "cause", "summary", "node")
    list_filter = (LaneFilter,)
    search_fields = ("key",)
    search_help_text = "A whole key (a group, or `cluster`), or a turn's id."
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without the records, which only the page of one turn shows: some are megabytes."""
        rows: QuerySet[Any] = super().get_queryset(request)
        match = request.resolver_match
        return rows.defer("records") if match and (match.url_name or "").endswith("_changelist") else rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Exactly this key, by its index; Django's own search would compare capitals, row by row."""
        if not search_term:
            return queryset, False
        try:
            return queryset.filter(turn_id=UUID(search_term)), False
        except ValueError:
            return queryset.filter(key=search_term), False


@admin.register(Refusal)
class RefusalAdmin(ReadOnlyAdmin):
    list_display = ("last_at", "lane", "key", "events", "error", "text", "number", "first_at", "node")
    list_filter = ("node",)


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
    search_fields = ("key__exact", "claimed_by__exact", "principal__exact")
