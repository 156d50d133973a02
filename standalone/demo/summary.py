"""This room is what the demo tells at its end: records, rates, rebalances, elections, checks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from standalone.demo.evidence import Check
from standalone.demo.story import Election


@dataclass(slots=True)
class Account:
    """What was counted along the road; rebalances are rows as REST gives them."""

    produced: int = 0
    produce_seconds: float = 0.0
    settle_seconds: float = 0.0
    pipeline_seconds: float | None = None
    broker_killed_at: datetime | None = None
    consumed: dict[str, int] = field(default_factory=dict)
    rebalances: list[dict[str, Any]] = field(default_factory=list)
    elections: list[Election] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The summary, a line at a time."""
        return [
            "",
            *table("Records", ("what", "records", "seconds", "records/s"), self._records()),
            *table(
                "Rebalances",
                ("generation", "cause", "length", "moved", "members"),
                map(_rebalance, self.rebalances),
            ),
            *table(
                "Leader elections",
                ("cause", "partitions", "without leader", "length", "after the kill"),
                map(self._election, self.elections),
            ),
            *table("Checks", ("", "promise", "detail"), self._checks()),
        ]

    def _records(self) -> Iterable[Sequence[str]]:
        rate = self.produced / self.produce_seconds if self.produce_seconds else 0.0
        yield "produced, acks=all", str(self.produced), f"{self.produce_seconds:.1f}", f"{rate:.0f}"
        for name, count in self.consumed.items():
            yield f"consumed by {name}", str(count), "", ""
        yield "until all was settled", "", f"{self.settle_seconds:.1f}", ""
        if self.pipeline_seconds is not None:
            yield "Spark job", str(self.produced), f"{self.pipeline_seconds:.1f}", ""

    def _election(self, election: Election) -> Sequence[str]:
        killed_at = self.broker_killed_at
        after = "" if killed_at is None else duration((election.at - killed_at).total_seconds() * 1000)
        counts = str(election.elected), str(election.without_leader)
        return election.cause, *counts, duration(election.length_ms), after

    def _checks(self) -> Iterable[Sequence[str]]:
        for check in self.checks:
            yield "kept" if check.kept else "BROKEN", check.promise, check.detail
        for promise in self.skipped:
            yield "skipped", promise, "needs Java 17 and Maven"


def _rebalance(row: Mapping[str, Any]) -> Sequence[str]:
    generation = "failed" if row["failed"] else str(row["generation"] or "open")
    cause = f"{row['cause']} {row['detail']}".strip()
    return generation, cause, duration(row["length_ms"]), str(row["moved"]), str(row["members"])


def duration(length_ms: float) -> str:
    """Two units at most: `<1s` is written in milliseconds here, where rebalances are that short."""
    return f"{length_ms:.0f}ms" if length_ms < 1000 else f"{length_ms / 1000:.2f}s"


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table for a terminal, columns as wide as their longest cell."""
    cells = [tuple(heads), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return [
        title,
        "  " + text[0],
        "  " + "  ".join("-" * width for width in widths),
        *("  " + line for line in text[1:]),
        "",
    ]
