"""After a promotion nothing is counted again that the lost primary may have given out."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from django.core.management import CommandError, call_command

from controller.core.records import ClusterRecord, SetBackProven, TurnStamped
from controller.journalling import entry
from muster.kernel.error_codes import ErrorCode
from runtime import cluster, nodes, succession
from runtime.database import Fenced, Held, JournalRow
from runtime.postgres import LaneConnection, Postgres, open_connection
from runtime.succession import BELIEVED_LIFTS, LIFT, MOST_LIFTS, ROOM
from tests.conformance.databases import LANES
from tests.integration.runtime.conftest import CounterNode, Truth

GROUP = (
    "INSERT INTO consumer_group (name, shard, generation, version, protocol, phase, rebalance_mode, assignor,"
    " error, ephemeral)"
    " VALUES ('orders-readers', 0, 7, 12, 'native', 'Empty', 'incremental', 'sticky', '', false)"
)
BROKER = (
    "INSERT INTO broker (broker_id, secret_hash, endpoints, rack, broker_epoch, incarnation, fenced,"
    " metadata_version) VALUES (%s, sha256('s'), '{}', '', %s, gen_random_uuid(), false, 3)"
)
TOPIC = (
    "INSERT INTO topic (topic_id, name, partition_count, replication_factor, configs, metadata_version)"
    " VALUES (%s, 'orders', 2, 1, '{}', 3)"
)
PARTITION = (
    "INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr,"
    " version) VALUES (%s, %s, '{1}', '{}', '{}', %s, %s, %s, 3)"
)
TOPIC_ID = uuid.UUID(int=1)


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    made = open_connection(fresh_database, "muster-test")
    cluster.initialise(made, uuid.uuid4(), LANES)
    made.execute("UPDATE lease SET run = 'aaaa', epoch = 3")
    made.execute("UPDATE cluster SET metadata_version = 40, next_producer_id = 5000, epoch_floor = 2")
    made.execute(GROUP)
    made.execute(BROKER, (1, 4))
    made.execute(TOPIC, (TOPIC_ID,))
    made.execute(PARTITION, (TOPIC_ID, 0, 1, 9, [1]))
    made.execute(PARTITION, (TOPIC_ID, 1, -1, 0, []))
    yield made
    made.close()


def promote(connection: LaneConnection) -> None:
    """What a standby's promotion makes of the identity, as the rows see it."""
    connection.execute("UPDATE cluster SET timeline = timeline - 1")


def counted(connection: LaneConnection) -> tuple[int, ...]:
    """Everything that is given out, in one row."""
    row = connection.execute(
        "SELECT (SELECT generation FROM consumer_group), (SELECT broker_epoch FROM broker),"
        " (SELECT leader_epoch FROM partition WHERE partition = 0), (SELECT min(epoch) FROM lease),"
        " epoch_floor, metadata_version, next_producer_id FROM cluster"
    ).fetchone()
    assert row is not None
    return row


def test_the_first_connection_lifts_all_that_is_counted(
    connection: LaneConnection, fresh_database: str
) -> None:
    before = counted(connection)
    promote(connection)
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    assert counted(connection) == tuple(number + LIFT for number in before)


def test_rows_that_changed_carry_the_version_of_the_lift(
    connection: LaneConnection, fresh_database: str
) -> None:
    promote(connection)
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    rows = connection.execute("SELECT partition, version, leader_epoch FROM partition ORDER BY 1").fetchall()
    assert rows == [(0, 40 + LIFT, 9 + LIFT), (1, 3, 0)]
    assert connection.execute("SELECT metadata_version FROM broker").fetchone() == (40 + LIFT,)


def test_what_was_decided_by_then_is_known_until_a_copy_is_adopted(
    connection: LaneConnection, fresh_database: str
) -> None:
    promote(connection)
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    assert cluster.read(connection).proven_version == 40
    succession.adopt(connection, "node-1")
    assert cluster.read(connection).proven_version == 0


def test_numbers_of_nodes_that_were_given_there_are_not_given_here(
    connection: LaneConnection, fresh_database: str
) -> None:
    known = nodes.identity(connection, "node-1")
    promote(connection)
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    assert nodes.identity(connection, "node-1") == known
    assert nodes.identity(connection, "node-2") > known + LIFT


def test_it_is_lifted_once_however_many_connect(connection: LaneConnection, fresh_database: str) -> None:
    before = counted(connection)
    promote(connection)
    with ThreadPoolExecutor(6) as pool:
        nodes = [Postgres(fresh_database, f"node-{number}") for number in range(6)]
        for link in pool.map(lambda node: node.connect("bbbb", "session"), nodes):
            link.close()
    assert counted(connection) == tuple(number + LIFT for number in before)


def test_who_held_a_lease_there_writes_nothing_here(connection: LaneConnection, fresh_database: str) -> None:
    promote(connection)
    link = Postgres(fresh_database, "node-1").connect("aaaa", "lane")
    row = JournalRow("coordinator/0", 1, uuid.uuid4(), "node-1", "orders-readers", "", {}, ())
    with pytest.raises(Fenced):
        link.turn(Held("coordinator/0", 3), lambda _: None, row)
    link.close()
    assert connection.execute("SELECT DISTINCT run FROM lease").fetchall() == [(None,)]


def test_a_run_of_the_lost_primary_has_ended(connection: LaneConnection, fresh_database: str) -> None:
    node = Postgres(fresh_database, "node-1")
    before = node.connect("aaaa", "session")
    before.begin_run("aaaa", "node-1", "ws://node-1")
    assert before.renew("aaaa").renewals == 1
    before.close()
    promote(connection)
    after = node.connect("aaaa", "session")
    assert after.renew("aaaa").renewals is None
    after.close()


def test_the_journal_tells_what_may_be_lost(connection: LaneConnection, fresh_database: str) -> None:
    promote(connection)
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    told = connection.execute(
        "SELECT seq, node, cause, summary FROM journal WHERE lane = 'cluster'"
    ).fetchall()
    assert len(told) == 1
    seq, node, cause, summary = told[0]
    assert (seq, node, summary["event"]) == (1, "node-1", "promoted")
    assert summary["lifted"] == {"brokers and partitions": 2, "groups": 1}
    assert "is lost" in cause


def test_a_restored_copy_is_refused_until_somebody_adopts_it(
    connection: LaneConnection, fresh_database: str, settings: object, capsys: pytest.CaptureFixture[str]
) -> None:
    before = counted(connection)
    connection.execute("UPDATE cluster SET system_identifier = system_identifier + 1")
    node = Postgres(fresh_database, "node-1")
    with pytest.raises(cluster.WrongDatabase, match="adopt_restore"):
        node.connect("bbbb", "session")
    assert counted(connection) == before

    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    call_command("adopt_restore")
    told = capsys.readouterr().out
    assert "goes on in PostgreSQL" in told and "Start all brokers" in told
    node.connect("bbbb", "session").close()
    assert counted(connection) == tuple(number + LIFT for number in before)


def test_whoever_sits_at_a_terminal_is_asked_before_anything_is_lifted(
    connection: LaneConnection,
    fresh_database: str,
    settings: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = counted(connection)
    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    typed: list[str] = []

    def type_it() -> str:
        if not typed:
            raise EOFError
        return typed.pop()

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", type_it)
    for said in (["no"], []):
        typed += said
        with pytest.raises(CommandError, match="Nothing was changed"):
            call_command("adopt_restore")
        asked = capsys.readouterr()
        assert "Nothing may run on the copy that it replaces" in asked.err and not asked.out
    assert counted(connection) == before
    typed += ["yes"]
    call_command("adopt_restore")
    assert not typed
    call_command("adopt_restore", "--no-input")
    assert counted(connection) == tuple(number + 2 * LIFT for number in before)


def proven(connection: LaneConnection, seq: int, lacking: int) -> None:
    """The controller has refused a broker that was told so much more than is held."""
    proof = SetBackProven(1, 40 + lacking, "broker 1 was told more", lacking)
    records: list[ClusterRecord] = [TurnStamped(41), proof]
    connection.execute(
        "INSERT INTO journal (lane, seq, turn_id, node, key, cause, summary, records, at)"
        " VALUES ('controller', %s, gen_random_uuid(), 'node-1', 'cluster', '', %s, %s, clock_timestamp())",
        (seq, json.dumps(entry((), records).summary), json.dumps(msgspec.to_builtins(records))),
    )


def test_one_run_goes_above_what_a_refused_broker_was_told_by_a_copy_that_was_lifted_more_often(
    connection: LaneConnection, fresh_database: str, settings: object, capsys: pytest.CaptureFixture[str]
) -> None:
    before = counted(connection)
    proven(connection, 1, 5)
    proven(connection, 2, 2 * LIFT + 7)
    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    call_command("adopt_restore")
    assert "lifted by 4,000,000" in capsys.readouterr().out
    assert counted(connection) == tuple(number + 4 * LIFT for number in before)
    # What was proved before a lift is not missing any more.
    call_command("adopt_restore")
    assert counted(connection) == tuple(number + 5 * LIFT for number in before)


@pytest.mark.parametrize("lacking", [BELIEVED_LIFTS * LIFT, 2**62, 2**64 - 41])
def test_what_a_broker_stated_is_believed_within_bounds_and_beyond_them_a_person_says_by_how_much(
    connection: LaneConnection,
    fresh_database: str,
    settings: object,
    lacking: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Leader epochs have 32 bits: twenty such statements, each believed, would use them up."""
    before = counted(connection)
    proven(connection, 1, 5)
    proven(connection, 2, lacking)
    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match=rf"broker 1 was told more: {lacking:,} more .* say --by 2000000:"):
        call_command("adopt_restore")
    for absurd in (LIFT - 1, MOST_LIFTS * LIFT + 1):
        with pytest.raises(CommandError, match="--by is a number"):
            call_command("adopt_restore", by=absurd)
    assert counted(connection) == before

    call_command("adopt_restore", by=12 * LIFT + 3)
    assert "lifted by 12,000,003" in capsys.readouterr().out
    assert counted(connection) == tuple(number + 12 * LIFT + 3 for number in before)
    # What was stated before a lift is not asked about again.
    call_command("adopt_restore")
    assert counted(connection) == tuple(number + 13 * LIFT + 3 for number in before)


def test_a_node_that_meets_a_promoted_one_lifts_once_whatever_was_stated(
    connection: LaneConnection, fresh_database: str
) -> None:
    before = counted(connection)
    proven(connection, 1, BELIEVED_LIFTS * LIFT)
    promote(connection)
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    assert counted(connection) == tuple(number + LIFT for number in before)


def test_whoever_is_not_believed_keeps_nobody_else_out(
    connection: LaneConnection, fresh_database: str, settings: object
) -> None:
    """A broker that was told of three lifts is let in by one run, also beside one that states nonsense."""
    before = counted(connection)
    proven(connection, 1, 3 * LIFT)
    proven(connection, 2, 2**62)
    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match=f"{2**62:,} more .* say --by 4000000: the others come in"):
        call_command("adopt_restore")
    promote(connection)
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    assert counted(connection) == tuple(number + 4 * LIFT for number in before)


def test_a_lift_beyond_the_last_number_of_a_node_lifts_all_else(
    connection: LaneConnection, fresh_database: str
) -> None:
    """Else no copy could ever be adopted again."""
    before = counted(connection)
    known = nodes.identity(connection, "node-1")
    connection.execute(
        "SELECT setval(pg_get_serial_sequence('node_identity', 'node_id'), %s)", (nodes.LAST_NODE_ID - 5,)
    )
    for lifts in (1, 2):
        promote(connection)
        Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
        assert counted(connection) == tuple(number + lifts * LIFT for number in before)
    assert nodes.identity(connection, "node-1") == known
    link = Postgres(fresh_database, "node-2").connect("cccc", "session")
    with pytest.raises(cluster.WrongDatabase, match=r"such as 'node-2'.* no other node runs under: node-1\."):
        link.begin_run("cccc", "node-2", "ws://node-2")
    link.close()


def test_more_lifts_than_32_bits_have_room_for_lift_all_that_has_more(
    connection: LaneConnection, fresh_database: str, settings: object
) -> None:
    before = counted(connection)
    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    for _ in range(23):
        call_command("adopt_restore", by=MOST_LIFTS * LIFT)
    lifted = [number + 23 * MOST_LIFTS * LIFT for number in before]
    lifted[2] = ROOM
    assert counted(connection) == tuple(lifted)


@pytest.mark.parametrize(
    ("lacking", "advice"),
    [
        (MOST_LIFTS * LIFT - 1, "was ahead so far, say --by NUMBER, which must be above that. If not, "),
        (MOST_LIFTS * LIFT, "was ahead so far, say --by 100000000 once, then --by 1000000. If not, "),
        (7 * MOST_LIFTS * LIFT - 1, "far, say --by 100000000 6 times, then --by 100000000. If not, "),
        (ROOM - 2, "was ahead so far, say --by 100000000 21 times, then --by 47483646. If not, "),
        (ROOM - 1, "No other copy was ahead so far and had a leader left: "),
    ],
)
def test_what_is_advised_can_be_said(
    connection: LaneConnection, fresh_database: str, settings: object, lacking: int, advice: str
) -> None:
    proven(connection, 1, lacking)
    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match=f"{advice}say --by 1000000: the others come in"):
        call_command("adopt_restore")


def test_whoever_does_what_is_advised_is_above_and_has_leaders_left(
    connection: LaneConnection, fresh_database: str, settings: object
) -> None:
    before, lacking = counted(connection), ROOM - 1_000
    proven(connection, 1, lacking)
    settings.DATABASE_DIRECT_URL = fresh_database  # type: ignore[attr-defined]
    with pytest.raises(CommandError) as told:
        call_command("adopt_restore")
    advised = re.search(r"say --by (\d+) (\d+) times, then --by (\d+)\. If not", str(told.value))
    assert advised is not None
    most, times, rest = map(int, advised.groups())
    for by in (most,) * times + (rest,):
        call_command("adopt_restore", by=by)
    after = counted(connection)
    assert all(then > now + lacking for now, then in zip(before, after, strict=True))
    assert after[2] < ROOM


def test_a_failed_lift_lifts_nothing(
    connection: LaneConnection, fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise RuntimeError(ErrorCode.UNKNOWN_SERVER_ERROR.name)

    before = counted(connection)
    promote(connection)
    monkeypatch.setitem(succession._lifts, "zzz", fail)
    with pytest.raises(RuntimeError):
        Postgres(fresh_database, "node-1").connect("bbbb", "session")
    assert counted(connection) == before
    monkeypatch.delitem(succession._lifts, "zzz")
    Postgres(fresh_database, "node-1").connect("bbbb", "session").close()
    assert counted(connection) == tuple(number + LIFT for number in before)


def test_a_node_goes_on_by_itself(truth: Truth, start_node: Callable[..., CounterNode]) -> None:
    node = start_node("node-1")
    node.wait_accepted()
    node.ask("add", "coordinator/0", "orders", 5)
    node.wait("said", "orders")
    truth.rows("WITH p AS (UPDATE cluster SET timeline = timeline - 1 RETURNING 1) SELECT * FROM p")
    truth.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'muster:node-1%'"
    )
    node.wait("given_up", "coordinator/0")
    node.wait("accepted", "coordinator/0", times=2)
    node.ask("add", "coordinator/0", "orders", 1)
    node.wait("said", "orders", times=2)
    assert truth.counter("orders").total == 6
    assert all(epoch > LIFT for (epoch,) in truth.rows("SELECT epoch FROM lease"))
