"""This room reads a group's journal: its rows become records, and its rebalances get their dates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from groups.core import rebalances as core
from groups.core.rebalances import Move
from groups.core.records import GroupRecord

Partition = tuple[str, int]
"""Topic name and number."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn of the group as the journal keeps it: when, why, and what became true."""

    at: datetime
    cause: str
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One attempt as pages show it; see `groups.core.rebalances.Rebalance`."""

    started: datetime
    ended: datetime | None
    cause: str
    detail: str
    generation: int | None
    failed: bool
    members: int
    moves: Mapping[Partition, Move]
    moved: int
    preparing_ms: float
    completing_ms: float
    length_ms: float

    @property
    def open(self) -> bool:
        return self.ended is None


def rebalances(entries: Iterable[Entry]) -> list[Rebalance]:
    """The rebalances in these entries (oldest first), newest first."""
    turns = ((_ms(entry.at), entry.cause, _read(entry.records)) for entry in entries)
    return [_shown(one) for one in core.rebalances(turns)]


def _read(rows: Iterable[Mapping[str, Any]]) -> list[GroupRecord]:
    """The records; what an older or a newer product wrote and this one cannot read is passed over."""
    found: list[GroupRecord] = []
    for row in rows:
        try:
            found.append(msgspec.convert(row, GroupRecord))
        except msgspec.ValidationError:
            continue
    return found


def _shown(told: core.Rebalance) -> Rebalance:
    return Rebalance(
        started=_date(told.started_ms),
        ended=None if told.ended_ms is None else _date(told.ended_ms),
        cause=told.cause,
        detail=told.detail,
        generation=told.generation,
        failed=told.failed,
        members=told.members,
        moves={(partition.topic, partition.number): move for partition, move in told.moves.items()},
        moved=told.moved,
        preparing_ms=told.preparing_ms,
        completing_ms=told.completing_ms,
        length_ms=told.length_ms,
    )


def _ms(at: datetime) -> float:
    return (at - _EPOCH) / _MILLISECOND


def _date(ms: float) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)
