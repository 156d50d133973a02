"""This room is the smallest service there is: numbers that are added to, for tests of the heart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime.memory import MemoryConnection
from runtime.ports import Entry, VersionConflict

TABLES = """
CREATE TABLE IF NOT EXISTS counter (key text PRIMARY KEY, version bigint NOT NULL, total bigint NOT NULL);
CREATE TABLE IF NOT EXISTS tally (key text PRIMARY KEY, number bigint NOT NULL CHECK (number >= 0));
"""


class Added(msgspec.Struct, frozen=True, tag=True):
    """What became true: the total of a counter rose."""

    by: int


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter; version 0: no row."""

    key: str
    version: int = 0
    total: int = 0


class CounterStore:
    """Loads and saves counters on both databases."""

    def load(self, connection: Any, key: str) -> Counter:
        if isinstance(connection, MemoryConnection):
            found: Counter = connection.table("counter").get(key, Counter(key))
            return found
        row = connection.execute("SELECT key, version, total FROM counter WHERE key = %s", (key,)).fetchone()
        return Counter(*row) if row else Counter(key)

    def save(self, connection: Any, key: str, before: Counter, records: Sequence[Added]) -> None:
        after = fold(before, records)
        if isinstance(connection, MemoryConnection):
            if connection.table("counter").get(key, Counter(key)).version != before.version:
                raise VersionConflict(key)
            connection.table("counter")[key] = after
            return
        if before.version == 0:
            statement = "INSERT INTO counter VALUES (%(key)s, 1, %(total)s) ON CONFLICT DO NOTHING"
        else:
            statement = (
                "UPDATE counter SET version = version + 1, total = %(total)s"
                " WHERE key = %(key)s AND version = %(version)s"
            )
        values = {"key": key, "total": after.total, "version": before.version}
        if connection.execute(statement, values).rowcount != 1:
            raise VersionConflict(key)

    def save_all(self, connection: Any, turns: Sequence[tuple[str, Counter, Sequence[Added]]]) -> None:
        for key, before, records in turns:
            self.save(connection, key, before, records)


def fold(before: Counter, records: Sequence[Added]) -> Counter:
    """The counter after one turn."""
    total = before.total + sum(record.by for record in records)
    return replace(before, version=before.version + 1, total=total)


@dataclass
class Counters:
    """Subject of counters. Events: how much to add; 0 asks, a negative number is our own mistake."""

    store: CounterStore = field(default_factory=CounterStore)
    states: dict[str, Counter] = field(default_factory=dict)
    said: list[tuple[str, int]] = field(default_factory=list)
    refused: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    decided: int = 0
    look_again_at: Instant | None = None
    weights: dict[int, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def cached(self, key: str) -> Counter | None:
        return self.states.get(key)

    def revive(self, key: str, loaded: Counter, now: Instant) -> tuple[Counter, Decision[Added, int]]:
        return loaded, Decision()

    def decide(self, key: str, state: Counter, events: Sequence[int], now: Instant) -> Decision[Added, int]:
        self.decided += 1
        if any(event < 0 for event in events):
            raise ValueError("nobody can add less than nothing")
        records = tuple(Added(event) for event in events if event)
        replies = tuple(events)
        look_again_at, self.look_again_at = self.look_again_at, None
        return Decision(records, replies, (), look_again_at)

    def weight(self, event: int) -> int:
        return self.weights.get(event, 1)

    def size(self, key: str) -> int:
        return self.sizes.get(key, 0)

    def beat(self, key: str, now: Instant) -> Instant | None:
        return None

    def postponed(self, key: str, at: Instant) -> Instant | None:
        return at

    def before(self, key: str, state: Counter) -> Counter:
        return state

    def entry(self, key: str, events: Sequence[int], decision: Decision[Added, int]) -> Entry:
        return Entry("added", {"events": len(events)})

    def settle(self, key: str, state: Counter, decision: Decision[Added, int]) -> None:
        self.states[key] = fold(state, decision.records) if decision.records else state
        self.said.extend((key, reply) for reply in decision.replies)

    def drop(self, key: str) -> None:
        self.states.pop(key, None)

    def refuse(self, key: str, events: Sequence[int], error: Exception) -> None:
        self.refused.append((key, tuple(events)))


@dataclass
class Tally:
    """BatchSource: the newest number for each key, last one wins."""

    lane: str
    waiting: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    refusals: list[tuple[dict[str, int], Exception]] = field(default_factory=list)
    has_more: bool = False

    def note(self, key: str, number: int) -> None:
        self.waiting[f"{self.lane}:{key}"] = number

    def gather(self) -> Mapping[Any, Any]:
        rows, self.waiting = self.waiting, {}
        return rows

    write = staticmethod(lambda connection, rows: write_tally(connection, rows))

    def belongs_to(self, key: str) -> str:
        return key

    def committed(self, rows: Mapping[Any, Any]) -> None:
        self.acknowledged.update(rows)

    def refused(self, rows: Mapping[Any, Any], error: Exception) -> None:
        self.refusals.append((dict(rows), error))


def write_tally(connection: Any, rows: Mapping[str, int]) -> None:
    """Write all numbers in one statement, sorted by key."""
    if isinstance(connection, MemoryConnection):
        if any(number < 0 for number in rows.values()):
            raise ValueError("a number below zero")
        connection.table("tally").update(rows)
        return
    keys = sorted(rows)
    connection.execute(
        "INSERT INTO tally SELECT * FROM unnest(%(keys)s::text[], %(numbers)s::bigint[])"
        " ON CONFLICT (key) DO UPDATE SET number = EXCLUDED.number",
        {"keys": keys, "numbers": [rows[key] for key in keys]},
    )


def take_slowly(connection: Any, lane: str) -> None:
    """Somebody else's take of a lease, inside a transaction that is not yet committed."""
    if isinstance(connection, MemoryConnection):
        _, epoch = connection.table("lease")[lane]
        connection.table("lease")[lane] = ("bbbbbbbbbbbbbbbb", epoch + 1)
        return
    take = "UPDATE lease SET run = 'bbbbbbbbbbbbbbbb', epoch = epoch + 1 WHERE name = %s"
    connection.execute(take, (lane,))


def read_tally(connection: Any) -> dict[str, int]:
    """All numbers."""
    if isinstance(connection, MemoryConnection):
        return dict(connection.table("tally"))
    return dict(connection.execute("SELECT key, number FROM tally").fetchall())


def read_journal(connection: Any, lane: str) -> list[tuple[int, str, list[Any]]]:
    """(seq, key, records as JSON) of one lane, in order."""
    if isinstance(connection, MemoryConnection):
        rows = connection.table("journal").items()
        return sorted((seq, row.key, row.records) for (name, seq), row in rows if name == lane)
    found: list[tuple[int, str, list[Any]]] = connection.execute(
        "SELECT seq, key, records FROM journal WHERE lane = %s ORDER BY seq", (lane,)
    ).fetchall()
    return found
