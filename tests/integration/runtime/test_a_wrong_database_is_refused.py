"""A process does not run on a database that is not the one in which its cluster was made."""

import os
import signal
import uuid
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from runtime import cluster, succession, tasks
from runtime.database import Fenced, Held, JournalRow
from runtime.ports import ConnectionLost
from runtime.postgres import LaneConnection, Postgres, cut_off_after, open_connection, told
from tests.conformance.databases import LANES
from tests.integration.poolers import refusing_pooler


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    made = open_connection(fresh_database, "muster-test")
    yield made
    made.close()


def refusal(connection: LaneConnection, pid: int | None = None) -> str:
    with pytest.raises(cluster.WrongDatabase) as refused:
        cluster.refuse_wrong_database(connection, pid or connection.info.backend_pid)
    return str(refused.value)


def read_in_again(connection: LaneConnection, *tables: str) -> None:
    """What reading a dump in makes of each of these: another table, with the rows of then."""
    with connection.transaction():
        for table in tables:
            connection.execute(f"CREATE TABLE read_in (LIKE {table} INCLUDING ALL)")
            connection.execute(f"INSERT INTO read_in TABLE {table}")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE read_in RENAME TO {table}")


def test_a_database_without_a_cluster(connection: LaneConnection) -> None:
    assert "initialise_cluster" in refusal(connection)


def test_a_copy_in_another_postgresql(connection: LaneConnection, fresh_database: str) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    connection.execute("UPDATE cluster SET system_identifier = system_identifier + 1")
    assert "was made in PostgreSQL" in refusal(connection)
    with pytest.raises(cluster.WrongDatabase):
        Postgres(fresh_database, "node-1").connect("aaaa", "session")


WRONG = {
    "another cluster": (
        "UPDATE cluster SET cluster_id = gen_random_uuid()",
        "UPDATE cluster SET cluster_id = %s",
    ),
    "another server": (
        "UPDATE cluster SET system_identifier = system_identifier + 1",
        "UPDATE cluster SET system_identifier = system_identifier - 1 WHERE cluster_id = %s",
    ),
    "tables of somebody else": (
        "REVOKE SELECT ON cluster FROM CURRENT_USER",
        "GRANT SELECT ON cluster TO CURRENT_USER",
    ),
    "no cluster": ("ALTER TABLE cluster RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO cluster"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_database_that_is_met_in_the_place_of_ours_is_waited_past(
    connection: LaneConnection, fresh_database: str, kind: str
) -> None:
    """A node whose address led elsewhere for a moment ended, or served the groups of another cluster."""
    ours = uuid.uuid4()
    cluster.initialise(connection, ours, LANES)
    serving, new = Postgres(fresh_database, "node-1"), Postgres(fresh_database, "node-1")
    serving.connect("aaaa", "session").close()
    led_astray, led_back = WRONG[kind]
    connection.execute(led_astray)
    with pytest.raises(ConnectionLost, match="leads to another database than before"):
        serving.connect("aaaa", "session")
    if kind != "another cluster":
        with pytest.raises(cluster.WrongDatabase):
            new.connect("bbbb", "session")
    connection.execute(led_back, [ours] if "%s" in led_back else [])
    serving.connect("aaaa", "session").close()


@pytest.fixture
def worker(fresh_database: str, settings: Settings) -> Iterator[None]:
    """A worker's process on this database."""
    settings.DATABASE_DIRECT_URL = fresh_database
    tasks._database.cache_clear()
    yield
    for link in tasks._links.values():
        link.close()
    tasks._links.clear()
    tasks._database.cache_clear()


@pytest.mark.usefixtures("worker")
def test_a_worker_that_connects_again_waits_past_it_too(connection: LaneConnection) -> None:
    """It found nothing to do there, for as long as that database lived, and nobody saw it."""
    ours, item = uuid.uuid4(), str(uuid.uuid4())
    cluster.initialise(connection, ours, LANES)
    tasks.perform_work(item)
    connection.execute("UPDATE cluster SET cluster_id = gen_random_uuid()")
    for link in tasks._links.values():
        link.shut()
    for why in (None, "leads to another database than before"):
        with pytest.raises(ConnectionLost, match=why):
            tasks.perform_work(item)
    connection.execute("UPDATE cluster SET cluster_id = %s", [ours])
    tasks.perform_work(item)


def test_a_dump_that_was_read_in_where_it_was_made(connection: LaneConnection, fresh_database: str) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    read_in_again(connection, "cluster")
    assert "adopt_restore" in refusal(connection)
    with pytest.raises(cluster.ReadIn):
        Postgres(fresh_database, "node-1").connect("aaaa", "session")
    succession.adopt(connection, "node-1")
    Postgres(fresh_database, "node-1").connect("aaaa", "session").close()


def test_whoever_runs_on_writes_nothing_into_a_dump_that_was_read_in_beneath_it(
    connection: LaneConnection, fresh_database: str
) -> None:
    """The rows of then name its run and its epochs, if it ran already when the dump was made."""
    cluster.initialise(connection, uuid.uuid4(), LANES)
    lane, held = LANES[0], Held(LANES[0], 1)
    link = Postgres(fresh_database, "node-1").connect("aaaa", "session")
    try:
        link.begin_run("aaaa", "node-1", "")
        assert link.take(lane, 0, "aaaa") and link.renew("aaaa").renewals == 1
        journal = JournalRow(lane, 1, uuid.uuid4(), "node-1", "orders", "added", {}, [])
        link.turn(held, lambda _: None, journal)
        link.batch([held], lambda batch: batch.execute("INSERT INTO node_identity (name) VALUES ('a')", {}))
        assert link.call(lambda on: cluster.take_producer_ids(on, 10)) == 0
        read_in_again(connection, "cluster", "lease", "node_session")
        with pytest.raises(Fenced):
            link.turn(held, lambda _: None, journal)
        with pytest.raises(Fenced):
            link.batch([held], lambda batch: batch.execute("DELETE FROM journal", {}))
        with pytest.raises(ConnectionLost, match="made anew"):
            link.call(lambda on: cluster.take_producer_ids(on, 10))
        assert not link.take(lane, 1, "aaaa") and link.epochs([lane]) == {}
        assert link.renew("aaaa").renewals is None
    finally:
        link.close()
    assert connection.execute("SELECT count(*) FROM journal").fetchone() == (1,)
    assert cluster.read(connection).next_producer_id == 10


def test_a_database_of_the_version_before_is_taken_for_its_own(connection: LaneConnection) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    connection.execute("UPDATE cluster SET location = ''")
    cluster.refuse_wrong_database(connection, connection.info.backend_pid)


def test_a_promoted_standby(connection: LaneConnection) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    connection.execute("UPDATE cluster SET timeline = timeline + 1")
    with pytest.raises(cluster.Promoted):
        cluster.refuse_wrong_database(connection, connection.info.backend_pid)


def test_a_pooler_answers_with_somebody_elses_backend(connection: LaneConnection) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    assert "pooler" in refusal(connection, pid=connection.info.backend_pid + 1)


def test_a_pooler_that_takes_no_limits_is_named_at_once() -> None:
    """As PgBouncer does that was told nothing of them; it would be asked again for a minute."""
    words = "unsupported startup parameter in options: transaction_timeout"
    with (
        refusing_pooler(words) as url,
        pytest.raises(cluster.WrongDatabase, match=r"pooler.*transaction_timeout"),
    ):
        Postgres(url, "node-1").connect("aaaa", "session")


def test_another_number_of_shards(connection: LaneConnection) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    connection.execute("UPDATE cluster SET shard_count = 32")
    assert "32 shards" in refusal(connection)


def test_initialising_twice_changes_nothing(connection: LaneConnection) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    connection.execute("UPDATE lease SET epoch = 7")
    before = cluster.read(connection)
    cluster.initialise(connection, uuid.uuid4(), LANES)
    assert cluster.read(connection) == before
    assert connection.execute("SELECT DISTINCT epoch FROM lease").fetchall() == [(7,)]


def test_the_floor_is_never_lowered(connection: LaneConnection) -> None:
    cluster.initialise(connection, uuid.uuid4(), LANES)
    cluster.raise_epoch_floor(connection, 9)
    cluster.raise_epoch_floor(connection, 4)
    assert cluster.epoch_floor(connection) == 9


def test_a_server_that_stays_silent_is_not_waited_for(connection: LaneConnection) -> None:
    backend = connection.info.backend_pid
    os.kill(backend, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectionLost), told(connection), cut_off_after(connection, 0.1):
            cluster.refuse_wrong_database(connection, backend)
    finally:
        os.kill(backend, signal.SIGCONT)
