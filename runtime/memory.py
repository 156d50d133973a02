"""This room is a database in memory that obeys the same contract as PostgreSQL, for tests and simulation."""

import copy
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from runtime.database import (
    NOTHING_SAID,
    Backend,
    Fenced,
    Held,
    JournalRow,
    LeaseRow,
    Look,
    Peer,
    Said,
    Written,
)
from runtime.nodes import FIRST_NODE_ID
from runtime.ports import ConnectionLost
from runtime.work_table import AnsweredRow, FinishedItem, Offered, RequestRow, WorkRow

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Session:
    node: str
    address: str
    kafka: str
    backend: Backend
    renewals: int = 0
    ended: bool = False
    draining: bool = False
    said: Said = NOTHING_SAID


class MemoryDatabase:
    """Tables by name; one transaction at a time, so that a take waits for turns as it does in PostgreSQL."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self.lock = threading.RLock()
        self.tables: dict[str, dict[Any, Any]] = {
            "lease": {name: (None, 0) for name in lanes},
            "session": {},
            "identity": {},
            "journal": {},
            "work": {},
        }
        self.links: list[MemoryLink] = []
        self.numbers = itertools.count(1)

    def connect(self, run: str, purpose: str) -> "MemoryLink":
        """Open a link (Database.connect)."""
        link = MemoryLink(self, run, Backend(next(self.numbers), 0))
        self.links.append(link)
        return link

    def there(self, backend: Backend) -> bool:
        """Whether this backend's link is open."""
        return any(link.backend == backend and not link.broken for link in self.links)


@dataclass
class MemoryConnection:
    """What a store sees: the tables as its transaction may change them."""

    database: MemoryDatabase
    lane: str = ""
    offered: list[Offered] = field(default_factory=list)
    changed: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def table(self, name: str) -> dict[Any, Any]:
        """The rows of one table by key, to be read and replaced; nobody else sees them before the commit."""
        if name not in self.changed:
            self.changed[name] = dict(self.database.tables.setdefault(name, {}))
        return self.changed[name]

    @property
    def work_table(self) -> "MemoryWork":
        """The work items."""
        return MemoryWork(self)


class MemoryLink:
    """One connection to the database in memory (Link).

    A test may set `lose_answer` to break the link after the next commit, or `lose_request` before it.
    """

    def __init__(self, database: MemoryDatabase, run: str, backend: Backend) -> None:
        self.database = database
        self.run = run
        self.broken = False
        self.lose_answer = False
        self.lose_request = False
        self._backend = backend

    @property
    def backend(self) -> Backend:
        """The server's end (Link.backend)."""
        return self._backend

    def turn(self, held: Held, write: Callable[[Any], None], *rows: JournalRow) -> Written:
        """Fence, write, journal, commit (Link.turn)."""

        def whole(connection: MemoryConnection) -> Written:
            connection.lane = held.name
            if connection.table("lease").get(held.name, (None, -1))[1] != held.epoch:
                raise Fenced(held.name)
            write(connection)
            for row in rows:
                place = (row.lane, row.seq)
                if place in connection.table("journal"):
                    raise KeyError(f"the journal has {place} already")
                plain = msgspec.json.decode(msgspec.json.encode(row.records))
                connection.table("journal")[place] = replace(row, records=plain)
            return Written(connection.offered)

        return self.transaction(whole)

    def batch(self, held: Sequence[Held], write: Callable[[Any], None]) -> None:
        """Fence all, write, commit (Link.batch)."""

        def whole(connection: MemoryConnection) -> None:
            leases = connection.table("lease")
            if any(leases.get(lease.name, (None, -1))[1] != lease.epoch for lease in held):
                raise Fenced(", ".join(lease.name for lease in held))
            write(connection)

        self.transaction(whole)

    def call(self, function: Callable[[Any], Result]) -> Result:
        """Run `function` (Link.call)."""
        return self.transaction(function)

    def transaction(self, function: Callable[[Any], Result]) -> Result:
        """Run `function` on copies of the tables it touches, and put them in place (Link.transaction)."""
        with self.database.lock:
            self._alive()
            connection = MemoryConnection(self.database)
            result = function(connection)
            if self.lose_request:
                self.broken = True
                raise ConnectionLost("lost before COMMIT")
            self.database.tables.update(connection.changed)
            if self.lose_answer:
                self.broken = True
                raise ConnectionLost("lost after COMMIT")
            return result

    def epochs(self, names: Sequence[str]) -> Mapping[str, tuple[str | None, int]]:
        """Run and epoch of these leases (Link.epochs)."""
        return self.transaction(lambda connection: {name: connection.table("lease")[name] for name in names})

    def take(self, name: str, seen_epoch: int, run: str) -> bool:
        """Take the lease (Link.take)."""

        def whole(connection: MemoryConnection) -> bool:
            if connection.table("lease")[name][1] != seen_epoch:
                return False
            connection.table("lease")[name] = (run, seen_epoch + 1)
            return True

        return self.transaction(whole)

    def resign(self, held: Held) -> bool:
        """Leave the lease to nobody (Link.resign)."""

        def whole(connection: MemoryConnection) -> bool:
            if connection.table("lease")[held.name][1] != held.epoch:
                return False
            connection.table("lease")[held.name] = (None, held.epoch)
            return True

        return self.transaction(whole)

    def last_seq(self, lane: str) -> int:
        """The newest journal entry's number (Link.last_seq)."""
        return self.transaction(
            lambda connection: max(
                (seq for name, seq in connection.table("journal") if name == lane), default=0
            )
        )

    def turn_at(self, lane: str, seq: int) -> UUID | None:
        """The id of the turn at this place (Link.turn_at)."""
        row = self.transaction(lambda connection: connection.table("journal").get((lane, seq)))
        return row.turn_id if row else None

    def terminate(self, backend: Backend) -> None:
        """End another backend (Link.terminate)."""
        for link in self.database.links:
            if link.backend == backend:
                link.broken = True

    def terminate_run(self, run: str) -> None:
        """End every backend of a run (Link.terminate_run)."""
        for link in self.database.links:
            if link.run == run:
                link.broken = True

    def begin_run(self, run: str, node: str, address: str, kafka: str = "") -> int:
        """Store a new run (Link.begin_run)."""

        def whole(connection: MemoryConnection) -> int:
            connection.table("session")[run] = _Session(node, address, kafka, self._backend)
            numbers = connection.table("identity")
            given: int = numbers.setdefault(node, FIRST_NODE_ID + len(numbers))
            return given

        return self.transaction(whole)

    def renew(self, run: str, said: Said = NOTHING_SAID) -> Look:
        """Renew and look (Link.renew)."""

        def whole(connection: MemoryConnection) -> Look:
            sessions = connection.table("session")
            mine = sessions.get(run)
            renewals = None
            if mine is not None and not mine.ended:
                renewals = mine.renewals + 1
                sessions[run] = replace(mine, renewals=renewals, backend=self._backend, said=said)
            peers = tuple(
                Peer(
                    name,
                    peer.node,
                    peer.address,
                    peer.draining,
                    peer.renewals,
                    self.database.there(peer.backend),
                    connection.table("identity")[peer.node],
                    peer.kafka,
                    peer.said.came,
                    peer.said.made_way_for,
                )
                for name, peer in sessions.items()
                if name != run and not peer.ended
            )
            leases = tuple(
                LeaseRow(name, holder, epoch, holder not in sessions or sessions[holder].ended)
                for name, (holder, epoch) in sorted(connection.table("lease").items())
            )
            return Look(renewals, peers, leases)

        return self.transaction(whole)

    def end_run(self, run: str, seen_renewals: int) -> bool:
        """End a peer's run (Link.end_run)."""
        return self._change_session(run, seen_renewals, ended=True)

    def leave(self, run: str) -> None:
        """End this node's own run (Link.leave)."""
        self._change_session(run, None, ended=True)

    def drain(self, run: str) -> None:
        """Say that this run gives its leases away (Link.drain)."""
        self._change_session(run, None, draining=True)

    def _change_session(self, run: str, seen_renewals: int | None, **changes: bool) -> bool:
        def whole(connection: MemoryConnection) -> bool:
            session = connection.table("session").get(run)
            if session is None or session.ended or seen_renewals not in (None, session.renewals):
                return False
            connection.table("session")[run] = replace(session, **changes)
            return True

        return self.transaction(whole)

    def shut(self) -> None:
        """Break the link (Link.shut)."""
        self.broken = True

    def close(self) -> None:
        """Close the link (Link.close)."""
        self.broken = True

    def _alive(self) -> None:
        if self.broken:
            raise ConnectionLost("the link is broken")


class MemoryWork:
    """The work items of one transaction (WorkTable)."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._rows: dict[str, WorkRow] = connection.table("work")

    def insert(self, row: WorkRow) -> None:
        """Store a due item (WorkTable.insert)."""
        self._rows[row.id] = copy.deepcopy(row)

    def claim(self, item_id: str, worker: str) -> WorkRow | None:
        """Claim a due item (WorkTable.claim)."""
        row = self._rows.get(item_id)
        if row is None or row.state != "due":
            return None
        self._rows[item_id] = replace(row, state="claimed", claim_epoch=row.claim_epoch + 1)
        return self._rows[item_id]

    def finish(self, item_id: str, claim_epoch: int, result: Any, error: str) -> bool:
        """Hand in what one claim computed (WorkTable.finish)."""
        return self._move(item_id, ("claimed", claim_epoch), state="done", result=result, error=error)

    def reclaim(self, item_id: str, claim_epoch: int) -> bool:
        """Take a claim back (WorkTable.reclaim)."""
        return self._move(item_id, ("claimed", claim_epoch), state="due")

    def adopt(self, item_id: str) -> bool:
        """Count a done item as used (WorkTable.adopt)."""
        row = self._rows.get(item_id)
        return row is not None and self._move(item_id, ("done", row.claim_epoch), state="adopted")

    def withdraw(self, kind: str, keys: Sequence[str]) -> None:
        """Let nobody do or adopt the open items of these keys (WorkTable.withdraw)."""
        for row in list(self._rows.values()):
            if row.state != "adopted" and row.kind == kind and row.key in keys:
                self._rows[row.id] = replace(row, state="adopted")

    def finished(self, kind: str, keys: Sequence[str]) -> list[FinishedItem]:
        """Done items of these keys (WorkTable.finished)."""
        return [
            FinishedItem(row.id, row.kind, row.key, row.based_on, row.result, row.error)
            for row in self._rows.values()
            if row.state == "done" and row.kind == kind and row.key in keys
        ]

    def ready(self, kind: str, keys: Sequence[str], known: Sequence[str], most: int) -> list[RequestRow]:
        """Requests that wait for their owner (WorkTable.ready)."""
        found = (
            RequestRow(row.id, row.key, row.principal, row.reason, row.payload, row.result, row.error)
            for row in self._rows.values()
            if row.state == "done" and row.kind == kind and row.key in keys and row.id not in known
        )
        return list(itertools.islice(found, most))

    def answer(self, item_id: str, answer: Any, error: str) -> bool:
        """Write what was answered (WorkTable.answer)."""
        row = self._rows.get(item_id)
        return row is not None and self._move(
            item_id, ("done", row.claim_epoch), state="adopted", result=answer, error=error
        )

    def append(self, item_id: str, results: Sequence[Any]) -> bool:
        """Put more behind what a done item has (WorkTable.append)."""
        row = self._rows.get(item_id)
        return row is not None and self._move(
            item_id, ("done", row.claim_epoch), result=[*(row.result or ()), *results]
        )

    def answers(self, item_ids: Sequence[str]) -> list[AnsweredRow]:
        """Those of these requests that are answered (WorkTable.answers)."""
        rows = [self._rows[one] for one in item_ids if one in self._rows]
        return [AnsweredRow(row.id, row.result, row.error) for row in rows if row.state == "adopted"]

    def open_keys(self, kind: str, keys: Sequence[str]) -> set[str]:
        """Keys that have an item which is not adopted (WorkTable.open_keys)."""
        return {
            row.key
            for row in self._rows.values()
            if row.state != "adopted" and row.kind == kind and row.key in keys
        }

    def open_items(self, lanes: Sequence[str]) -> list[WorkRow]:
        """Items of these lanes that are not adopted, without payload (WorkTable.open_items)."""
        return [row for row in self._rows.values() if row.state != "adopted" and row.lane in lanes]

    def _move(self, item_id: str, expected: tuple[str, int], **changes: Any) -> bool:
        row = self._rows.get(item_id)
        if row is None or (row.state, row.claim_epoch) != expected:
            return False
        self._rows[item_id] = replace(row, **changes)
        return True
