"""This room reads and raises the one row of the cluster, and refuses a database that is not its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from psycopg.errors import InsufficientPrivilege, UndefinedColumn, UndefinedTable

from runtime.ports import SHARD_COUNT, Connection, ConnectionLost, VersionConflict

_LOCATION: Final = """
       (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'cluster'::regclass::oid"""
_IDENTITY: Final = f"""
SELECT (SELECT system_identifier FROM pg_control_system()),
       ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int,{_LOCATION}
"""


class WrongDatabase(Exception):
    """This database must not be written to; the text says why and what to do."""


class Promoted(WrongDatabase):
    """It is the cluster's PostgreSQL, on another timeline: `runtime.succession` makes it fit to write to."""


class ReadIn(WrongDatabase):
    """A dump was read in, or the database copied, and nobody has adopted it yet."""


def is_elsewhere(error: BaseException) -> bool:
    """Whether another database than the cluster's was met, and not the cluster's own, made anew."""
    return isinstance(error, WrongDatabase) and not isinstance(error, ReadIn)


class Identity(NamedTuple):
    """Which PostgreSQL this is, how often it was promoted, and which table of which of its databases."""

    system_identifier: int
    timeline: int
    location: str


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """The cluster as stored; see `runtime.models.Cluster`."""

    cluster_id: UUID
    system_identifier: int
    timeline: int
    epoch_floor: int
    metadata_version: int
    next_producer_id: int
    feature_level: int
    shard_count: int
    proven_version: int
    location: str


@contextmanager
def _readable() -> Iterator[None]:
    """Raises WrongDatabase for tables of somebody else, and for a schema of an earlier version, at whose
    migrations nobody has looked yet.
    """
    try:
        yield
    except (UndefinedColumn, UndefinedTable) as error:
        raise WrongDatabase("Migrations are missing in this database: run `manage.py migrate`.") from error
    except InsufficientPrivilege as error:
        raise WrongDatabase(
            "Our user may not read the tables of this database: name the cluster's, or grant what it needs."
        ) from error


def read(connection: Connection) -> ClusterRow:
    """The cluster's row. Raises WrongDatabase if `migrate` or `initialise_cluster` has not run."""
    with _readable():
        row = connection.execute(
            "SELECT cluster_id, system_identifier, timeline, epoch_floor, metadata_version, next_producer_id,"
            " feature_level, shard_count, proven_version, location FROM cluster WHERE id = 1"
        ).fetchone()
    if row is None:
        raise WrongDatabase("This database holds no cluster yet: run `manage.py initialise_cluster`.")
    return ClusterRow(*row)


def identity(connection: Connection) -> Identity:
    """Of the PostgreSQL that answers."""
    return Identity(*connection.execute(_IDENTITY).fetchone())


def is_promotion(row: ClusterRow, now: Identity) -> bool:
    """Whether this is the cluster's own PostgreSQL, later on another timeline."""
    return row.system_identifier == now.system_identifier and row.timeline != now.timeline


def lift(connection: Connection, now: Identity, by: int, *, is_promoted: bool) -> ClusterRow:
    """Make this PostgreSQL the cluster's, and let all that the cluster counts go on so much higher.

    What was decided up to the version of before is here; of a copy that a person chose nobody knows what else
    was decided on another one, so nothing is believed of it.
    """
    connection.execute(
        "UPDATE cluster SET system_identifier = %s, timeline = %s, location = %s,"
        " epoch_floor = epoch_floor + %s, metadata_version = metadata_version + %s,"
        " next_producer_id = next_producer_id + %s,"
        " proven_version = CASE WHEN %s THEN metadata_version ELSE 0 END WHERE id = 1",
        (*now, by, by, by, is_promoted),
    )
    return read(connection)


def epoch_floor(connection: Connection) -> int:
    """New groups start above this generation."""
    return read(connection).epoch_floor


def raise_epoch_floor(connection: Connection, to: int) -> None:
    """Lift the floor to `to` if it is lower, inside the caller's turn; it is never lowered."""
    connection.execute("UPDATE cluster SET epoch_floor = %s WHERE id = 1 AND epoch_floor < %s", (to, to))


class Numbers(NamedTuple):
    """What of the cluster's row a controller turn may change."""

    metadata_version: int
    next_producer_id: int


def advance(connection: Connection, before: Numbers, after: Numbers) -> None:
    """Write what a controller turn made of the cluster's numbers.

    Raises VersionConflict unless the stored ones are `before`: another controller, or a node that took
    producer ids, was there meanwhile.
    """
    changed = connection.execute(
        "UPDATE cluster SET metadata_version = %s, next_producer_id = %s"
        " WHERE id = 1 AND metadata_version = %s AND next_producer_id = %s",
        (*after, *before),
    ).rowcount
    if changed != 1:
        raise VersionConflict(f"the cluster is not at {before}")


def take_producer_ids(connection: Connection, count: int) -> int:
    """The first of `count` producer ids that nobody else is given; one statement, whoever asks.

    A controller whose turn advances the row meanwhile finds that it has moved, and decides again. Raises
    ConnectionLost where a dump was read in beneath this connection: its ids were given out already.
    """
    row = connection.execute(
        "UPDATE cluster SET next_producer_id = next_producer_id + %(count)s"
        f" WHERE id = 1 AND location IN ('', {_LOCATION})"
        " RETURNING next_producer_id - %(count)s",
        {"count": count},
    ).fetchone()
    if row is None:
        raise ConnectionLost("the tables of this cluster were made anew, and nobody has adopted them")
    return int(row[0])


def initialise(connection: Connection, cluster_id: UUID, lanes: list[str]) -> None:
    """Store the cluster's row and a free lease for each lane, where they miss. Raises WrongDatabase."""
    with _readable():
        connection.execute(
            "INSERT INTO cluster (id, cluster_id, system_identifier, timeline, location, epoch_floor,"
            " metadata_version, next_producer_id, feature_level, shard_count, created_at)"
            " VALUES (1, %s, %s, %s, %s, 0, 0, 0, 1, %s, clock_timestamp()) ON CONFLICT (id) DO NOTHING",
            (cluster_id, *identity(connection), SHARD_COUNT),
        )
    connection.execute(
        "INSERT INTO lease (name, run, epoch) SELECT name, NULL, 0 FROM unnest(%s::text[]) AS u(name)"
        " ON CONFLICT (name) DO NOTHING",
        (sorted(lanes),),
    )


def refuse_pooler(connection: Connection, backend_pid: int) -> None:
    """Raise WrongDatabase unless who answers is who said `backend_pid` when the connection was made."""
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    if pid != backend_pid:
        raise WrongDatabase("DATABASE_DIRECT_URL reaches a connection pooler; name PostgreSQL itself.")


def refuse_wrong_database(
    connection: Connection, backend_pid: int, cluster_id: UUID | None = None
) -> ClusterRow:
    """The cluster's row, if leases, lanes and LISTEN may run on this connection.

    `backend_pid` is what the server said when the connection was made, `cluster_id` whose database is looked
    for (None: anybody's). Raises WrongDatabase for a pooler (whoever answers is somebody else), a standby,
    another PostgreSQL than the cluster was made in, another cluster, another
    number of shards; Promoted for one that was promoted since, ReadIn for tables that were made anew.
    """
    refuse_pooler(connection, backend_pid)
    (in_recovery,) = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    if in_recovery:
        raise WrongDatabase("DATABASE_DIRECT_URL reaches a standby; name the primary.")
    row = read(connection)
    if cluster_id not in (None, row.cluster_id):
        raise WrongDatabase(f"It holds cluster {row.cluster_id}, and {cluster_id} is served here.")
    now = identity(connection)
    if row.system_identifier != now.system_identifier:
        raise WrongDatabase(
            f"This cluster was made in PostgreSQL {row.system_identifier}, and this is"
            f" {now.system_identifier}: epochs given out since the copy was made would be given out again."
            " If this copy is to take the cluster's place, stop what runs on the other one and run"
            " `manage.py adopt_restore`."
        )
    if row.location not in ("", now.location):
        raise ReadIn(
            "The tables of this cluster were made anew since (a dump was read in, or the database copied):"
            " what was given out since the dump was made, epochs and ids of producers, would be given out"
            " again. Stop what runs on the one that it replaces and run `manage.py adopt_restore`."
        )
    if is_promotion(row, now):
        raise Promoted(
            f"This PostgreSQL was promoted (timeline {row.timeline} became {now.timeline}):"
            " epochs given out by the lost primary would be given out again."
        )
    if row.shard_count != SHARD_COUNT:
        raise WrongDatabase(f"This cluster has {row.shard_count} shards; this program knows {SHARD_COUNT}.")
    return row
