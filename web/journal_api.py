"""This room is the REST door of the journal: what became true, turn by turn."""

from typing import Any

from django.db.models import Func, IntegerField, Q, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import text_filter
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import caller_of
from access.rest.shapes import Int64Field, example, lists
from access.rest.views import RestView
from access.scoped_rows import within
from access.tokens import Caller
from runtime.models import JournalEntry

LARGEST_PAGE_BYTES = 2_000_000
"""Of records as they lie in the table, compressed; one turn is shown however large it is."""


@example(
    lane="controller",
    seq=88411,
    key="cluster",
    cause="broker 3 has no session",
    summary={},
    records=[],
    node="node-1",
    at="2026-11-21T03:12:41Z",
)
class TurnShape(serializers.Serializer[Any]):
    """One turn. `seq` counts the turns of its lane without a gap; `records` are what it made true."""

    lane = serializers.CharField()
    seq = Int64Field()
    key = serializers.CharField()
    cause = serializers.CharField(allow_blank=True)
    summary = serializers.DictField()
    records = serializers.ListField(child=serializers.DictField())
    node = serializers.CharField()
    at = serializers.DateTimeField()


class Journal(RestView):
    """Turns, newest first."""

    @lists(
        "List turns",
        TurnShape,
        text_filter("lane", "Only this lane: `controller` or `coordinator/SHARD`."),
        text_filter("key", "Only turns about this key: a group, or `cluster`."),
    )
    def get(self, request: Request, page: PageRequest) -> Response:
        # Of one lane the numbers are read by their index; the ids would be looked through one by one.
        by = "seq" if "lane" in page.filters and "key" not in page.filters else "id"
        rows = _known_to(caller_of(request)).filter(**page.filters).order_by(f"-{by}")
        if page.after:
            rows = rows.filter(**{f"{by}__lt": page.after[0]})
        found, more = _light_enough(rows, page.limit)
        return page_response(request, page, found, lambda row: [getattr(row, by)], _turn, more=more)


def _known_to(caller: Caller) -> QuerySet[JournalEntry]:
    """All, or turns of groups for which the token is good.

    The controller's tell of topics of any name, of quotas by their users, and what others asked and heard.
    """
    if caller.is_unbounded:
        return JournalEntry.objects.all()
    return JournalEntry.objects.filter(Q(lane__startswith="coordinator/") & within(caller.groups, "key"))


def _light_enough(rows: QuerySet[JournalEntry], limit: int) -> tuple[list[JournalEntry], bool]:
    """The first rows, at most `limit`, whose records weigh LARGEST_PAGE_BYTES; True if more follow.

    A turn about ten thousand partitions weighs megabytes, and a page may ask for 500 turns.
    """
    weight = Func("records", function="pg_column_size", output_field=IntegerField())
    listed = list(rows.annotate(weight=weight).values_list("id", "weight")[: limit + 1])
    chosen: list[int] = []
    left = LARGEST_PAGE_BYTES
    for number, weighs in listed[:limit]:
        left -= weighs
        if chosen and left < 0:
            break
        chosen.append(number)
    whole = JournalEntry.objects.in_bulk(chosen)
    return [whole[number] for number in chosen if number in whole], len(listed) > len(chosen)


def _turn(row: JournalEntry) -> dict[str, Any]:
    return {
        "lane": row.lane,
        "seq": row.seq,
        "key": row.key,
        "cause": row.cause,
        "summary": row.summary,
        "records": row.records,
        "node": row.node,
        "at": row.at,
    }
