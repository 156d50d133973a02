"""This room is the REST door of which processes run, and which version each."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import word_filter
from access.rest.paging import PageRequest, page_response
from access.rest.shapes import Int32Field, example, lists
from access.rest.views import RestView
from controller import processes


@example(
    kind="node", name="node-2", number=1, version="0.1.0+3f9ac21b", state="live", since="2026-11-21T03:12:41Z"
)
class ProcessShape(serializers.Serializer[Any]):
    """One process, or `number` of one kind and version on one host: web and workers have no other name.

    `version` null: one that does not say. `since`: when it began, as far as is known; of one that is `fenced`
    or `silent` when it was heard last. A `silent` node ended without a word, or hangs.
    """

    kind = serializers.ChoiceField(choices=[(kind, kind) for kind in processes.KINDS])
    name = serializers.CharField()
    number = Int32Field()
    version = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=[(state, state) for state in processes.STATES])
    since = serializers.DateTimeField(allow_null=True)


class ProcessList(RestView):
    """Who is still old, in the middle of an upgrade; who lost the database is seen when it works."""

    @lists("List processes", ProcessShape, word_filter("kind", processes.KINDS, "Only of this kind."))
    def get(self, request: Request, page: PageRequest) -> Response:
        kind = page.filters.get("kind")
        found = [one for one in processes.running() if kind in (None, one.kind)]
        first = int(page.after[0]) if page.after else 0
        rows = list(enumerate(found, 1))[first : first + page.limit + 1]
        return page_response(request, page, rows, lambda row: [row[0]], lambda row: _told(row[1]))


def _told(one: processes.Process) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": one.name,
        "number": one.number,
        "version": one.version or None,
        "state": one.state,
        "since": one.since,
    }
