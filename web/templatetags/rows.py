"""This room writes the rows of long lists: a template's variables, 2,400 a page of groups, cost 30 ms."""

from typing import Any

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from web.templatetags.written import age, mark, moment, plural
from web.wording import count, middle_cut

register = template.Library()

_ROW = (
    '<tr data-key="{name}"{attention}><td class="st"><span class="state"><i class="mark {mark}" role="img"'
    ' aria-label="{phase}"></i><span class="mid">{phase}</span></span></td><th scope="row" class="clip rest">'
    '<a href="{address}" title="{name}">{short}</a>{note}</th><td class="mid">{words}</td>'
    '<td class="num" data-live>{least}{lag}</td><td class="num wide" data-live>{members}</td>'
    '<td class="num mid">{partitions}</td><td class="wide topic" title="{topics}">{topics}</td>'
    '<td class="far">{protocol}</td><td class="num mid">{committed}</td>'
    '<td class="num wide" data-live>{generation}</td><td class="num far">{changed}</td>'
    '<td class="num far">{shard}</td><td class="num far" data-live>{version}</td></tr>\n'
)
_NOTE = '<span class="note {tone}"><i class="mark {mark}"></i> {words}</span>'
_WORDS = '<span class="state {tone}"><i class="mark {mark}"></i>{words}</span>'
_AT_LEAST = mark_safe("&ge;&nbsp;")


@register.simple_tag
def group_row(row: Any, finding: Any) -> SafeString:
    """One group of the list with what is wrong with it; every value is escaped by `format_html`."""
    attention, note, words = "", "", "nobody reads" if row.abandoned else ""
    if finding is not None:
        critical = finding.severity == "critical"
        told = {
            "tone": "t-bad" if critical else "t-warn",
            "mark": mark(finding.severity),
            "words": render_to_string("parts/finding_words.html", {"finding": finding}),
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
        short=middle_cut(row.name, 48),
        note=note,
        words=words,
        least=_AT_LEAST if row.unknown and row.lag is not None else "",
        lag=count(row.lag),
        members=count(row.members),
        partitions=count(row.partitions),
        topics=row.topics or "",
        protocol=row.kind,
        committed=age(row.committed_at),
        generation=count(row.generation),
        changed=age(row.changed_at),
        shard=row.shard,
        version=count(row.version),
    )


_TOPIC = (
    '<tr class="topic"><th scope="row" class="clip rest">{name} <span class="quiet mid">{partitions}</span>'
    '</th>{cells}<td class="num">{synced} of {count}</td><td class="num mid"></td><td class="num wide"></td>'
    '<td class="num wide"></td><td class="num far"></td><td class="say mid">{note}</td></tr>'
)
_FOLD = '<a class="fold" href="{address}" aria-expanded="{opened}" title="{name}">{short}</a>'
_PARTITION = (
    '<tr{bad}><th scope="row" class="id named rest" title="{name}"><span><span class="stem">{topic}-</span>'
    '{partition}</span></th>{cells}<td class="num" data-live>{in_sync}</td><td class="num mid">{since}</td>'
    '<td class="num wide" data-live>{epoch}</td><td class="num wide" data-live>{end}</td>'
    '<td class="num far" data-live>{version}</td><td class="say mid{tone}">{note}</td></tr>\n'
)
_CELL = '<td{}><span class="rep {}" data-s="{}">{}</span></td>'
_LOST = {False: "", True: mark_safe(' class="lost"')}


@register.simple_tag
def topic_row(block: Any) -> SafeString:
    """One topic across the brokers: of each how many partitions it leads and holds."""
    topic = block.topic
    short = middle_cut(topic.name, 32)
    if block.toggle:
        opened = "true" if block.opened else "false"
        name = format_html(_FOLD, address=block.toggle, opened=opened, name=topic.name, short=short)
    else:
        name = format_html('<span title="{}">{}</span>', topic.name, short)
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
    ]
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
    ]
    in_sync = f"{partition.in_sync} of {partition.settled}"
    return format_html(
        _PARTITION,
        bad=mark_safe(' class="bad"') if partition.offline else "",
        name=partition.name,
        topic=partition.topic_name,
        partition=partition.partition,
        cells=mark_safe("".join(cells)),
        in_sync=format_html('<b class="t-bad">{}</b>', in_sync) if partition.offline else in_sync,
        since=moment(partition.since),
        epoch=count(partition.leader_epoch),
        end=count(partition.high_watermark),
        version=count(partition.version),
        tone=" t-bad" if partition.offline else "",
        note=row.note,
    )
