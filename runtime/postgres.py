"""This room runs the statements of leases.md section 2 on PostgreSQL, over raw psycopg connections."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, LiteralString, TypeVar
from uuid import UUID

import msgspec
import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from kafkaserver.version import own_version
from runtime import cluster, journal, nodes, seen, succession
from runtime.arrays import array_of_numbers, array_of_texts
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
from runtime.failpoints import passing
from runtime.ports import ConnectionLost, VersionConflict
from runtime.session_statements import BEGIN_LINK, BEGIN_RUN, RENEW
from runtime.work_table import Offered, PostgresWork

Result = TypeVar("Result")
TRANSACTION_LIMIT_MS = 2_000
CONNECT_LIMIT_S = 2
_LIMITS = {
    "connect_timeout": CONNECT_LIMIT_S,
    # A server that vanished without a word is given up after about four seconds, before the lease is.
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 4_000,
}
_SESSION = {
    "transaction_timeout": str(TRANSACTION_LIMIT_MS),
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "default_transaction_isolation": r"read\ committed",
}
"""Stated, as an administrator may have set others for the database or the role: who only listens is idle for
ever, a statement that is cut short looks like a row that has changed, and leases.md is about this isolation.
"""
_POOLERS_REFUSAL = "unsupported startup parameter"
"""PgBouncer, to whoever bounds his transactions; PostgreSQL has other words for what it does not know."""
_TRY_AGAIN = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.QueryCanceled,
)

_FENCE = "SELECT 1 FROM lease WHERE name = %s AND epoch = %s AND tableoid = %s::oid FOR SHARE"
"""In the table of before: rows of then, of a dump that was read in beneath us, may hold the same epoch."""
_FENCED = """
WITH written AS (
{statement}
), fence AS (
SELECT 1 / (count(*) = %(lease_count)s)::int AS held FROM (
    SELECT 1 FROM lease l
    JOIN unnest(%(lease_names)s::text[], %(lease_epochs)s::bigint[]) u(name, epoch) USING (name, epoch)
    WHERE l.tableoid = %(lease_table)s::oid FOR SHARE OF l) f)
{result}
"""
_FENCE_ONLY = "SELECT held FROM fence"
_CHANGED = "SELECT (SELECT count(*) FROM written), held FROM fence"
_RETURNED = "SELECT written.*, held FROM fence LEFT JOIN written ON true"
"""The fence stands before what was written: it is looked at where nothing was."""
_encode = msgspec.json.Encoder().encode


class LaneConnection(psycopg.Connection[tuple[Any, ...]]):
    """A psycopg connection that knows which lane's transaction runs in it, and what that one offered."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.lane = ""
        self.offered: list[Offered] = []
        self.row_ids: dict[Any, int] = {}
        """By which ids the server of this connection knows rows; its successor may give them to others."""
        self.lease_table: int | None = None
        """By oid; None: there is none, or no link was made of this connection."""

    def changed(self, statement: LiteralString, values: Mapping[str, Any]) -> int:
        """Run a statement that writes; how many rows it changed."""
        return self.execute(statement, values).rowcount

    def returned(self, statement: LiteralString, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """Run a statement that writes; what it returns of its rows."""
        return self.execute(statement, values).fetchall()

    @property
    def work_table(self) -> PostgresWork:
        """The work items (TurnConnection.work_table)."""
        return PostgresWork(self)


class Postgres:
    """The database of `url`, for the node `node`; `url` must reach PostgreSQL itself, no pooler."""

    def __init__(self, url: str, node: str) -> None:
        self._url = url
        self._node = node
        self._met: UUID | None = None

    def connect(self, run: str, purpose: str) -> "PostgresLink":
        """Open a link (Database.connect). Raises WrongDatabase, as long as the cluster was never met here."""
        try:
            connection = open_connection(self._url, seen.as_node(self._node, run))
        except ConnectionLost as error:
            if _POOLERS_REFUSAL in str(error):
                refusal = "DATABASE_DIRECT_URL reaches a connection pooler; name PostgreSQL itself"
                raise cluster.WrongDatabase(f"{refusal}. It said: {error}") from error
            raise
        try:
            try:
                self.check(connection)
            except cluster.Promoted:
                with cut_off_after(connection, succession.LIMIT_S), told(connection):
                    succession.succeed(connection, self._node)
                self.check(connection)
            with cut_off_after(connection, CONNECT_LIMIT_S):
                return PostgresLink(connection)
        except BaseException as error:
            connection.close()
            if self._met is None or not cluster.is_elsewhere(error):
                raise
            raise ConnectionLost(f"the address leads to another database than before: {error}") from error

    def check(self, connection: LaneConnection) -> None:
        """Raise WrongDatabase, or ConnectionLost, unless this reaches the cluster that was met before."""
        with cut_off_after(connection, CONNECT_LIMIT_S), told(connection):
            row = cluster.refuse_wrong_database(connection, connection.info.backend_pid, self._met)
        self._met = row.cluster_id


def open_connection(url: str, name: str) -> LaneConnection:
    """Open a connection on which each statement commits by itself, bounded to 2 s. Raises ConnectionLost."""
    limits = (f"-c {setting}={value}" for setting, value in _SESSION.items())
    try:
        # What the address states, a search_path for one, holds here as for all else; of two the last counts.
        options = " ".join([str(conninfo_to_dict(url).get("options", "")), *limits]).strip()
        connection = LaneConnection.connect(
            url,
            autocommit=True,
            application_name=name,
            options=options,
            **_LIMITS,  # type: ignore[arg-type]
        )
    except (psycopg.Error, OSError) as error:
        # OSError: no file is left for what waits for the answer; of the socket itself libpq tells.
        raise ConnectionLost(str(error)) from error
    return connection


@contextlib.contextmanager
def cut_off_after(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Break the connection when the body takes longer: a server that was stopped says nothing for ever, and
    nobody else can break a connection that nobody was given yet. Raises ConnectionLost where it cannot.
    """
    try:
        # A second descriptor of the same socket: closing it leaves libpq's alone.
        descriptor = socket.dup(connection.fileno())
    except (psycopg.Error, OSError) as error:
        raise ConnectionLost(str(error)) from error
    with socket.socket(fileno=descriptor) as ours:
        timer = threading.Timer(seconds, _break, (ours,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _break(ours: socket.socket) -> None:
    with contextlib.suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def told(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Tell errors apart: the connection broke, try again, or a mistake of ours (raised as it is)."""
    try:
        yield
    except psycopg.Error as error:
        if connection.closed or connection.broken or _is_of_the_way(connection, error):
            raise ConnectionLost(str(error)) from error
        if isinstance(error, _TRY_AGAIN):
            raise VersionConflict(str(error)) from error
        raise


def _is_of_the_way(connection: psycopg.Connection[Any], error: psycopg.Error) -> bool:
    """Whether no server said it, but libpq, of its socket: nothing can be asked there any more.

    libpq calls a connection broken for some errors of the system alone: not where a route begins to refuse
    the packets of one that stands ("Invalid argument"), and "another command is already in progress" would be
    all that is heard from there, for ever. Where it refuses to send what is ours, nothing is in progress.
    """
    said_by_libpq = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return said_by_libpq and connection.info.transaction_status is TransactionStatus.ACTIVE


@contextlib.contextmanager
def _rolled_back(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Leave the transaction when the body fails, so that the next one finds the connection idle."""
    try:
        yield
    except BaseException:
        if not connection.closed:
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        raise


class _Batch:
    """What the `write` of a batch sees of its connection: one statement, which is the whole transaction.

    BEGIN, fence, rows and COMMIT were four round trips; of what they cost, two thirds was the node's.
    """

    def __init__(self, connection: LaneConnection, held: Sequence[Held]) -> None:
        self._connection = connection
        self._held = held
        self._spent = False

    @property
    def row_ids(self) -> dict[Any, int]:
        """By which ids the server of this connection knows rows (LaneConnection.row_ids)."""
        return self._connection.row_ids

    def execute(self, statement: LiteralString, values: Mapping[str, Any]) -> None:
        """Run a statement that writes, if the leases are as they are held. Raises Fenced."""
        self._spend()
        self._run(_FENCE_ONLY, statement, values)

    def returned(self, statement: LiteralString, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """The same of a statement that returns something of each row that it writes."""
        self._spend()
        return [row[:-1] for row in self._run(_RETURNED, statement, values)]

    def changed(self, statement: LiteralString, values: Mapping[str, Any]) -> int:
        """The same of one that returns each row that it changes: how many. If they are too few another
        statement may follow, which is another transaction.
        """
        ((count, _),) = self._run(_CHANGED, statement, values)
        return int(count)

    def _spend(self) -> None:
        if self._spent:
            raise RuntimeError("a batch is one statement: a second one would be another transaction")
        self._spent = True

    def _run(
        self, result: LiteralString, statement: LiteralString, values: Mapping[str, Any]
    ) -> Sequence[tuple[Any, ...]]:
        fence = {
            "lease_names": array_of_texts(lease.name for lease in self._held),
            "lease_epochs": array_of_numbers(lease.epoch for lease in self._held),
            "lease_count": len(self._held),
            "lease_table": self._connection.lease_table,
        }
        try:
            return self._connection.execute(_fenced(statement, result), {**values, **fence}).fetchall()
        except errors.DivisionByZero as error:
            # How one statement can undo itself: what it divides by is 0 when a lease is missing.
            raise Fenced(", ".join(lease.name for lease in self._held)) from error


@cache
def _fenced(statement: LiteralString, result: LiteralString) -> LiteralString:
    """`statement` and the fence of a batch in one; whatever order they run in, they commit together.

    A lease row that is being taken is waited for and looked at again (leases.md, E1), and share-locked until
    the commit. A statement that writes is executed also where nobody reads what it returns (unlike E4).
    """
    return _FENCED.format(statement=statement, result=result)


def _peer(*told: Any) -> Peer:
    *others, came, made_way_for = told
    return replace(Peer(*others), came=frozenset(came), made_way_for=made_way_for)


class PostgresLink:
    """One connection to PostgreSQL (Link)."""

    def __init__(self, connection: LaneConnection) -> None:
        self.connection = connection
        with told(connection):
            row = connection.execute(BEGIN_LINK).fetchone()
        assert row is not None
        self._backend = Backend(*row[:2])
        connection.lease_table = row[2]
        self._socket = connection.fileno()

    @property
    def backend(self) -> Backend:
        """The server's end (Link.backend)."""
        return self._backend

    def turn(self, held: Held, write: Callable[[Any], None], *rows: JournalRow) -> Written:
        """Fence, write, journal, commit (Link.turn)."""
        connection = self.connection
        connection.lane, connection.offered = held.name, []
        passing("turn.begin")
        with told(connection), _rolled_back(connection):
            connection.execute("BEGIN")
            if connection.execute(_FENCE, (held.name, held.epoch, connection.lease_table)).fetchone() is None:
                raise Fenced(held.name)
            passing("turn.fenced")
            write(connection)
            passing("turn.written")
            journal.add(connection, rows)
            passing("turn.journalled")
            connection.execute("COMMIT")
        passing("turn.committed")
        return Written(connection.offered)

    def batch(self, held: Sequence[Held], write: Callable[[Any], None]) -> None:
        """Fence all by their count, write, commit (Link.batch)."""
        passing("batch.begin")
        with told(self.connection):
            write(_Batch(self.connection, held))
        passing("batch.committed")

    def call(self, function: Callable[[Any], Result]) -> Result:
        """Run `function`, each statement by itself (Link.call)."""
        with told(self.connection):
            return function(self.connection)

    def transaction(self, function: Callable[[Any], Result]) -> Result:
        """Run `function` in one transaction (Link.transaction)."""
        connection = self.connection
        connection.lane, connection.offered = "", []
        with told(connection), _rolled_back(connection):
            connection.execute("BEGIN")
            result = function(connection)
            connection.execute("COMMIT")
            return result

    def epochs(self, names: Sequence[str]) -> Mapping[str, tuple[str | None, int]]:
        """Run and epoch of these leases now (Link.epochs)."""
        with told(self.connection):
            rows = self.connection.execute(
                "SELECT name, run, epoch FROM lease WHERE name = ANY (%s) AND tableoid = %s::oid",
                (list(names), self.connection.lease_table),
            ).fetchall()
        return {name: (run, epoch) for name, run, epoch in rows}

    def take(self, name: str, seen_epoch: int, run: str) -> bool:
        """Take the lease (Link.take)."""
        return self._changed(
            "UPDATE lease SET run = %s, epoch = epoch + 1"
            " WHERE name = %s AND epoch = %s AND tableoid = %s::oid",
            run,
            name,
            seen_epoch,
            self.connection.lease_table,
        )

    def resign(self, held: Held) -> bool:
        """Leave the lease to nobody (Link.resign)."""
        return self._changed(
            "UPDATE lease SET run = NULL WHERE name = %s AND epoch = %s", held.name, held.epoch
        )

    def last_seq(self, lane: str) -> int:
        """The newest journal entry's number (Link.last_seq)."""
        with told(self.connection):
            row = self.connection.execute(
                "SELECT coalesce(max(seq), 0) FROM journal WHERE lane = %s", (lane,)
            ).fetchone()
        return int(row[0]) if row else 0

    def turn_at(self, lane: str, seq: int) -> UUID | None:
        """The id of the turn at this place (Link.turn_at)."""
        with told(self.connection):
            row = self.connection.execute(
                "SELECT turn_id FROM journal WHERE lane = %s AND seq = %s", (lane, seq)
            ).fetchone()
        return row[0] if row else None

    def terminate(self, backend: Backend) -> None:
        """End another backend (Link.terminate)."""
        with told(self.connection):
            self.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid = %s AND backend_start = %s",
                (backend.pid, backend.started),
            )

    def terminate_run(self, run: str) -> None:
        """End every backend of a run (Link.terminate_run)."""
        with told(self.connection):
            self.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'muster:%%' AND split_part(application_name, ':', 3) = %s",
                (run,),
            )

    def begin_run(self, run: str, node: str, address: str, kafka: str = "") -> int:
        """Store a new run (Link.begin_run)."""
        addresses = {"websocket": address, "kafka": kafka}
        with told(self.connection):
            # First the number: a run without one would not be seen by its peers.
            try:
                node_id = nodes.identity(self.connection, node)
            except nodes.NoNumberLeft as error:
                raise cluster.WrongDatabase(str(error)) from error
            told_of_it = (run, node, _encode(addresses).decode(), own_version())
            self.connection.execute(BEGIN_RUN, told_of_it)
        return node_id

    def renew(self, run: str, said: Said = NOTHING_SAID) -> Look:
        """Renew and look, in one statement (Link.renew)."""
        values = {"run": run, "table": self.connection.lease_table, "made_way_for": said.made_way_for}
        values["came"] = array_of_numbers(sorted(said.came))
        with told(self.connection):
            row = self.connection.execute(RENEW, values).fetchone()
        assert row is not None
        renewals, peers, leases = row
        return Look(
            renewals,
            tuple(_peer(*told) for told in peers or ()),
            tuple(LeaseRow(*lease) for lease in leases or ()),
        )

    def end_run(self, run: str, seen_renewals: int) -> bool:
        """End a peer's run (Link.end_run)."""
        return self._changed(
            "UPDATE node_session SET ended = true WHERE run = %s AND NOT ended AND renewals = %s",
            run,
            seen_renewals,
        )

    def leave(self, run: str) -> None:
        """End this node's own run (Link.leave)."""
        self._changed("UPDATE node_session SET ended = true WHERE run = %s AND NOT ended", run)

    def drain(self, run: str) -> None:
        """Say that this run gives its leases away (Link.drain)."""
        self._changed("UPDATE node_session SET draining = true WHERE run = %s AND NOT ended", run)

    def _changed(self, statement: str, *values: Any) -> bool:
        with told(self.connection):
            return self.connection.execute(statement, values).rowcount == 1

    def shut(self) -> None:
        """Break the connection from any thread (Link.shut)."""
        if self.connection.closed:
            return
        # A second descriptor of the same socket: closing it leaves libpq's alone.
        with contextlib.suppress(OSError), socket.socket(fileno=socket.dup(self._socket)) as ours:
            _break(ours)

    def close(self) -> None:
        """Close the connection (Link.close)."""
        self.connection.close()
