"""This room reads the standing of all groups once for a request: how many, in which phase, what is wrong.

What was read is kept for the next request for as long as no row has changed since: with 10,000 groups the
passes over their offsets cost a tenth of a second, asking whether anything changed a tenth of that.
"""

from dataclasses import dataclass
from functools import cached_property
from time import monotonic

from django.http import HttpRequest

from controller import standing as cluster_standing
from controller.findings import Finding, most_urgent_first
from controller.standing import ClusterStanding
from groups import findings, fingerprints, queries

KEPT_MS = 2_000
"""No longer than this: that a commit is late becomes true by time alone."""

_KEPT = "_group_standing"


@dataclass(frozen=True)
class GroupStanding:
    """All findings, of groups and of the cluster, most urgent first, and the groups counted by phase."""

    fingerprint: str
    findings: list[Finding]
    by_phase: dict[str, int]
    cluster: ClusterStanding
    read_at: float

    @property
    def total(self) -> int:
        return sum(self.by_phase.values())

    @cached_property
    def by_group(self) -> dict[str, Finding]:
        """The most urgent finding of each group that has one."""
        found: dict[str, Finding] = {}
        for finding in self.findings:
            for group in finding.groups:
                found.setdefault(group, finding)
        return found

    def about(self, group: str, lane: str) -> list[Finding]:
        """Every finding that the group suffers from, the lane of its shard included."""
        return [one for one in self.findings if group in one.groups or lane in one.facts.get("lanes", ())]

    @cached_property
    def by_lag(self) -> list[tuple[int, str]]:
        """Every group as (−lag, name), in this order; a group without known lag has lag −1 and comes last."""
        return queries.lag_order()


_last: GroupStanding | None = None


def of(request: HttpRequest) -> GroupStanding:
    """The standing as this request read it first; its fingerprint is older than everything in it."""
    global _last
    if not hasattr(request, _KEPT):
        cluster = cluster_standing.of(request)
        fingerprint = fingerprints.of_lists(cluster.fingerprint)
        kept = _last
        if kept is None or not _still_true(kept, fingerprint, cluster):
            kept = _last = _read(fingerprint, cluster)
        setattr(request, _KEPT, kept)
    found: GroupStanding = getattr(request, _KEPT)
    return found


def forget() -> None:
    """Keep nothing of what was read before."""
    global _last
    _last = None
    cluster_standing.forget()


def _still_true(kept: GroupStanding, fingerprint: str, cluster: ClusterStanding) -> bool:
    """The findings of the cluster are among those that are kept: it must be the very same standing."""
    return monotonic() - kept.read_at < KEPT_MS / 1000 and (
        kept.fingerprint == fingerprint and kept.cluster is cluster
    )


def _read(fingerprint: str, cluster: ClusterStanding) -> GroupStanding:
    read_at = monotonic()
    found = findings.name_who_waits(cluster.findings) + findings.find()
    return GroupStanding(fingerprint, most_urgent_first(found), queries.count_by_phase(), cluster, read_at)
