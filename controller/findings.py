"""This room finds what is wrong with brokers and partitions, since when, and because of what."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from controller import queries

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


def find(rows: Sequence[queries.BrokerRow], health: queries.Health, orphans: int) -> list[Finding]:
    """What is wrong now; `orphans` is how many lanes nobody holds. One kind of trouble is one finding."""
    live = queries.live_ids(row.broker for row in rows)
    fenced = [row for row in rows if row.attention]
    found = [_fenced(row, health) for row in fenced]
    if orphans:
        found.append(Finding("lanes_without_owner", CRITICAL, None, {"number": orphans}))
    for kind, severity, trouble in _PARTITION_FINDINGS:
        number = getattr(health, trouble.replace("-", "_"))
        # The count and the rows are two statements: between them the trouble may have gone.
        partitions = queries.troubled_partitions(live, trouble, _READ) if number else []
        if partitions:
            found.append(_about(kind, severity, partitions, number, fenced))
    return found


def _fenced(row: queries.BrokerRow, health: queries.Health) -> Finding:
    return Finding("broker_fenced", WARNING, row.broker.changed_at, {"row": row, "health": health})


def _about(
    kind: str,
    severity: str,
    partitions: Sequence[queries.PartitionRow],
    number: int,
    fenced: Sequence[queries.BrokerRow],
) -> Finding:
    replicas = {replica for partition in partitions for replica in partition.assigned}
    facts = {
        "number": number,
        "partitions": partitions,
        "names": [partition.name for partition in partitions[:_NAMED]],
        "more": max(0, number - _NAMED),
        "because": [row for row in fenced if row.broker.broker_id in replicas],
        "never_led": all(not partition.isr for partition in partitions),
    }
    return Finding(kind, severity, min(partition.changed_at for partition in partitions), facts)
