"""This room writes the rows of long lists: a template's variables, 2,400 a page of groups, cost 30 ms."""

from collections.abc import Sequence
from typing import Any

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from controller.queries import LIVE, BrokerRow
from web.templatetags.written import age, mark, moment, one_line, plural
from web.wording import count, size, straight

register = template.Library()

_ROW = (
    '<tr data-key="{name}"{attention}><td class="st"><span class="state"><i class="mark {mark}" role="img"'
    ' aria-label="{phase}"></i><span class="mid">{phase}</span></span></td><th scope="row" class="clip rest">'
    '<a href="{address}" title="{name}">{short}</a>{note}</th><td class="mid">{words}</td>'
    '<td class="num" data-live>{least}{lag}</td><td class="num wide" data-live>{members}</td>'
    '<td class="num mid">{partitions}</td><td class="wide topic" title="{topics}">{named}</td>'
    '<td class="far">{protocol}</td><td class="num mid">{committed}</td>'
    '<td class="num wide" data-live>{generation}</td><td class="num far">{changed}</td>'
    '<td class="num far">{shard}</td><td class="num far" data-live>{version}</td></tr>\n'
)
_NOTE = '<span class="note {tone}"><i class="mark {mark}"></i> {words}</span>'
_WORDS = '<span class="state {tone}"><i class="mark {mark}"></i>{words}</span>'
NOT_SEEN = "Not seen"
_AT_LEAST = mark_safe("&ge;&nbsp;")


@register.simple_tag(takes_context=True)
def seen_as(context: Context, row: BrokerRow) -> str:
    """The word for a broker's state; `Not seen`: it was live, but no node is controller, who alone looks."""
    return NOT_SEEN if row.state == LIVE and context["controller_away"] else row.state


@register.simple_tag
def group_row(row: Any, finding: Any) -> SafeString:
    """One group of the list with what is wrong with it; every value is escaped by `format_html`."""
    attention, note, words = "", "", "nobody reads" if row.abandoned else ""
    if finding is not None:
        critical = finding.severity == "critical"
        told = {
            "tone": "t-bad" if critical else "t-warn",
            "mark": mark(finding.severity),
            "words": render_to_string("parts/finding_words.html", {"finding": finding, "about": row.name}),
        }
        attention = format_html(' class="{}"', "bad" if critical else "warn")
        note, words = format_html(_NOTE, **told), format_html(_WORDS, **told)
    return format_html(
        _ROW,
        name=row.name,
        attention=attention,
        mark=mark(row.phase),
        phase=row.phase,
        address=reverse("group", args=[row.name]),
        short=one_line(row.name),
        note=note,
        words=words,
        least=_AT_LEAST if row.unknown and row.lag is not None else "",
        lag=count(row.lag),
        members=count(row.members),
        partitions=count(row.partitions),
        topics=row.topics or "",
        named=one_line(row.topics or ""),
        protocol=straight(row.kind),
        committed=age(row.committed_at),
        generation=count(row.generation),
        changed=age(row.changed_at),
        shard=row.shard,
        version=count(row.version),
    )


_LISTED = (
    '<tr{tone}><th scope="row" class="id named rest" title="{name}">{link}</th><td class="num" data-live>'
    '{leader}</td><td class="wrap">{reps}</td><td class="num" data-live>{in_sync}</td>'
    '<td class="id far">{isr}</td><td class="num mid">{since}</td><td class="num wide" data-live>{epoch}</td>'
    '<td class="num far" data-live>{version}</td><td class="num mid" data-live>{end}</td>'
    '<td class="num wide" data-live>{size}</td><td class="say wrap words mid{words}">{note}</td></tr>\n'
)
_NO_LEADER = mark_safe('<b class="t-bad">none</b>')
_REPS = '<span class="reps" role="img" aria-label="{}">{}</span>'
_REP = '<{tag}{kind} title="Broker {broker}: {word}">{sign}{broker}</{tag}>'


def named(address: str, name: str) -> SafeString:
    """A link with a name that may be too long."""
    return format_html('<a href="{}" title="{}">{}</a>', address, name, one_line(name))


@register.simple_tag
def reps(partition: Any, live: Sequence[int], lagging: Sequence[int] = ()) -> SafeString:
    """Replicas in their order: the leader filled, one out of sync, or lagging, dashed; + comes, − goes."""
    shown, words = [], []
    for broker in partition.assigned:
        tag, kind, sign, word = "span", "", "", "in sync"
        if broker == partition.leader:
            tag, word = "b", "leader"
        elif broker not in partition.isr or broker not in live or broker in lagging:
            kind, word = ' class="out"', "out of sync"
        if broker in partition.adding:
            tag, kind, sign, word = "ins", "", "+", f"is added, {word}"
        elif broker in partition.removing:
            leads = broker == partition.leader
            tag, kind, sign, word = "del", ' class="ld"' if leads else "", "−", f"leaves, {word}"
        shown.append(format_html(_REP, tag=tag, kind=mark_safe(kind), broker=broker, sign=sign, word=word))
        words.append(f"broker {broker} {word}")
    label = f"Replicas: {'; '.join(words)}"
    return format_html(_REPS, label, mark_safe("".join(shown)))


@register.simple_tag
def before_reps(move: Any) -> SafeString:
    """Where a partition was, its preferred leader filled; what leaves with −."""
    told = [(broker, "" if broker in move.target else "−") for broker in move.origin]
    return _moved("Before", told)


@register.simple_tag
def after_reps(move: Any) -> SafeString:
    """Where a partition is to be, its preferred leader filled; what is added with +."""
    told = [(broker, "" if broker in move.origin else "+") for broker in move.target]
    return _moved("After", told)


@register.simple_tag
def plain_reps(replicas: Sequence[int]) -> SafeString:
    """The brokers of a partition that is not there yet, its preferred leader filled."""
    return _moved("Replicas", [(broker, "") for broker in replicas])


def _moved(when: str, replicas: Sequence[tuple[int, str]]) -> SafeString:
    shown = []
    for place, (broker, sign) in enumerate(replicas):
        tag = {"+": "ins", "−": "del"}.get(sign, "b" if place == 0 else "span")
        kind = mark_safe(' class="ld"') if sign and place == 0 else ""
        shown.append(format_html("<{}{}>{}{}</{}>", tag, kind, sign, broker, tag))
    label = f"{when}: {', '.join(f'{sign}{broker}' for broker, sign in replicas)}"
    return format_html(_REPS, label, mark_safe("".join(shown)))


@register.simple_tag
def listed_partition(row: Any, live: Sequence[int]) -> SafeString:
    """One partition of a list: leader, replicas, who is in sync, epochs, how far its log got."""
    short = row.in_sync < row.settled or row.offline
    logs = any(log.in_trouble for log in row.logs)
    in_sync = f"{row.in_sync} of {row.settled}"
    tone = (
        "bad"
        if row.offline or row.in_sync < row.floor
        else "warn"
        if row.copies == 1 < row.settled or logs
        else ""
    )
    return format_html(
        _LISTED,
        tone=format_html(' class="{}"', tone) if tone else "",
        name=row.name,
        link=format_html(
            '<a href="{}">{}</a>',
            reverse("partition", args=[row.topic_name, row.partition]),
            one_line(row.name),
        ),
        leader=_NO_LEADER if row.offline else row.leader,
        reps=reps(row, live, row.lagging),
        in_sync=format_html("<b>{}</b>", in_sync) if short else in_sync,
        isr=", ".join(str(member) for member in row.isr) or "none",
        since=moment(row.since),
        epoch=count(row.leader_epoch),
        version=count(row.version),
        end=count(row.high_watermark),
        size=size(row.size_bytes),
        words=f" t-{tone}" if tone else "",
        note=row.note,
    )


_SKEW = (
    '<svg class="skew" viewBox="0 0 80 12" preserveAspectRatio="none" role="img" aria-label="{label}">'
    '<title>{label}</title><rect{kind} x="{x}" y="2" width="{width}" height="8"/><path d="M40 0v12"/></svg>'
)
_FAR_FROM_MEAN = 0.5


@register.simple_tag
def skew(value: int, mean: float) -> SafeString | str:
    """A bar from the mean to the value; longer than the picture is as long as it."""
    if not mean:
        return ""
    ratio = value / mean - 1
    width = max(1, round(min(1.0, abs(ratio)) * 38))
    return format_html(
        _SKEW,
        label=f"{ratio:+.0%} of the mean".replace("-", "−"),
        kind=mark_safe(' class="w"') if abs(ratio) >= _FAR_FROM_MEAN else "",
        x=40 if ratio >= 0 else 40 - width,
        width=width,
    )


_METER = (
    '<meter min="0" max="{total}" low="{low}" high="{high}" optimum="{total}" value="{free}"'
    ' aria-label="{label}" title="{label}"></meter>'
)
_LITTLE = 10


@register.simple_tag
def disk_meter(condition: Any) -> SafeString | str:
    """How much of a broker's disk is free: little is a warning, less than it keeps back is bad."""
    total, free, reserve = (
        condition.disk_total_bytes or 0,
        condition.disk_usable_bytes or 0,
        condition.disk_reserve_bytes or 0,
    )
    if not total:
        return ""
    return format_html(
        _METER,
        total=total,
        free=free,
        low=min(reserve, total),
        high=min(max(reserve, total // _LITTLE), total),
        label=f"{free / total:.0%} of the disk is free",
    )


_TOPIC = (
    '<tr class="topic"><th scope="row" class="clip rest">{name} <span class="quiet mid">{partitions}</span>'
    '</th>{cells}<td class="num">{synced} of {count}</td><td class="num mid"></td><td class="num wide"></td>'
    '<td class="num wide"></td><td class="num far"></td><td class="say mid">{note}</td></tr>'
)
_FOLD = '<a class="fold" href="{address}" aria-expanded="{opened}" aria-label="Partitions of {name}"></a>'
_PARTITION = (
    '<tr{bad}><th scope="row" class="id named rest" title="{name}">{shown}</th>'
    '{cells}<td class="num" data-live>{in_sync}</td><td class="num mid">{since}</td>'
    '<td class="num wide" data-live>{epoch}</td><td class="num wide" data-live>{end}</td>'
    '<td class="num far" data-live>{version}</td><td class="say mid{tone}">{note}</td></tr>\n'
)
_CELL = '<td{}><span class="rep {}" data-s="{}">{}</span></td>'
_NO_CELL = mark_safe("<td></td>")
_LOST = {False: "", True: mark_safe(' class="lost"')}


@register.simple_tag
def topic_row(block: Any) -> SafeString:
    """One topic across the brokers: of each how many partitions it leads and holds."""
    topic = block.topic
    name = named(reverse("topic", args=[topic.name]), topic.name)
    if block.toggle:
        opened = "true" if block.opened else "false"
        name = format_html(_FOLD, address=block.toggle, opened=opened, name=topic.name) + name
    notes = [
        f"{count(number)} {word}"
        for number, word in ((topic.offline, "offline"), (topic.one_copy, "with one copy left"))
        if number
    ]
    cells = [
        format_html('<td{}><span class="mid">{}/</span>{}</td>', _LOST[lost], count(leaders), count(replicas))
        if replicas
        else format_html("<td{}></td>", _LOST[lost])
        for leaders, replicas, lost in block.cells
    ] or [_NO_CELL]
    return format_html(
        _TOPIC,
        name=name,
        partitions=plural(topic.partition_count, "partition", "partitions"),
        cells=mark_safe("".join(cells)),
        synced=count(topic.in_full_sync),
        count=count(topic.partition_count),
        note=", ".join(notes),
    )


@register.simple_tag
def partition_row(row: Any) -> SafeString:
    """One partition across the brokers: who leads, who is in sync."""
    partition = row.partition
    cells = [
        format_html(_CELL, _LOST[cell.lost], cell.kind, cell.letter, cell.word)
        if cell.word
        else format_html("<td{}></td>", _LOST[cell.lost])
        for cell in row.cells
    ] or [format_html('<td class="say wrap">{}</td>', reps(partition, row.live, partition.lagging))]
    in_sync = f"{partition.in_sync} of {partition.settled}"
    return format_html(
        _PARTITION,
        bad=mark_safe(' class="bad"') if partition.offline else "",
        name=partition.name,
        shown=one_line(partition.name),
        cells=mark_safe("".join(cells)),
        in_sync=format_html('<b class="t-bad">{}</b>', in_sync) if partition.offline else in_sync,
        since=moment(partition.since),
        epoch=count(partition.leader_epoch),
        end=count(partition.high_watermark),
        version=count(partition.version),
        tone=" t-bad" if partition.offline else "",
        note=row.note,
    )
