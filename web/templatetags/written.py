"""This room gives templates the wording of pages: counts, ages, times, marks of states."""

import re
from collections.abc import Iterable
from datetime import datetime

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from access import typed
from access.confirming import scripts_of, written_out
from controller import outcomes
from controller.findings import Finding
from muster.kernel.instants import spelled
from runtime import database_clock
from web import wording

register = template.Library()

register.filter("count", wording.count)
register.filter("size", wording.size)
register.filter("mean", wording.mean)
register.filter("took", wording.length)
register.filter("duration", spelled)
register.filter("straight", wording.straight)
register.filter("middle_cut", wording.middle_cut)
register.filter("written_out", written_out)
register.filter("scripts_of", scripts_of)
register.filter("asked_for", outcomes.title_of)

MARKS = {
    "Stable": "stable",
    "PreparingRebalance": "preparing",
    "CompletingRebalance": "completing",
    "Empty": "empty",
    "Dead": "dead",
    "Live": "stable",
    "Fenced": "warn",
    "Never connected": "empty",
}
_END, _END_OF_NAME = 5, 9
"""Letters of an id, and of a name, that are drawn last wherever there is room for them."""

_BEGINNING = 4
"""So many letters of a name are not among those that are drawn last."""

_SHORT = 8
"""A name of so many letters is not cut anywhere."""

_LONGEST_WHOLE = 60
"""So many letters of a name a telephone shows on as many lines as they take; of more it cuts the middle."""

_LONGEST_NAME = 10_000
_HYPHEN_WITHIN_A_LINE = "-\u2060"
_ONE_LINE = '<span class="{}" data-start="{}" data-end="{}"><span>{}</span></span>'
_BRIEF = '<span class="brief" data-shown="{}" title="{}"><span class="vh">{}</span></span>'

_HYPHENS = re.compile(r"(-+(?:[^-\s][\u0300-\u036f]*)?)")
"""A hyphen with what must stay behind it, a letter with its accents."""

_GROUPS_OF_A_LINE = 4
"""Of three digits each, that a number may have on a line of a narrow table."""

_IN_SYNC, _IN_SYNC_NARROW = '{}<span class="of"> of </span>{}', "{}/{}"

SEVERITY_MARKS = {"critical": "bad", "warning": "warn"}


@register.filter
def mark(state: str) -> str:
    """The shape of a state; an unknown state is a dashed ring, never a disc."""
    return MARKS.get(state, SEVERITY_MARKS.get(state, "unknown"))


@register.filter
def offline_for(finding: Finding, group: str) -> int:
    """How many of the partitions that a finding says are offline the group waits for."""
    return len(finding.facts["waits"].get(group, ()))


@register.simple_tag
def moment(at: datetime | None) -> SafeString | str:
    """A `time` element: the clock on the page, the exact time and offset on hover."""
    if at is None:
        return "never"
    exact = at.astimezone(timezone.get_current_timezone())
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        exact.isoformat(timespec="seconds"),
        exact.strftime("%Y-%m-%d %H:%M:%S %Z"),
        wording.clock(at, timezone.localtime()),
    )


@register.simple_tag(takes_context=True)
def way_back(context: Context) -> SafeString | str:
    """Of a form that was sent: where the page's script leads Back and a reload (`access.typed.way_back`)."""
    request = context["request"]
    query = typed.way_back(request.POST) if request.method == "POST" else None
    return "" if query is None else format_html(' data-way-back="?{}"', query)


@register.simple_tag
def age(at: datetime | None) -> SafeString | str:
    """An age that the page's script counts on, also while nothing is connected."""
    if at is None:
        return "never"
    return format_html(
        '<span data-since="{}">{}</span>', int(at.timestamp() * 1000), wording.age(at, database_clock.now())
    )


@register.simple_tag
def ended(identifier: str, longest: int) -> SafeString | str:
    """An id in a narrow place: its middle is left out, and with less room more of it: ends tell ids apart."""
    return one_line(identifier, _END, longest)


@register.filter
def one_line(name: str, end: int = _END_OF_NAME, longest: int = _LONGEST_NAME) -> SafeString | str:
    """A name on one line of a cell, which loses its middle where it has no room, or is longer than `longest`.

    Of its two pieces the second, of at least `end` letters, gives way last. The whole lies over them unseen,
    for a search in the page, a copy, and who listens. In a narrow table most names go on in a second line.
    """
    name = wording.straight(name)
    if len(name) <= _SHORT:
        return name
    place = wording.seam(name, max(len(name) - end, _BEGINNING))
    start = name[:place] if len(name) <= longest else f"{name[: longest - end - 1]}…"
    kind = "cut long" if len(name) > min(_LONGEST_WHOLE, longest) else "cut"
    return format_html(_ONE_LINE, kind, start, name[place:], name)


@register.filter
def brief(text: str, longest: int = 40) -> SafeString | str:
    """Words on a line of their own or within a sentence, their middle left out if they are long.

    As `one_line`: the whole stands there unseen, and on hover.
    """
    shown, whole = wording.middle_cut(text, longest), wording.straight(text)
    if shown in (text, whole):
        return shown
    return format_html(_BRIEF, shown.replace("-", _HYPHEN_WITHIN_A_LINE), whole, whole)


@register.filter
def named(name: str) -> SafeString:
    """A name within a sentence, its middle left out if it is long: no line ends at a hyphen of it.

    One that is longer than a line is parted elsewhere, so it is not the whole that may not wrap.
    """
    shown = brief(name)
    return format_html(
        '<span class="name">{}</span>', shown if isinstance(shown, SafeString) else unparted(shown)
    )


@register.filter
def briefs(names: list[str]) -> list[SafeString | str]:
    """Each with its middle left out if it is long: a cell of a table has room for a few of 249 letters."""
    return [brief(name) for name in names]


@register.filter
def listed(words: Iterable[str]) -> SafeString:
    """`ann, ben and cleo`, also of words that are markup by now."""
    return mark_safe(wording.listed([conditional_escape(word) for word in words]))


@register.filter
def by_topic(names: Iterable[tuple[str, str]]) -> SafeString:
    """`0, 1` where no topic is named, else `orders 0, 1 · clicks 4`."""
    return format_html_join(" · ", "{}{}", ((_before(topic), numbers) for topic, numbers in names))


def _before(topic: str) -> SafeString | str:
    return format_html("{} ", brief(topic)) if topic else ""


@register.filter
def unparted(text: str) -> SafeString:
    """Words of which some may be names: no line ends at a hyphen."""
    joined = "".join(
        format_html('<span class="nowrap">{}</span>' if place % 2 else "{}", piece)
        for place, piece in enumerate(_HYPHENS.split(wording.straight(text)))
    )
    return mark_safe(joined)


@register.filter
def each_named(names: list[str]) -> SafeString:
    """`ann, ben, cleo`, each as one name, where more than these are meant."""
    return mark_safe(", ".join(named(name) for name in names))


@register.filter
def all_named(names: list[str]) -> SafeString:
    """`ann, ben and cleo`, each as one name."""
    return mark_safe(wording.listed([named(name) for name in names]))


@register.filter
def some_of(names: list[str], number: int) -> SafeString:
    """The first of so many names, each as one, and how many more there are."""
    return mark_safe(wording.some_of(names, number, named))


@register.filter
def to_the_letter(text: str) -> SafeString:
    """What a program of ours reads from the page: a browser takes a carriage return for an end of line."""
    return mark_safe(conditional_escape(text).replace("\r", "&#13;"))


@register.filter
def folding(number: int | None) -> SafeString | str:
    """As `count`; a number too long for a telephone beside its neighbours may go on in a second line."""
    groups = wording.count(number).split(wording.THIN_SPACE)
    if len(groups) <= _GROUPS_OF_A_LINE:
        return wording.THIN_SPACE.join(groups)
    half = len(groups) // 2
    first, rest = wording.THIN_SPACE.join(groups[:half]), wording.THIN_SPACE.join(groups[half:])
    return format_html('<span class="folding">{}<wbr>{}</span>', f"{first}{wording.THIN_SPACE}", rest)


@register.simple_tag
def near(word: str, member: str) -> SafeString | str:
    """`from ann`; of a long id the last letters, which tell it from others, where no more have room."""
    member = wording.straight(member)
    if len(member) <= _END:
        return f"{word} {member}"
    return format_html('<span class="vh">{} </span>…{}', word, member[-_END:])


@register.simple_tag
def plural(number: int, one: str, many: str) -> str:
    """`1 group`, `64 groups`: the number in the page's way, with the word that fits it."""
    return f"{wording.count(number)} {one if number == 1 else many}"


@register.simple_tag
def in_sync(
    isr: list[int] | None, assigned: list[int] | None, live: list[int], narrow: bool = False
) -> SafeString | str:
    """`2 of 3`, where it is narrow `2/3`: members of the ISR with a session, of all replicas.

    N/A for a partition without a row.
    """
    if isr is None or assigned is None:
        return "N/A"
    return format_html(_IN_SYNC_NARROW if narrow else _IN_SYNC, len(set(isr) & set(live)), len(assigned))


@register.simple_tag
def scaled(value: float, largest: float, width: int) -> int:
    """`value` as a share of `largest`, in whole units of `width`; something is never drawn as nothing."""
    if value <= 0 or largest <= 0:
        return 0
    return max(1, min(width, round(value / largest * width)))


@register.simple_tag
def now_ms() -> int:
    """The database's clock, so that ages on the page depend neither on the browser's nor on this host's."""
    return int(database_clock.now().timestamp() * 1000)
