"""This room fills the frame of every page: the board of tiles, who is signed in, who is controller."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from access.pages import role_here
from controller import leases
from controller.findings import Finding
from controller.move_queries import MoveCounts
from controller.standing import ClusterStanding
from groups import standing as group_standing
from runtime.models import JournalEntry
from web.themes import theme_in
from web.wording import clock, count


@dataclass(frozen=True, slots=True)
class Tile:
    """One section of the board; unlit (`kind` empty) when nothing there needs a person."""

    section: str
    name: str
    address: str
    fact: str
    kind: str = ""
    mark: str = ""


def frame(request: HttpRequest) -> dict[str, Any]:
    """What base.html needs; read only by the pages that show it, so that error pages need no database."""
    return {
        "cluster_name": settings.MUSTER_CLUSTER_NAME,
        "environment": settings.MUSTER_ENVIRONMENT,
        "theme": theme_in(request.COOKIES),
        "zone": settings.TIME_ZONE,
        "person": SimpleLazyObject(lambda: request.user.get_username()),
        "role": SimpleLazyObject(lambda: str(role_here(request) or "none")),
        "board": SimpleLazyObject(lambda: board(request)),
        "controller_line": SimpleLazyObject(controller_line),
        "controller_away": SimpleLazyObject(lambda: controller_away(request)),
    }


def controller_away(request: HttpRequest) -> Finding | None:
    """That no node is controller: what pages say of brokers and partitions is as the last one left it."""
    findings = group_standing.of(request).cluster.findings
    orphaned = (one for one in findings if one.kind == "lanes_without_owner")
    return next((one for one in orphaned if one.facts["controller"]), None)


def controller_line() -> str:
    """Who is controller, and the version of its last turn; empty before the cluster was initialised."""
    version, holder = leases.controller_now()
    if version is None:
        return ""
    who = f"{holder.node}, epoch {count(holder.epoch)}" if holder else "none now"
    return f"Controller: {who}. Metadata version {count(version)}."


def last_turn() -> str:
    """When the last turn of any lane was taken, by the journal."""
    at = JournalEntry.objects.order_by("-id").values_list("at", flat=True).first()
    return f"last {clock(at, timezone.localtime())}" if at else "no turn yet"


def board(request: HttpRequest) -> list[Tile]:
    """The tiles: a name and one fact each."""
    groups = group_standing.of(request)
    cluster = groups.cluster
    health = cluster.health
    troubled = len(groups.by_group)
    attention = len(groups.findings)
    topics = reverse("cluster") + "#partitions"
    return [
        Tile(
            "overview",
            "Overview",
            reverse("overview"),
            _plural(attention, "finding") if attention else "all is well",
        ),
        _tile("groups", "Groups", reverse("groups"), f"{troubled} of {count(groups.total)}", False)
        if troubled
        else Tile("groups", "Groups", reverse("groups"), count(groups.total)),
        _tile("topics", "Topics", topics, f"{count(health.offline)} offline", True)
        if health.offline
        else _tile("topics", "Topics", topics, f"{count(health.one_copy)} one copy", False)
        if health.one_copy
        else Tile("topics", "Topics", topics, _plural(health.partitions, "partition")),
        _brokers(cluster, away=controller_away(request) is not None),
        _moves(cluster.moves),
        Tile("journal", "Journal", reverse("journal"), last_turn()),
    ]


def _brokers(cluster: ClusterStanding, *, away: bool) -> Tile:
    name, address = "Brokers", reverse("cluster")
    short, fenced, logs = len(cluster.short_of_room), len(cluster.fenced), cluster.logs_in_trouble
    if short:
        return _tile("cluster", name, address, f"{_plural(short, 'disk')} full", True)
    if fenced:
        return _tile("cluster", name, address, f"{count(fenced)} fenced", False)
    if logs:
        return _tile("cluster", name, address, f"{_plural(logs, 'log')} bad", False)
    if away and cluster.live:
        return Tile("cluster", name, address, "none seen", mark="unknown")
    return Tile("cluster", name, address, f"{count(len(cluster.live))} live")


def _moves(counts: MoveCounts) -> Tile:
    name, address = "Reassignments", reverse("reassignments")
    if counts.stalled:
        return _tile("reassignments", name, address, f"{count(counts.stalled)} waiting", False)
    if counts.active:
        return Tile("reassignments", name, address, f"{count(counts.active)} moving", "motion", "preparing")
    return Tile("reassignments", name, address, "none")


def _plural(number: int, word: str) -> str:
    return f"{count(number)} {word}{'' if number == 1 else 's'}"


def _tile(section: str, name: str, address: str, fact: str, bad: bool) -> Tile:
    kind = "bad" if bad else "warn"
    return Tile(section, name, address, fact, kind, kind)
