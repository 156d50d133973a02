"""This room reads the cluster's standing once for a request, however many parts of its page ask.

What was read is kept for the next request for as long as no row has changed since: with 10,000 partitions
the passes over them cost a tenfold of asking whether anything changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from django.http import HttpRequest

from controller import findings, fingerprints, leases, move_queries, processes, queries
from controller.fingerprints import of_health

KEPT_MS = 2_000
"""No longer than this: that work waits too long becomes true by time alone."""

_KEPT = "_cluster_standing"


@dataclass(frozen=True, slots=True)
class ClusterStanding:
    """Brokers, how safe the data is, what is wrong with either; the fingerprint is older than all of it."""

    fingerprint: str
    database: str
    read_at: float
    brokers: list[queries.BrokerRow]
    health: queries.Health
    moves: move_queries.MoveCounts
    findings: list[findings.Finding]
    processes: list[processes.Process]

    @property
    def versions(self) -> list[tuple[str, int]]:
        """How many processes run which version."""
        return processes.versions(self.processes)

    @property
    def live(self) -> list[int]:
        return queries.live_ids(row.broker for row in self.brokers)

    @property
    def mean_leaders(self) -> float:
        """Partitions that a live broker leads, on average."""
        return sum(row.leaders for row in self.brokers) / max(1, len(self.live))

    @property
    def mean_replicas(self) -> float:
        """Replicas that a broker holds which has a session, on average."""
        held = sum(row.replicas for row in self.brokers if not row.broker.fenced)
        return held / max(1, len(self.live))

    @property
    def fenced(self) -> list[queries.BrokerRow]:
        return [row for row in self.brokers if row.attention]

    @property
    def short_of_room(self) -> list[queries.BrokerRow]:
        """Brokers that take no records for want of room."""
        return [row for row in self.brokers if row.short_since]

    @property
    def logs_in_trouble(self) -> int:
        """Logs that live brokers cannot use, or that lack what they once held."""
        return sum(row.offline_logs + row.damaged_logs for row in self.brokers)

    def foremost(self, most: int) -> list[queries.BrokerRow]:
        """All brokers by their ids; if there are more than `most`, those that need a person come first."""
        if len(self.brokers) <= most:
            return self.brokers
        return sorted(self.brokers, key=lambda row: (not row.troubled, row.broker.broker_id))[:most]

    def with_logs(self, rows: Sequence[queries.PartitionRow]) -> Sequence[queries.PartitionRow]:
        """The partitions with those of their logs that are in trouble: mostly none is."""
        return queries.with_logs(rows) if self.logs_in_trouble else rows


_last: ClusterStanding | None = None


def of(request: HttpRequest) -> ClusterStanding:
    """The standing as this request read it first."""
    global _last
    if not hasattr(request, _KEPT):
        fingerprint, database = fingerprints.of_cluster(), fingerprints.database()
        kept = _last
        if kept is None or not _still_true(kept, fingerprint, database):
            kept = _last = _read(fingerprint, database, kept)
        setattr(request, _KEPT, kept)
    found: ClusterStanding = getattr(request, _KEPT)
    return found


def forget() -> None:
    """Keep nothing of what was read before."""
    global _last
    _last = None


def _still_true(kept: ClusterStanding, fingerprint: str, database: str) -> bool:
    young = monotonic() - kept.read_at < KEPT_MS / 1000
    return young and (kept.fingerprint, kept.database) == (fingerprint, database)


def _read(fingerprint: str, database: str, kept: ClusterStanding | None) -> ClusterStanding:
    """Looking at 100,000 partitions is spared while how safe the data is cannot have changed."""
    read_at = monotonic()
    brokers = queries.brokers()
    if kept and kept.database == database and of_health(kept.fingerprint) == of_health(fingerprint):
        health = kept.health
    else:
        health = queries.health(queries.live_ids(row.broker for row in brokers))
    moves = move_queries.counts()
    found = findings.find(brokers, health, leases.orphans(), leases.work()) + findings.of_moves(moves)
    there = processes.running()
    found += findings.of_refusals(leases.refusals()) + findings.of_nodes(there)
    found += findings.of_making_way(leases.made_way())
    found = findings.most_urgent_first(found)
    return ClusterStanding(fingerprint, database, read_at, brokers, health, moves, found, there)
