"""This room finds what is wrong with brokers and partitions, since when, and because of what."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from controller import leases, move_queries, queries

CRITICAL, WARNING = "critical", "warning"
_NAMED = 4
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_READ = 200
_PARTITION_FINDINGS = (
    ("partitions_offline", CRITICAL, "offline"),
    ("partitions_under_min_isr", CRITICAL, "under-min-isr"),
    ("partitions_one_copy", WARNING, "one-copy"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that needs a person; `kind` names the template that words it, `facts` fill it in."""

    kind: str
    severity: str
    since: datetime | None
    facts: dict[str, Any] = field(default_factory=dict)
    groups: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The template that words it."""
        return f"findings/{self.kind}.html"


def most_urgent_first(findings: Sequence[Finding]) -> list[Finding]:
    """Critical before warning, then what lasts longest; what began nobody knows when stands first."""
    return sorted(findings, key=lambda one: (one.severity != CRITICAL, one.since or _LONG_AGO))


def find(
    rows: Sequence[queries.BrokerRow], health: queries.Health, orphans: leases.Orphans, work: leases.Work
) -> list[Finding]:
    """What is wrong now. One kind of trouble is one finding."""
    live = queries.live_ids(row.broker for row in rows)
    fenced = [row for row in rows if row.attention]
    found = [_fenced(row, health) for row in fenced]
    if proofs := [row.broker.set_back for row in rows if row.broker.set_back]:
        found.append(Finding("database_set_back", CRITICAL, None, {"proofs": proofs}))
    if orphans.lanes:
        facts = {"number": len(orphans.lanes), "lanes": orphans.lanes}
        found.append(Finding("lanes_without_owner", CRITICAL, orphans.since, facts))
    if work.waiting:
        facts = {"number": work.waiting, "groups": work.groups}
        found.append(Finding("work_waits", WARNING, work.waiting_since, facts, work.groups))
    elif work.by_spares:
        found.append(Finding("workers_away", WARNING, work.by_spares_since, {"number": work.by_spares}))
    for kind, severity, trouble in _PARTITION_FINDINGS:
        number = getattr(health, trouble.replace("-", "_"))
        # The count and the rows are two statements: between them the trouble may have gone.
        partitions = queries.troubled_partitions(live, trouble, _READ) if number else []
        if partitions:
            found.append(_about(kind, severity, partitions, number, fenced))
    return found


def of_moves(moves: move_queries.MoveCounts) -> list[Finding]:
    """What is wrong with reassignments: those that wait for a broker, or for a leader to copy from."""
    # Between the count and the rows they may have gone on.
    rows = move_queries.stalled(_READ) if moves.stalled else []
    if not rows:
        return []
    facts = {
        "number": moves.stalled,
        "names": [row.name for row in rows[:_NAMED]],
        "more": max(0, moves.stalled - _NAMED),
        "brokers": sorted({broker for row in rows for broker in row.waits_for}),
        "leaderless": sum(1 for row in rows if row.leaderless),
    }
    return [Finding("reassignments_wait", WARNING, rows[0].waits_since, facts)]


def of_topic(rows: Sequence[queries.BrokerRow], topic: queries.TopicRow) -> list[Finding]:
    """What is wrong with the partitions of one topic."""
    live = queries.live_ids(row.broker for row in rows)
    fenced = [row for row in rows if row.attention]
    found = []
    for kind, severity, trouble in _PARTITION_FINDINGS:
        number = getattr(topic, trouble.replace("-", "_"))
        partitions = queries.troubled_partitions(live, trouble, _READ, topic.topic_id) if number else []
        if partitions:
            found.append(_about(kind, severity, partitions, number, fenced))
    return most_urgent_first(found)


def _fenced(row: queries.BrokerRow, health: queries.Health) -> Finding:
    return Finding("broker_fenced", WARNING, row.broker.changed_at, {"row": row, "health": health})


def _about(
    kind: str,
    severity: str,
    partitions: Sequence[queries.PartitionRow],
    number: int,
    fenced: Sequence[queries.BrokerRow],
) -> Finding:
    facts = {
        "number": number,
        "partitions": partitions,
        "names": [partition.name for partition in partitions[:_NAMED]],
        "more": max(0, number - _NAMED),
        "because": [row for row in fenced if any(_is_cause(row, partition) for partition in partitions)],
        "never_led": all(not partition.isr for partition in partitions),
    }
    return Finding(kind, severity, min(partition.since for partition in partitions), facts)


def _is_cause(row: queries.BrokerRow, partition: queries.PartitionRow) -> bool:
    """A broker that was lost after the trouble began did not begin it."""
    return row.broker.broker_id in partition.assigned and row.broker.changed_at <= partition.since
