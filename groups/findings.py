"""This room finds which groups need a person, since when, and because of what."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from controller.findings import WARNING, Finding
from groups import queries
from runtime import database_clock

_READ = 500
_AHEAD = timedelta(minutes=1)


def find() -> list[Finding]:
    """What is wrong with groups now; the stalled partitions of one group are one finding."""
    stalled: dict[str, list[queries.StalledPartition]] = {}
    for row in queries.stalled_partitions(_READ) + queries.partitions_never_committed(_READ):
        stalled.setdefault(row.group, []).append(row)
    found = []
    for group, rows in stalled.items():
        rows.sort(key=lambda row: row.since)
        lag = sum(row.lag or 0 for row in rows)
        facts = {"group": group, "rows": rows, "first": rows[0], "lag": lag}
        found.append(Finding("group_stalled", WARNING, _known(rows[0].since), facts, (group,)))
    for unsettled, session_timeout_ms in queries.unsettled_groups(_READ):
        kind = "group_error" if unsettled.error else "group_stuck"
        since = unsettled.changed_at if unsettled.error else unsettled.phase_entered_at
        facts = {"group": unsettled.name, "row": unsettled, "session_timeout_ms": session_timeout_ms}
        found.append(Finding(kind, WARNING, _known(since), facts, (unsettled.name,)))
    return found


def _known(since: datetime) -> datetime | None:
    """None: it stands in the future, as the database's clock was set back, and nobody knows when it was."""
    return since if since < database_clock.now() + _AHEAD else None


def name_who_waits(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those about partitions without a leader completed by the groups that wait for them."""
    named = []
    for finding in findings:
        if finding.kind == "partitions_offline":
            waits = queries.groups_that_wait_for([row.id for row in finding.facts["partitions"]])
            finding = replace(finding, facts={**finding.facts, "waits": waits}, groups=tuple(waits))
        named.append(finding)
    return named
