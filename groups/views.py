"""This room renders the pages about groups: the list of all, and one group whole."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.cursors import NotOurs, opened, sealed
from access.filters import DoesNotFit, read_filters, word_filter
from access.grants import Operation
from access.pages import may, needs
from controller import standing as cluster_standing
from controller.findings import Finding
from groups import fingerprints, group_page, member_list, queries, standing
from groups.filters import GROUP_FILTERS, group_filter
from groups.models import ConsumerGroup, Protocol

ROWS_OF_A_PAGE = 100
KEPT_OUT_SHOWN = 100
KEPT_OUT_OPEN = 5
"""More are folded, and counted: a group keeps a thousand names out at most."""
_SORTS = ("lag", "name")
_FIRST, _REST = 0, 1
Key = tuple[int, int, str]
"""The place of a group in a list: needs attention or not, how urgent or −lag, name."""

_PROTOCOLS = (("", "Both protocols"), *((str(protocol), str(protocol).capitalize()) for protocol in Protocol))
_FILTERS = (
    *GROUP_FILTERS,
    word_filter("sort", _SORTS, "What the list is ordered by."),
    word_filter("attention", ("yes",), "Only groups that need attention."),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks of the list."""

    filter: queries.GroupFilter
    attention: bool
    sort: str

    @property
    def narrowed(self) -> bool:
        return self.attention or self.filter != queries.GroupFilter()

    @property
    def of(self) -> list[Any]:
        """What a cursor of this list is bound to: a place in another order or filter is none here."""
        return ["groups", self.address()]

    def address(self, **changes: Any) -> str:
        """This list's query string with some values changed; None leaves one out."""
        values: dict[str, Any] = {
            "q": self.filter.contains,
            "phase": list(self.filter.phases),
            "attention": "yes" if self.attention else "",
            "topic": self.filter.topic,
            "protocol": self.filter.protocol,
            "lag_over": self.filter.lag_over or "",
            "sort": self.sort if self.sort != _SORTS[0] else "",
        }
        values.update(changes)
        return "?" + urlencode({name: value for name, value in values.items() if value}, doseq=True)


@require_safe
@needs(Operation.VIEW)
def group_list(request: HttpRequest) -> HttpResponse:
    """A page of 100 groups: what needs attention first, then the largest lag, as the address asks."""
    try:
        asked = _asked(request)
        cursor = request.GET.get("after")
        after = opened(cursor, asked.of) if cursor else None
    except (DoesNotFit, NotOurs) as error:
        raise BadRequest(f"{error} Begin at /groups/.") from error
    here = standing.of(request)
    keys = _keys(asked, here)
    begin = bisect_right(keys, tuple(after)) if after else 0
    shown = keys[begin : begin + ROWS_OF_A_PAGE]
    more = len(keys) > begin + ROWS_OF_A_PAGE
    context = {
        "section": "groups",
        "watch": fingerprints.GROUPS,
        "rendered": here.fingerprint,
        "standing": here,
        "rows": [(row, here.by_group.get(row.name)) for row in _rows(shown)],
        "asked": asked,
        "phases": here.by_phase.items(),
        "protocols": _PROTOCOLS,
        "matching": len(keys),
        "next": asked.address(after=sealed(shown[-1], asked.of)) if more else "",
        "before": _before(keys, begin, asked),
        "by_lag": asked.address(sort=""),
        "by_name": asked.address(sort="name"),
    }
    return render(request, "groups/list.html", context)


@require_safe
@needs(Operation.VIEW)
def group_detail(request: HttpRequest, name: str) -> HttpResponse:
    """One group: is it consuming, who owns what, what moved and why."""
    group = ConsumerGroup.objects.filter(name=name).first() if "\x00" not in name else None
    if group is None:
        raise Http404("no such group")
    rendered = fingerprints.of_groups([name]).get(name, "")
    findings = standing.of(request).about(name, f"coordinator/{group.shard}")
    page = group_page.read(group, cluster_standing.of(request), _whole(request.GET.get("from")))
    word, place = request.GET.get("member", ""), _whole(request.GET.get("members"))
    listed = member_list.listed(page, word, place, **{"from": page.first})
    context = {
        "section": "groups",
        "watch": f"{fingerprints.GROUP}{name}",
        "rendered": rendered,
        "group": group,
        "findings": findings,
        "stalled": _stalled(findings),
        "page": page,
        "listed": listed,
        **_kept_out(group),
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "groups/detail.html", context)


def _kept_out(group: ConsumerGroup) -> dict[str, Any]:
    """Whom an operator keeps out: the first few, those that are folded, and how many more there are."""
    total = group.quarantines.count()
    shown = list(group.quarantines.all()[:KEPT_OUT_SHOWN])
    few = shown[:KEPT_OUT_OPEN]
    return {
        "kept_out": few,
        "kept_out_folded": shown[KEPT_OUT_OPEN:],
        "kept_out_besides": max(0, total - len(few)),
        "kept_out_unlisted": max(0, total - len(shown)),
    }


def _before(keys: Sequence[Key], begin: int, asked: Asked) -> str:
    """The address of the page before the one that begins at this place; empty on the first."""
    if begin == 0:
        return ""
    ends = begin - ROWS_OF_A_PAGE
    return asked.address(after=sealed(keys[ends - 1], asked.of)) if ends > 0 else asked.address()


def _stalled(findings: Sequence[Finding]) -> set[str]:
    return {row.name for one in findings if one.kind == "group_stalled" for row in one.facts["rows"]}


def _keys(asked: Asked, here: standing.GroupStanding) -> list[Key]:
    """The places of all groups that fit: what needs attention first, the rest by lag; or all by name.

    No rows yet: they are read for one page only.
    """
    least = asked.filter.lag_over
    if asked.sort == "name" and not asked.attention and least is None:
        return [(_REST, 0, name) for name in sorted(queries.names_of(asked.filter))]
    names = None if asked.filter.by_lag_alone else set(queries.names_of(asked.filter))
    listed = [
        (key, name)
        for key, name in here.by_lag
        if (names is None or name in names) and (least is None or -key >= least)
    ]
    if asked.sort == "name" and not asked.attention:
        return sorted((_REST, 0, name) for _, name in listed)
    fitting = {name for _, name in listed}
    first: list[Key] = [(_FIRST, place, name) for place, name in enumerate(here.by_group) if name in fitting]
    if asked.attention:
        return first
    return first + [(_REST, key, name) for key, name in listed if name not in here.by_group]


def _rows(keys: Sequence[Key]) -> list[queries.GroupRow]:
    """The rows at these places; a group that was deleted since is left out."""
    found = {row.name: row for row in queries.groups_named([name for _, _, name in keys])}
    return [found[name] for _, _, name in keys if name in found]


def _asked(request: HttpRequest) -> Asked:
    """What the address asks, read as REST reads it; several phases may be ticked. Raises DoesNotFit."""
    # A form sends its empty fields, too.
    values = {name: str(value).strip() for name, value in request.GET.items() if str(value).strip()}
    phases = dict.fromkeys(request.GET.getlist("phase"))
    asked = [read_filters({**values, "phase": phase}, _FILTERS) for phase in phases if phase]
    first = asked[0] if asked else read_filters(values, _FILTERS)
    found = replace(
        group_filter(first),
        phases=tuple(one["phase"] for one in asked),
        lag_over=first.get("lag_over") or None,
    )
    return Asked(found, "attention" in first, first.get("sort", _SORTS[0]))


def _whole(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else 0
