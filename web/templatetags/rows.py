"""This room writes the rows of the long list of groups: a template's variables, 2,400 a page, cost 30 ms."""

from typing import Any

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from web.templatetags.written import age, mark
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
        protocol=row.protocol,
        committed=age(row.committed_at),
        generation=count(row.generation),
        changed=age(row.changed_at),
        shard=row.shard,
        version=count(row.version),
    )
