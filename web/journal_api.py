"""This room is the REST door of the journal: what became true, turn by turn."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.rest.paging import page_request, page_response
from access.rest.shapes import list_schema, text_filter
from runtime.models import JournalEntry


class TurnShape(serializers.Serializer[Any]):
    """One turn. `seq` counts the turns of its lane without a gap; `records` are what it made true."""

    lane = serializers.CharField()
    seq = serializers.IntegerField()
    key = serializers.CharField()
    cause = serializers.CharField(allow_blank=True)
    summary = serializers.DictField()
    records = serializers.ListField(child=serializers.DictField())
    node = serializers.CharField()
    at = serializers.DateTimeField()


class Journal(APIView):
    """Turns, newest first."""

    @list_schema(
        "List turns",
        TurnShape,
        text_filter("lane", "Only this lane: `controller` or `coordinator/SHARD`."),
        text_filter("key", "Only turns about this key: a group, or `cluster`."),
    )
    def get(self, request: Request) -> Response:
        page = page_request(request, ("lane", "key"))
        rows = JournalEntry.objects.filter(**page.filters).order_by("-id")
        if page.after:
            rows = rows.filter(id__lt=page.after[0])
        return page_response(request, page, list(rows[: page.limit + 1]), lambda row: [row.id], _turn)


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
