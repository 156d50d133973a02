"""This room renders the journal: who did what, when and why, newest first."""

from collections.abc import Container, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from access.cursors import NotOurs, opened, sealed
from access.filters import (
    DoesNotFit,
    moment_filter,
    number_filter,
    read_filters,
    text_filter,
    word_filter,
)
from access.grants import Operation
from access.pages import needs
from controller import history, standing
from groups.queries import groups_named
from web import journal_rows
from web.journal_rows import JOURNAL, KINDS, Page, Turn, Wanted

TURNS_OF_A_PAGE: Final = 50


_NARROWS: Final = (
    text_filter("group", "Only turns of this group."),
    text_filter("topic", "Only turns about this topic."),
    number_filter("broker", "Only turns about this broker."),
    text_filter("by", "Only what this principal asked for."),
    word_filter("kind", KINDS, "Only turns of this kind."),
    moment_filter("since", "Only from then on."),
    moment_filter("until", "Only up to then."),
)
_AFTER: Final = text_filter("after", "Where the page before ended.", 2048)


@require_safe
@needs(Operation.VIEW)
def journal(request: HttpRequest) -> HttpResponse:
    """Turns of the controller and of groups, with who asked for them, and links to what they are about."""
    stated = {name: str(value).strip() for name, value in request.GET.items() if str(value).strip()}
    narrowed = {one.name: stated[one.name] for one in _NARROWS if one.name in stated}
    try:
        asked = read_filters(stated, (*_NARROWS, _AFTER))
        before = opened(asked.pop("after"), _listed(narrowed))[0] if "after" in asked else None
    except (DoesNotFit, NotOurs) as error:
        raise BadRequest(f"{error} Begin at {request.path}.") from error
    live = before is None and "until" not in asked
    rendered = journal_rows.fingerprint() if live else ""
    found = journal_rows.page(Wanted(**asked, before=before), TURNS_OF_A_PAGE)
    context = {
        "section": "journal",
        "page": found,
        "days": _by_day(found.turns),
        "there": _there(request, found),
        "stated": narrowed,
        "narrowed": bool(narrowed),
        "kinds": [(word, KINDS[word][0]) for word in KINDS],
        "first": before is not None,
        "latest": _address(narrowed),
        "next": _address(narrowed, after=sealed([found.following], _listed(narrowed)))
        if found.following is not None
        else "",
    }
    if live:
        newest = found.turns[0].place if found.turns else 0
        seen = _seen(request, newest)
        newer = sum(turn.place > seen for turn in found.turns)
        more = newer == TURNS_OF_A_PAGE
        context |= {"watch": JOURNAL, "rendered": rendered, "seen": seen, "newer": newer, "newer_more": more}
    return render(request, "web/journal.html", context)


def _seen(request: HttpRequest, newest: int) -> int:
    """The newest turn that a page showed when it was opened: it says so when it reads itself again."""
    said = request.headers.get("X-Muster-Seen", "")
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else newest


def _listed(narrowed: Mapping[str, str]) -> list[Any]:
    return ["journal", sorted(narrowed.items())]


def _address(narrowed: Mapping[str, str], **more: str) -> str:
    return "?" + urlencode({**narrowed, **more})


def _by_day(turns: Any) -> list[tuple[datetime, list[Turn]]]:
    """The turns under the days on which they were taken, in the zone of the pages."""
    days: list[tuple[datetime, list[Turn]]] = []
    for turn in turns:
        at = timezone.localtime(turn.at)
        if not days or days[-1][0].date() != at.date():
            days.append((at, []))
        days[-1][1].append(turn)
    return days


def _there(request: HttpRequest, page: Page) -> dict[str, Container[Any]]:
    """What of the things that the turns name has a page now."""
    changed = [one for turn in page.turns for one in turn.changed]
    topics = history.topics_there(
        [*(topic for turn in page.turns for topic in turn.topics), *(one.topic for one in changed)]
    )
    plans = {plan for turn in page.turns for plan, *_ in turn.plans}
    groups = sorted({turn.key for turn in page.turns if turn.of_group})
    return {
        "groups": {row.name for row in groups_named(groups)},
        "topics": topics,
        "brokers": {row.broker.broker_id for row in standing.of(request).brokers},
        "partitions": {one.name for one in changed if one.number < topics.get(one.topic, 0)},
        "plans": history.plans_there(plans),
        "requests": {
            deed.request
            for turn in page.turns
            if not turn.of_group
            for deed in turn.deeds
            if _is_id(deed.request)
        },
    }


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
