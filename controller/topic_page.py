"""This room renders topics: the list of all, and one whole, with its partitions, configs and what moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.cursors import NotOurs, opened, sealed
from access.filters import text_filter, word_filter
from access.grants import Operation
from access.pages import may, needs
from controller import conditions, findings, fingerprints, history, losses, move_queries, queries, standing
from controller.config_values import rows_of_topic
from controller.history_page import moment_of, topic_then
from controller.models import Topic
from controller.paging import asked_of, window

TOPICS_OF_A_PAGE = 100
PARTITIONS_OF_A_PAGE = 100
MOVES_SHOWN = 20
LOGS_SHOWN = 50
LOSSES_SHOWN = 10
SHOWS = ("all", "attention", "offline", "under-min-isr", "one-copy")
SORTS = ("name", queries.BY_SIZE, queries.BY_PARTITIONS)
_NARROWS = ("q", "show", "sort")


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of topics, and the addresses of the pages before and behind it; empty: there is none."""

    rows: list[queries.TopicRow]
    before: str
    following: str


@require_safe
@needs(Operation.VIEW)
def topic_list(request: HttpRequest) -> HttpResponse:
    """A page of topics by their names: how many partitions, how safe, what is set."""
    here = standing.of(request)
    asked = asked_of(
        request,
        "/topics/",
        text_filter("q", "Topic contains, in capitals or not."),
        word_filter("show", SHOWS, "Only topics with such partitions."),
        word_filter("sort", SORTS, "What the list is ordered by."),
        text_filter("after", "Where the page before ended.", 2048),
    )
    sort = asked.get("sort", SORTS[0])
    listed = _by_name(here, asked) if sort == SORTS[0] else _by_size(here, asked, sort)
    shown = listed.rows
    ids = [row.topic_id for row in shown]
    by_id, sizes = Topic.objects.in_bulk(ids), queries.sizes(ids)
    context = {
        "section": "topics",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "topics": Topic.objects.count(),
        "rows": [
            (row, by_id[row.topic_id], sizes.get(row.topic_id)) for row in shown if row.topic_id in by_id
        ],
        "contains": asked.get("q", ""),
        "show": asked.get("show", "all"),
        "shows": _choices(here.health),
        "first": listed.before,
        "next": listed.following,
        "sort": sort,
        "sorts": {name: _address(asked, sort="" if name == SORTS[0] else name) for name in SORTS},
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "controller/topics.html", context)


def _by_name(here: standing.ClusterStanding, asked: Mapping[str, Any]) -> Listed:
    """The topics behind the one at which the page before ended. Raises BadRequest."""
    contains, show = asked.get("q", ""), asked.get("show", "all")
    of = ["topic list", contains, show]
    try:
        after = opened(asked["after"], of)[0] if "after" in asked else ""
    except NotOurs as error:
        raise BadRequest(f"{error} Begin at /topics/.") from error
    rows = queries.topics(here.live, contains=contains, show=show, after=after, limit=TOPICS_OF_A_PAGE + 1)
    shown, follow = rows[:TOPICS_OF_A_PAGE], len(rows) > TOPICS_OF_A_PAGE
    following = _address(asked, after=sealed([shown[-1].name], of)) if follow else ""
    return Listed(shown, _address(asked) if after else "", following)


def _by_size(here: standing.ClusterStanding, asked: Mapping[str, Any], order: str) -> Listed:
    """The largest topics, those of the pages before left out."""
    rows, total = queries.largest_topics(
        here.live,
        contains=asked.get("q", ""),
        show=asked.get("show", "all"),
        order=order,
        first=asked.get("from", 0),
        limit=TOPICS_OF_A_PAGE,
    )
    pages = window(asked, TOPICS_OF_A_PAGE, total, **{name: asked.get(name, "") for name in _NARROWS})
    return Listed(rows, pages.before, pages.following)


def _address(asked: Mapping[str, Any], **changes: str) -> str:
    """The list's query string with some values changed, from its beginning."""
    said = {name: asked[name] for name in _NARROWS if name in asked} | changes
    return "?" + urlencode({name: value for name, value in said.items() if value})


@require_safe
@needs(Operation.VIEW)
def topic(request: HttpRequest, name: str) -> HttpResponse:
    """One topic: are its partitions safe, who leads them, what is set, what moves."""
    if "\x00" in name:
        raise Http404("no such topic")
    if (moment := moment_of(request, request.path)) is not None:
        return topic_then(request, name, moment)
    rendered = fingerprints.of_topics([name]).get(name, "")
    found = Topic.objects.filter(name=name).first() if rendered else None
    if found is None:
        raise Http404("no such topic")
    shows = word_filter("show", SHOWS, "Only such partitions.")
    asked = asked_of(request, request.path, shows)
    here, show = standing.of(request), asked.get("show", "all")
    row = queries.topic(here.live, found.topic_id, show)
    if row is None:
        raise Http404("deleted in this moment")
    pages = window(asked, PARTITIONS_OF_A_PAGE, row.matching, show=asked.get("show", ""))
    partitions = queries.partitions_of(here.live, [row], show, pages.first, pages.size, by_number=True)
    moves = move_queries.active(MOVES_SHOWN + 1, topic_id=found.topic_id)
    context = {
        "section": "topics",
        "watch": f"{fingerprints.TOPIC}{name}",
        "rendered": rendered,
        "here": here,
        "topic": found,
        "row": row,
        "partitions": here.with_logs(partitions.get(found.topic_id, [])),
        "pages": pages,
        "show": show,
        "shows": _choices(row),
        "findings": findings.of_topic(here.brokers, row),
        "configs": sorted(found.configs.items()),
        "others": [one for one in rows_of_topic(found) if not one.is_set],
        "size": queries.sizes([found.topic_id]).get(found.topic_id),
        "logs": conditions.logs(topic=name, limit=LOGS_SHOWN),
        "losses": losses.listed(topic=name, limit=LOSSES_SHOWN),
        "moves": moves[:MOVES_SHOWN],
        "more_moves": len(moves) > MOVES_SHOWN,
        "begins": history.begins(),
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "controller/topic.html", context)


def _choices(counted: queries.TopicRow | queries.Health) -> list[tuple[str, str, int]]:
    total = counted.partition_count if isinstance(counted, queries.TopicRow) else counted.partitions
    return [
        ("all", "All", total),
        ("attention", "Not in full sync", counted.under_replicated),
        ("offline", "Offline", counted.offline),
        ("under-min-isr", "Under min ISR", counted.under_min_isr),
        ("one-copy", "One copy left", counted.one_copy),
    ]
