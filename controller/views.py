"""This room renders the page of brokers and partitions: which data is not safe, and on which broker."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.grants import Operation
from access.pages import needs
from controller import fingerprints, queries, standing

TOPICS_OF_A_PAGE = 50
PARTITIONS_OF_A_TOPIC = 20
PARTITIONS_OF_AN_OPENED_TOPIC = 500
SHOWS = ("attention", "offline", "under-min-isr", "one-copy", "all")
_LONGEST_TEXT = 249
_FEW_TOPICS = 3


@dataclass(frozen=True, slots=True)
class Replica:
    """One cell of the matrix: what a broker holds of a partition."""

    word: str = ""
    letter: str = ""
    kind: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One partition across the brokers."""

    partition: queries.PartitionRow
    cells: list[Replica]
    note: str


@dataclass(frozen=True, slots=True)
class TopicBlock:
    """One topic across the brokers; its partitions follow if it is open."""

    topic: queries.TopicRow
    cells: list[tuple[int, int, bool]]
    rows: list[MatrixRow]
    opened: bool
    toggle: str


@require_safe
@needs(Operation.VIEW)
def cluster(request: HttpRequest) -> HttpResponse:
    """Offline and under-replicated counts, the brokers, then topics by broker; filters are in the address."""
    rendered = fingerprints.of_cluster()
    here = standing.of(request)
    contains, after = request.GET.get("q", "").strip(), request.GET.get("after", "")
    opened = request.GET.get("open", "")
    show = request.GET.get("show") or ("attention" if here.health.under_replicated else "all")
    texts = (contains, after, opened)
    if show not in SHOWS or any(len(text) > _LONGEST_TEXT or "\x00" in text for text in texts):
        raise BadRequest("The filter in the address does not fit. Begin at /cluster/.")
    topics = queries.topics(here.live, contains=contains, show=show, after=after, limit=TOPICS_OF_A_PAGE + 1)
    shown = topics[:TOPICS_OF_A_PAGE]
    asked = {"q": contains, "show": show if request.GET.get("show") else ""}
    next_address = _address(asked, after=shown[-1].name) if len(topics) > TOPICS_OF_A_PAGE else ""
    context = {
        "section": "cluster",
        "watch": "cluster",
        "rendered": rendered,
        "here": here,
        "columns": [(row.broker, row.state == queries.FENCED) for row in here.brokers],
        "blocks": _blocks(here, shown, show, opened, asked),
        "contains": contains,
        "show": show,
        "shows": _choices(here.health),
        "next": next_address,
        "first": _address(asked) if after else "",
    }
    return render(request, "controller/cluster.html", context)


def _choices(health: queries.Health) -> list[tuple[str, str, int]]:
    return [
        ("attention", "Not in full sync", health.under_replicated),
        ("offline", "Offline", health.offline),
        ("under-min-isr", "Under min ISR", health.under_min_isr),
        ("one-copy", "One copy left", health.one_copy),
        ("all", "All", health.partitions),
    ]


def _address(asked: dict[str, str], **changes: str) -> str:
    values = {name: value for name, value in {**asked, **changes}.items() if value}
    return "?" + urlencode(values) + "#partitions"


def _blocks(
    here: standing.ClusterStanding,
    topics: list[queries.TopicRow],
    show: str,
    opened: str,
    asked: dict[str, str],
) -> list[TopicBlock]:
    """What is troubled stands open, and so do the topics of a small cluster; else the one asked for."""
    few = len(topics) <= _FEW_TOPICS
    foldable = show == "all" and not few
    # One topic may be shown long; fifty of them would be a page of 25,000 rows.
    limit = PARTITIONS_OF_AN_OPENED_TOPIC if opened and foldable else PARTITIONS_OF_A_TOPIC
    open_ids = [topic.topic_id for topic in topics if few or show != "all" or topic.name == opened]
    rows = queries.partitions_of(here.live, open_ids, show, limit) if open_ids else {}
    brokers = [row.broker.broker_id for row in here.brokers]
    live = set(here.live)
    blocks = []
    for topic in topics:
        cells = [(*topic.held_by(broker), broker not in live) for broker in brokers]
        partitions = [_row(row, brokers, live) for row in rows.get(topic.topic_id, [])]
        toggle = _address(asked, open="" if topic.name == opened else topic.name) if foldable else ""
        blocks.append(TopicBlock(topic, cells, partitions, bool(partitions), toggle))
    return blocks


def _row(partition: queries.PartitionRow, brokers: list[int], live: set[int]) -> MatrixRow:
    return MatrixRow(partition, [_cell(partition, broker, live) for broker in brokers], _note(partition))


def _cell(partition: queries.PartitionRow, broker: int, live: set[int]) -> Replica:
    lost = broker not in live
    if broker not in partition.assigned:
        return Replica(lost=lost)
    if broker == partition.leader:
        return Replica("leader", "L", "leader", lost)
    if broker in partition.isr and broker in live:
        return Replica("in sync", "S", "in", lost)
    return Replica("out of sync", "O", "out", lost)


def _note(partition: queries.PartitionRow) -> str:
    if partition.offline:
        if not partition.isr:
            return "offline, never had a leader"
        return f"offline, last ISR {', '.join(str(member) for member in partition.isr)}"
    if partition.in_sync < min(partition.min_in_sync, len(partition.assigned)):
        return "under min ISR"
    if partition.in_sync == 1 and len(partition.assigned) > 1:
        return "one copy left"
    if partition.in_sync < len(partition.assigned):
        return "under-replicated"
    if partition.leader != partition.assigned[0]:
        return f"preferred leader is {partition.assigned[0]}"
    return ""
