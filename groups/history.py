"""This room tells a group's rebalances from its journal: pure, it folds entries and knows no table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Partition = tuple[str, int]
"""Topic name and number."""


_WORDS_OF_DEPARTURES = {"left": "member left", "session over": "member expired"}
_LEFT_FOR = "left: "
"""What follows are the member's own words."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn of the group as the journal keeps it: when, why, and what became true."""

    at: datetime
    cause: str
    records: tuple[Mapping[str, Any], ...]


@dataclass(slots=True)
class Move:
    """One partition that changed hands; None: it was nobody's, or nobody's it became."""

    before: str | None
    after: str | None


@dataclass(slots=True)
class Rebalance:
    """One attempt: when it opened, why, what each phase took, what moved.

    `generation` is None while it is open and for an attempt that failed. `ended` is None while it is open.
    """

    started: datetime
    cause: str
    detail: str
    members: int
    closed: datetime | None = None
    ended: datetime | None = None
    generation: int | None = None
    failed: bool = False
    moves: dict[Partition, Move] = field(default_factory=dict)

    @property
    def preparing_ms(self) -> float:
        """From the opening to the close, or to the failure."""
        end = self.closed or self.ended
        return 0.0 if end is None else (end - self.started).total_seconds() * 1000

    @property
    def completing_ms(self) -> float:
        """From the close until the last member was heard to have started."""
        if self.closed is None or self.ended is None:
            return 0.0
        return (self.ended - self.closed).total_seconds() * 1000

    @property
    def length_ms(self) -> float:
        return self.preparing_ms + self.completing_ms

    @property
    def moved(self) -> int:
        """Partitions that came to another member."""
        return sum(1 for move in self.moves.values() if move.after and move.after != move.before)

    @property
    def open(self) -> bool:
        return self.ended is None


def rebalances(entries: Iterable[Entry]) -> list[Rebalance]:
    """The rebalances in these entries (oldest first), newest first.

    What happened before the first entry is not known; a partition taken from an owner of that time counts as
    moved, and its owner before is not named unless the journal names it.
    """
    fold = _Fold()
    for entry in entries:
        fold.take(entry)
    return list(reversed(fold.found))


class _Fold:
    """What is known of the group after the entries so far."""

    def __init__(self) -> None:
        self.found: list[Rebalance] = []
        self._current: Rebalance | None = None
        self._owners: dict[Partition, str] = {}
        self._members: set[str] = set()
        self._why: list[tuple[str, str]] = []
        # Partitions freed by a departure, with the owner of then: the next assignment ties the arrow to it.
        self._freed: dict[Partition, str] = {}

    def take(self, entry: Entry) -> None:
        # A turn that closes or fails an attempt may name the phase before what it follows from.
        for record in sorted(entry.records, key=lambda record: record.get("record") == "PhaseEntered"):
            handle = getattr(self, f"_{record.get('record')}", None)
            if handle is not None:
                handle(record, entry)

    def _MemberAdded(self, record: Mapping[str, Any], entry: Entry) -> None:
        self._members.add(record["member_id"])
        self._why.append(("member joined", record["member_id"]))

    def _MemberChanged(self, record: Mapping[str, Any], entry: Entry) -> None:
        self._why.append(("subscription changed", record["member_id"]))

    def _MemberRemoved(self, record: Mapping[str, Any], entry: Entry) -> None:
        member = record["member_id"]
        self._members.discard(member)
        why = str(record.get("why") or "left")
        self._why.append((_words_of_departure(why), member))
        for partition in [part for part, owner in self._owners.items() if owner == member]:
            self._freed[partition] = self._owners.pop(partition)

    def _HandlerAsked(self, record: Mapping[str, Any], entry: Entry) -> None:
        if not self._why and record.get("cause"):
            self._why.append((str(record["cause"]), ""))

    def _PhaseEntered(self, record: Mapping[str, Any], entry: Entry) -> None:
        phase = record["phase"]
        if phase == "PreparingRebalance":
            self._end(entry.at, failed=True)
            self._open(entry)
        elif phase in ("Stable", "Empty"):
            self._end(entry.at, failed=self._current is not None and self._current.closed is None)

    def _GenerationOpened(self, record: Mapping[str, Any], entry: Entry) -> None:
        if self._current is None:
            # Nobody had to give anything up: opened and closed in one turn.
            self._open(entry)
        if self._current is not None:
            self._current.closed = entry.at
            self._current.generation = record["generation"]
            self._current.members = len(self._members) or self._current.members

    def _PartitionsReleased(self, record: Mapping[str, Any], entry: Entry) -> None:
        for partition in _partitions(record):
            self._owners.pop(partition, None)
            self._freed[partition] = record["member_id"]
            self._note(partition, record["member_id"], None)

    def _PartitionsAssigned(self, record: Mapping[str, Any], entry: Entry) -> None:
        for partition in _partitions(record):
            before = self._owners.get(partition) or self._freed.pop(partition, None)
            self._owners[partition] = record["member_id"]
            self._note(partition, before, record["member_id"])

    def _note(self, partition: Partition, before: str | None, after: str | None) -> None:
        if self._current is None:
            return
        move = self._current.moves.setdefault(partition, Move(before, after))
        move.after = after
        move.before = move.before or before

    def _open(self, entry: Entry) -> None:
        cause, detail = self._why[0] if self._why else (entry.cause, "")
        if len(self._why) > 1:
            detail = ", ".join(dict.fromkeys(name for _, name in self._why if name))
        self._current = Rebalance(entry.at, cause, detail, len(self._members))
        self._why = []
        self.found.append(self._current)

    def _end(self, at: datetime, *, failed: bool) -> None:
        if self._current is not None:
            self._current.ended = at
            self._current.failed = failed and self._current.generation is None
            self._current = None


def _partitions(record: Mapping[str, Any]) -> list[Partition]:
    return [(entry["topic"], number) for entry in record["partitions"] for number in entry["partitions"]]


def _words_of_departure(why: str) -> str:
    if why.startswith(_LEFT_FOR):
        return f"member {why}"
    return _WORDS_OF_DEPARTURES.get(why, f"member removed: {why}")
