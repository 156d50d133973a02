"""This room reads the standing of all groups once for a request: how many, in which phase, what is wrong."""

from dataclasses import dataclass
from functools import cached_property

from django.http import HttpRequest

from controller import standing as cluster_standing
from controller.findings import Finding, most_urgent_first
from groups import findings, queries

_KEPT = "_group_standing"


@dataclass(frozen=True)
class GroupStanding:
    """All findings, of groups and of the cluster, most urgent first, and the groups counted by phase."""

    findings: list[Finding]
    by_phase: dict[str, int]

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


def of(request: HttpRequest) -> GroupStanding:
    """The standing as this request read it first."""
    if not hasattr(request, _KEPT):
        found = findings.name_who_waits(cluster_standing.of(request).findings) + findings.find()
        setattr(request, _KEPT, GroupStanding(most_urgent_first(found), queries.count_by_phase()))
    kept: GroupStanding = getattr(request, _KEPT)
    return kept
