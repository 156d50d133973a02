"""This room tells leader elections from turns of the journal, as REST gives them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from muster.messages.link.rows import NO_LEADER, AlikePartitions


@dataclass(slots=True)
class Election:
    """Partitions that got another leader by one cause; `length_ms` from the cause to the new leaders."""

    cause: str
    at: datetime
    elected: int = 0
    without_leader: int = 0
    length_ms: float = 0.0


def elections_of(turns: Iterable[Mapping[str, Any]]) -> list[Election]:
    """The leader elections in the controller's turns, oldest first.

    A turn that adopts a worker's proposals counts from the turn that asked for them. The first leader of
    a new partition is no election here.
    """
    found: list[Election] = []
    leaders: dict[tuple[UUID, int], int] = {}
    asked: tuple[str, datetime] | None = None
    for turn in turns:
        at = _time(turn)
        changed = [
            row
            for record in turn["records"]
            if record.get("record") == "PartitionsChanged"
            for row in msgspec.convert(record["alike"], AlikePartitions).rows(record["version"])
        ]
        moved = [row for row in changed if leaders.get(row.key) not in (None, row.leader)]
        leaders.update({row.key: row.leader for row in changed})
        if any(record.get("record") == "WorkOffered" for record in turn["records"]):
            asked = (turn["cause"], at)
        if moved:
            adopts = asked is not None and "worker" in turn["cause"]
            cause, since = asked if asked is not None and adopts else (turn["cause"], at)
            without = sum(row.leader == NO_LEADER for row in moved)
            length_ms = (at - since).total_seconds() * 1000
            found.append(Election(cause, at, len(moved) - without, without, length_ms))
    return found


def _time(turn: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(turn["at"])
