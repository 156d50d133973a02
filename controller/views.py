"""This room renders the page of brokers and partitions: which data is not safe, and on which broker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.cursors import NotOurs, opened, sealed
from access.filters import DoesNotFit, number_filter, read_filters, text_filter, word_filter
from access.grants import Operation
from access.pages import needs
from controller import conditions, fingerprints, processes, queries, standing
from kafkaserver.version import own_version

TOPICS_OF_A_PAGE = 50
PARTITIONS_OF_A_TOPIC = 20
PARTITIONS_OF_AN_OPENED_TOPIC = 500
SHOWS = ("attention", "offline", "under-min-isr", "one-copy", "all")
BROKERS_SHOWN = 20
PROCESSES_SHOWN = 20
COLUMNS = 12
"""So many brokers have a column each, as many as a laptop is wide; with more, replicas are named in one."""

_FEW_TOPICS = 3
_FILTERS = (
    text_filter("q", "Topic contains, in capitals or not."),
    word_filter("show", SHOWS, "Only topics with such partitions, and of them only these."),
    text_filter("open", "The topic that is shown long."),
    number_filter("from", "Partitions of the opened topic before those that are shown."),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks; `chosen` is False while `show` follows from how the cluster is."""

    contains: str
    show: str
    chosen: bool
    open: str
    first: int
    after: str

    @property
    def of(self) -> list[Any]:
        """What a cursor of the list of topics is bound to."""
        return ["topics", self.contains, self.show if self.chosen else ""]

    def address(self, **changes: Any) -> str:
        """This page's query string with some values changed; topics stay those of this page."""
        values = {
            "q": self.contains,
            "show": self.show if self.chosen else "",
            "after": sealed([self.after], self.of) if self.after else "",
            **changes,
        }
        return "?" + urlencode({name: value for name, value in values.items() if value}) + "#partitions"


@dataclass(frozen=True, slots=True)
class Replica:
    """One cell of the matrix: what a broker holds of a partition."""

    word: str = ""
    letter: str = ""
    kind: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One partition across the brokers; without cells its replicas are named."""

    partition: queries.PartitionRow
    cells: list[Replica]
    live: Sequence[int]
    note: str


@dataclass(frozen=True, slots=True)
class TopicBlock:
    """One topic across the brokers; its partitions follow if it is open."""

    topic: queries.TopicRow
    cells: list[tuple[int, int, bool]]
    rows: list[MatrixRow]
    opened: bool
    toggle: str
    before: int
    first: str
    more: str

    @property
    def last(self) -> int:
        """The place of the last partition that is shown."""
        return self.before + len(self.rows)

    @property
    def cut(self) -> bool:
        """True if more partitions fit than are shown."""
        return bool(self.rows) and len(self.rows) < self.topic.matching


@require_safe
@needs(Operation.VIEW)
def cluster(request: HttpRequest) -> HttpResponse:
    """Offline and under-replicated counts, the brokers, then topics by broker; filters are in the address."""
    here = standing.of(request)
    try:
        asked = _asked(request, "attention" if here.health.under_replicated else "all")
    except (DoesNotFit, NotOurs) as error:
        raise BadRequest(f"{error} Begin at /cluster/.") from error
    topics = queries.topics(
        here.live, contains=asked.contains, show=asked.show, after=asked.after, limit=TOPICS_OF_A_PAGE + 1
    )
    shown = topics[:TOPICS_OF_A_PAGE]
    follow = len(topics) > TOPICS_OF_A_PAGE
    context = {
        "section": "cluster",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "brokers": here.foremost(BROKERS_SHOWN),
        "processes": _first_to_look_at(here.processes),
        "own_version": own_version(),
        "columns": [(row.broker, row.state == queries.FENCED) for row in _columns(here)],
        "width": max(1, len(_columns(here))) + 7,
        "blocks": _blocks(here, shown, asked),
        "contains": asked.contains,
        "opened": asked.open,
        "show": asked.show,
        "shows": _choices(here.health),
        "next": asked.address(after=sealed([shown[-1].name], asked.of)) if follow else "",
        "before": _before(here, asked),
    }
    return render(request, "controller/cluster.html", context)


def _first_to_look_at(found: Sequence[processes.Process]) -> list[processes.Process]:
    """All of them in their order; of many, those of another version than this process come first."""
    if len(found) <= PROCESSES_SHOWN:
        return list(found)
    return sorted(found, key=lambda one: one.version == own_version())[:PROCESSES_SHOWN]


def _before(here: standing.ClusterStanding, asked: Asked) -> str:
    """The address of the page of topics before this one; empty on the first."""
    if not asked.after:
        return ""
    names = queries.names_up_to(
        here.live, contains=asked.contains, show=asked.show, last=asked.after, limit=TOPICS_OF_A_PAGE + 1
    )
    full = len(names) > TOPICS_OF_A_PAGE
    return asked.address(after=sealed([names[-1]], asked.of) if full else "")


def _asked(request: HttpRequest, usually: str) -> Asked:
    """What the address asks. Raises DoesNotFit, NotOurs."""
    values = {name: str(value).strip() for name, value in request.GET.items() if str(value).strip()}
    read = read_filters(values, _FILTERS)
    asked = Asked(
        read.get("q", ""),
        read.get("show", usually),
        "show" in read,
        read.get("open", ""),
        read.get("from", 0),
        "",
    )
    cursor = values.get("after")
    return replace(asked, after=opened(cursor, asked.of)[0]) if cursor else asked


def _choices(health: queries.Health) -> list[tuple[str, str, int]]:
    return [
        ("attention", "Not in full sync", health.under_replicated),
        ("offline", "Offline", health.offline),
        ("under-min-isr", "Under min ISR", health.under_min_isr),
        ("one-copy", "One copy left", health.one_copy),
        ("all", "All", health.partitions),
    ]


def _blocks(
    here: standing.ClusterStanding, topics: Sequence[queries.TopicRow], asked: Asked
) -> list[TopicBlock]:
    """What is troubled stands open, and so do the topics of a small cluster; else the one asked for.

    The one asked for is shown long, page by page; of each other the first partitions, and where the rest is.
    """
    few = len(topics) <= _FEW_TOPICS
    foldable = asked.show == "all" and not few
    long = [topic for topic in topics if topic.name == asked.open]
    short = [] if foldable else [topic for topic in topics if topic.name != asked.open]
    rows = queries.partitions_of(here.live, short, asked.show, 0, PARTITIONS_OF_A_TOPIC)
    rows |= queries.partitions_of(here.live, long, asked.show, asked.first, PARTITIONS_OF_AN_OPENED_TOPIC)
    logged = {row.id: row for row in here.with_logs([row for some in rows.values() for row in some])}
    brokers = [row.broker.broker_id for row in _columns(here)]
    live = set(here.live)
    blocks = []
    for topic in topics:
        cells = [(*topic.held_by(broker), broker not in live) for broker in brokers]
        partitions = [_row(logged[row.id], brokers, here.live) for row in rows.get(topic.topic_id, [])]
        is_open = topic.name == asked.open
        before = asked.first if is_open else 0
        end = before + len(partitions)
        following = {"from": end if is_open and end < topic.matching else 0}
        blocks.append(
            TopicBlock(
                topic,
                cells,
                partitions,
                bool(partitions),
                asked.address(open="" if is_open else topic.name) if foldable else "",
                before,
                asked.address(open=topic.name),
                asked.address(open=topic.name, **following) if not is_open or end < topic.matching else "",
            )
        )
    return blocks


def _columns(here: standing.ClusterStanding) -> list[queries.BrokerRow]:
    """The brokers that have a column; none, if there are too many."""
    return here.brokers if len(here.brokers) <= COLUMNS else []


def _row(partition: queries.PartitionRow, brokers: list[int], live: Sequence[int]) -> MatrixRow:
    cells = [_cell(partition, broker, live) for broker in brokers]
    return MatrixRow(partition, cells, live, partition.note)


def _cell(partition: queries.PartitionRow, broker: int, live: Sequence[int]) -> Replica:
    lost = broker not in live
    if broker not in partition.assigned:
        return Replica(lost=lost)
    if broker == partition.leader:
        return Replica("leader", "L", "leader", lost)
    if broker in partition.isr and broker in live and broker not in partition.lagging:
        return Replica("in sync", "S", "in", lost)
    if any(one.broker_id == broker and one.state == conditions.OFFLINE for one in partition.logs):
        return Replica("log offline", "X", "out", lost)
    if broker in partition.adding:
        return Replica("being added", "A", "adding", lost)
    return Replica("out of sync", "O", "out", lost)
