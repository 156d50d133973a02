"""This room finds which groups need a person, since when, and because of what."""

from collections.abc import Sequence
from dataclasses import replace

from controller.findings import WARNING, Finding
from groups import queries

STALLED_AFTER_MS = 60_000
"""A commit is older than this while records wait: the partition counts as stalled."""

LEAST_STALLED_LAG = 100
"""Fewer waiting records than this are a consumer between two commits, not a stall."""

_READ = 500


def find() -> list[Finding]:
    """What is wrong with groups now; the stalled partitions of one group are one finding."""
    stalled: dict[str, list[queries.StalledPartition]] = {}
    for row in queries.stalled_partitions(STALLED_AFTER_MS, LEAST_STALLED_LAG, _READ):
        stalled.setdefault(row.group, []).append(row)
    found = [
        Finding(
            "group_stalled",
            WARNING,
            min(row.committed_at for row in rows),
            {"group": group, "rows": rows, "first": rows[0], "lag": sum(row.lag for row in rows)},
            (group,),
        )
        for group, rows in stalled.items()
    ]
    for group, session_timeout_ms in queries.unsettled_groups(_READ):
        kind = "group_error" if group.error else "group_stuck"
        facts = {"group": group.name, "row": group, "session_timeout_ms": session_timeout_ms}
        found.append(Finding(kind, WARNING, group.changed_at, facts, (group.name,)))
    return found


def name_who_waits(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those about partitions without a leader completed by the groups that wait for them."""
    named = []
    for finding in findings:
        if finding.kind == "partitions_offline":
            waits = queries.groups_that_wait_for([row.id for row in finding.facts["partitions"]])
            finding = replace(finding, facts={**finding.facts, "waits": waits}, groups=tuple(waits))
        named.append(finding)
    return named
