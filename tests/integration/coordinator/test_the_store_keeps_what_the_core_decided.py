"""What the store loads equals what the core folded, and the rows defend themselves, on real PostgreSQL."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest
from django.core.management import call_command
from msgspec import structs

from controller import catalog
from coordinator.core.waiting import Waiting
from coordinator.store import GroupStore, Unreadable
from groups.core import records
from groups.core.classic import ClassicMember
from groups.core.consumer_protocol import assignment
from groups.core.phases import Phase
from groups.core.requests import Answer, Verdict
from groups.core.rows import apply
from groups.core.state import GroupRows, OffsetNote
from muster.kernel.shards import shard_of
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition, Position, by_topic, positions_by_topic
from runtime.ports import VersionConflict
from runtime.postgres import LaneConnection

ORDERS = UUID("00000000-0000-4000-8000-00000000000a")
P = [Partition("orders", ORDERS, number) for number in range(4)]


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    call_command("initialise_cluster", verbosity=0)
    with LaneConnection.connect(fresh_database) as opened:
        yield opened
        opened.rollback()


def joins(member_id: str, *topics: str) -> records.MemberAdded:
    return records.MemberAdded(
        member_id=member_id,
        token_hash=member_id.encode().hex().ljust(64, "0"),
        topic_count=tuple(TopicCount(topic) for topic in topics or ("orders",)),
        session_timeout_ms=6_000,
        auto_commit=True,
        auto_offset_reset="earliest",
        client_id="tests",
        client_host="127.0.0.1:1",
    )


class Turns:
    """One group, turn by turn: the fold in memory and the rows in the database."""

    def __init__(self, connection: LaneConnection, group: str = "departures") -> None:
        self.connection = connection
        self.store = GroupStore("node-1")
        self.rows = self.store.load(connection, group)

    def take(self, *turn: records.GroupRecord) -> GroupRows:
        self.store.save(self.connection, self.rows.group_id, self.rows, turn)
        self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        self.rows = apply(self.rows, turn)
        return self.rows


def settled(turns: Turns) -> None:
    """ann owns 0 and 1, ben 2 and 3, offsets of 0 and 2 are committed."""
    turns.take(joins("ann"), joins("ben"), records.PhaseEntered(Phase.STABLE))
    turns.take(
        records.OffsetsFlushed(positions_by_topic({P[0]: Position(5, 1), P[2]: Position(7, 1)})),
        records.GenerationOpened(1),
        records.PartitionsAssigned("ann", 1, by_topic(P[:2])),
        records.PartitionsAssigned("ben", 1, by_topic(P[2:])),
        records.PhaseEntered(Phase.COMPLETING_REBALANCE),
    )


def test_a_load_equals_the_fold_of_all_turns(connection: LaneConnection) -> None:
    turns = Turns(connection)
    settled(turns)
    turns.take(records.PartitionsRunning("ann", by_topic(P[:2])))
    turns.take(joins("cleo", "orders", "clicks"))
    turns.take(
        records.GenerationOpened(2),
        records.PartitionsReleased("ann", by_topic(P[1:2])),
        records.PartitionsAssigned("cleo", 2, by_topic(P[1:2])),
    )
    turns.take(records.MemberRemoved("ben", "session over"), records.ErrorShown("ben is gone"))
    assert turns.store.load(connection, "departures") == turns.rows
    assert turns.store.load_shard(connection, shard_of("departures")) == {"departures": turns.rows}


def test_a_subscription_that_many_share_is_sent_once_and_each_keeps_its_own(
    connection: LaneConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, sent, execute = [f"topic-{number}" for number in range(100)], 0, connection.execute

    def counted(statement: Any, values: Any = None, **named: Any) -> Any:
        nonlocal sent
        sent += len(str(values))
        return execute(statement, values, **named)

    monkeypatch.setattr(connection, "execute", counted)
    turns = Turns(connection)
    others = [joins(f"other-{number}", f"topic-{number}") for number in range(3)]
    turns.take(*(joins(f"member-{number}", *topics) for number in range(20)), *others)
    assert sent < 5 * len(msgspec.json.encode(turns.rows.members["member-0"].topic_count))
    assert turns.store.load(connection, "departures") == turns.rows


def test_a_partition_that_changes_hands_in_one_turn_has_one_row(
    connection: LaneConnection,
) -> None:
    turns = Turns(connection)
    settled(turns)
    turns.take(
        records.GenerationOpened(2),
        records.PartitionsReleased("ann", by_topic(P[:1])),
        records.PartitionsReleased("ben", by_topic(P[3:])),
        records.PartitionsAssigned("ben", 2, by_topic(P[:1])),
        records.PartitionsAssigned("ann", 2, by_topic(P[3:])),
    )
    assert turns.store.load(connection, "departures").owned == turns.rows.owned
    assert connection.execute("SELECT count(*) FROM partition_ownership").fetchone() == (4,)


def test_standbys_are_stored_beside_owners_and_may_change_places_with_them(
    connection: LaneConnection,
) -> None:
    turns = Turns(connection)
    settled(turns)
    turns.take(records.StrategySet("redundant", "incremental", copies=3), joins("cleo"))
    turns.take(
        records.StandbysChanged({"ann": by_topic(P[2:]), "ben": by_topic(P[:2]), "cleo": by_topic(P[:1])})
    )
    turns.take(
        records.GenerationOpened(2),
        records.PartitionsReleased("ann", by_topic(P[:1])),
        records.PartitionsAssigned("ben", 2, by_topic(P[:1])),
        records.StandbysChanged({"ann": by_topic(P[:1]), "ben": by_topic(P[1:2])}),
    )
    assert turns.store.load(connection, "departures") == turns.rows
    assert turns.rows.standbys == {
        "ann": frozenset(P[:1]),
        "ben": frozenset(P[1:2]),
        "cleo": frozenset(P[:1]),
    }
    turns.take(records.MemberRemoved("ann", "left"))
    found = turns.store.load_shard(connection, shard_of("departures"))["departures"]
    assert found == turns.rows and found.standbys.keys() == {"ben", "cleo"} and found.copies == 3


def test_where_a_member_runs_and_whether_it_stands_by_are_kept(connection: LaneConnection) -> None:
    turns = Turns(connection)
    turns.take(structs.replace(joins("ann"), rack="b", stands_by=True), joins("ben"))
    members = turns.store.load(connection, "departures").members
    assert members == turns.rows.members
    assert (members["ann"].rack, members["ann"].stands_by) == ("b", True)


def test_for_whom_a_group_waits_is_noted_once_and_goes_with_it(connection: LaneConnection) -> None:
    turns = Turns(connection)
    turns.take(joins("ann"))
    told = Waiting(Phase.PREPARING_REBALANCE, ('a "b"', "cleo"), 2, 1, None)
    for row in ((told, 5_000), (told._replace(missing=1, names=("cleo",)), -1)):
        turns.store.write_waiting(connection, {"departures": row, "nobody's": row})
    found = connection.execute("SELECT group_name, waits_for, missing, arrived, ends_at FROM group_waiting")
    assert found.fetchall() == [("departures", ["cleo"], 1, 1, None)]
    turns.take(records.MemberRemoved("ann", "left"), records.GroupDeleted())
    assert connection.execute("SELECT count(*) FROM group_waiting").fetchone() == (0,)


def test_racks_are_found_by_the_replicas_of_a_partition(connection: LaneConnection) -> None:
    connection.execute(
        "INSERT INTO broker (broker_id, secret_hash, endpoints, rack, broker_epoch, incarnation, fenced,"
        " metadata_version) SELECT n, sha256('x'), '{}', CASE WHEN n < 3 THEN 'a' WHEN n = 3 THEN 'b' ELSE ''"
        " END, 1, gen_random_uuid(), n = 3, 0 FROM generate_series(1, 4) AS n"
    )
    connection.execute(
        "INSERT INTO topic (topic_id, name, partition_count, replication_factor, configs, metadata_version)"
        " VALUES (%s, 'orders', 3, 2, '{}', 0)",
        (ORDERS,),
    )
    for number, assigned in enumerate(([1, 2], [2, 3], [4])):
        connection.execute(
            "INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch,"
            " isr, version) VALUES (%s, %s, %s, '{}', '{}', -1, 0, '{}', 0)",
            (ORDERS, number, assigned),
        )
    layouts = catalog.layouts(connection)
    assert all(not one.racks for one in layouts.values())
    [found] = catalog.with_racks(connection, layouts).values()
    assert found.racks == (frozenset("a"), frozenset("ab"), frozenset())


def test_a_turn_on_an_old_version_writes_nothing(
    connection: LaneConnection,
) -> None:
    turns = Turns(connection)
    old = turns.take(joins("ann"))
    turns.take(joins("ben"))
    with pytest.raises(VersionConflict):
        turns.store.save(connection, "departures", old, (joins("cleo"),))


def test_two_owners_who_both_found_no_group_do_not_both_create_it(
    connection: LaneConnection,
) -> None:
    first, second = Turns(connection), Turns(connection)
    first.take(joins("ann"))
    with pytest.raises(VersionConflict):
        second.take(joins("ben"))


def test_the_database_refuses_a_second_owner(connection: LaneConnection) -> None:
    settled(Turns(connection))
    with pytest.raises(psycopg.errors.UniqueViolation, match="has_one_owner"):
        connection.execute(
            "INSERT INTO partition_ownership (group_name, topic_id, topic_name, partition, copy, owner,"
            " since_generation, state) VALUES ('departures', %s, 'orders', 0, 0, 'ben', 1, 'running')",
            (ORDERS,),
        )


def test_the_database_refuses_an_owner_who_is_no_member(
    connection: LaneConnection,
) -> None:
    settled(Turns(connection))
    connection.execute("UPDATE partition_ownership SET owner = 'nobody' WHERE partition = 0")
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="owner_is_a_member"):
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_offsets_of_several_groups_are_one_batch_and_each_row_counts_its_commits(
    connection: LaneConnection,
) -> None:
    for group in ("departures", "arrivals"):
        settled(Turns(connection, group))
    store = GroupStore()
    store.write_offsets(connection, {("departures", P[0]): 6, ("arrivals", P[2]): 9, ("arrivals", P[1]): 1})
    found = connection.execute(
        "SELECT group_name, partition, committed_offset, version FROM committed_offset ORDER BY 1, 2"
    ).fetchall()
    assert found == [
        ("arrivals", 0, 5, 1),
        ("arrivals", 1, 1, 1),
        ("arrivals", 2, 9, 2),
        ("departures", 0, 6, 2),
        ("departures", 2, 7, 1),
    ]


def test_rows_that_a_connection_has_written_are_written_again_by_their_ids(
    connection: LaneConnection,
) -> None:
    for group in ("departures", "arrivals"):
        settled(Turns(connection, group))
    store, sent = GroupStore(), []
    for offset in (10, 20):
        store.write_offsets(connection, {("departures", P[1]): offset, ("arrivals", P[2]): offset + 1})
        sent.append(sorted(connection.row_ids.items()))
    assert sent[0] == sent[1]
    found = connection.execute(
        "SELECT id, group_name, committed_offset, version FROM committed_offset WHERE version > 1"
        " OR partition = 1 ORDER BY 2"
    ).fetchall()
    ids = connection.row_ids
    assert found == [
        (ids["arrivals", P[2]], "arrivals", 21, 3),
        (ids["departures", P[1]], "departures", 20, 2),
    ]


def test_an_offset_whose_row_was_deleted_meanwhile_is_stored_anew(connection: LaneConnection) -> None:
    turns = Turns(connection)
    settled(turns)
    positions = {("departures", P[0]): 6, ("departures", P[1]): 1, ("departures", P[2]): 8}
    turns.store.write_offsets(connection, positions)
    connection.execute("DELETE FROM committed_offset WHERE partition = 1")
    turns.store.write_offsets(connection, {key: offset + 1 for key, offset in positions.items()})
    assert turns.store.load(connection, "departures").offsets == {P[0]: 7, P[1]: 2, P[2]: 9}
    noted = {key: (offset + 2, OffsetNote(3, "again")) for key, offset in positions.items()}
    connection.execute("DELETE FROM committed_offset WHERE partition = 0")
    turns.store.write_offsets(connection, noted)
    stored = turns.store.load(connection, "departures")
    assert stored.offsets == {P[0]: 8, P[1]: 3, P[2]: 10}
    assert set(stored.offset_notes.values()) == {OffsetNote(3, "again")}


def test_ids_are_known_of_rows_that_are_there_alone(connection: LaneConnection) -> None:
    turns, others = Turns(connection), Turns(connection, "arrivals")
    settled(turns)
    settled(others)
    assert {("departures", P[0]), ("departures", P[2]), ("arrivals", P[0])} <= connection.row_ids.keys()
    turns.take(records.OffsetsDeleted(by_topic(P[2:3])))
    assert ("departures", P[2]) not in connection.row_ids
    turns.take(
        records.MemberRemoved("ann", "left"), records.MemberRemoved("ben", "left"), records.GroupDeleted()
    )
    assert {group for group, _ in connection.row_ids} == {"arrivals"}


@pytest.mark.parametrize("name", ['"', "\\", '\\"', "a,b", "{a}", "NULL", " ", "Zürich", "a\nb", "'); --"])
def test_whatever_a_group_and_its_topic_are_called_their_offset_is_stored(
    connection: LaneConnection, name: str
) -> None:
    settled(Turns(connection, name))
    partition = P[0]._replace(topic=name, number=77)
    GroupStore().write_offsets(connection, {(name, partition): 2**63 - 1, (name, P[0]): 6})
    assert GroupStore().load(connection, name).offsets.items() >= {partition: 2**63 - 1, P[0]: 6}.items()


def test_a_deleted_group_leaves_nothing_and_its_successor_starts_above_its_generation(
    connection: LaneConnection,
) -> None:
    turns = Turns(connection)
    settled(turns)
    turns.take(
        records.MemberRemoved("ann", "left"), records.MemberRemoved("ben", "left"), records.GroupDeleted()
    )
    for table in ("consumer_group", "group_member", "partition_ownership", "committed_offset"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert turns.store.load(connection, "departures").generation == 2


def _empty(connection: LaneConnection, name: str, offset: int) -> GroupRows:
    """A group that only has an offset, in its second generation."""
    turns = Turns(connection, name)
    settled(turns)
    GroupStore().write_offsets(connection, {(name, P[0]): offset})
    turns.take(records.MemberRemoved("ann", "left"), records.MemberRemoved("ben", "left"))
    return GroupStore().load(connection, name)


def test_groups_that_end_together_leave_nothing_and_whoever_does_not_end_is_written_beside(
    connection: LaneConnection,
) -> None:
    names = ("arrivals", "departures", "transfers")
    rows = {name: _empty(connection, name, 7) for name in names}
    saves = [(name, rows[name], (records.GroupDeleted(),)) for name in names[:2]]
    GroupStore().save_all(connection, [*saves, ("transfers", rows["transfers"], (joins("cleo"),))])
    left = connection.execute("SELECT name, version FROM consumer_group").fetchall()
    assert left == [("transfers", rows["transfers"].version + 1)]
    offsets = connection.execute("SELECT DISTINCT group_name FROM committed_offset").fetchall()
    assert offsets == [("transfers",)]
    assert {name for name, _ in connection.row_ids} == {"transfers"}
    assert GroupStore().load(connection, "arrivals").generation == rows["arrivals"].generation + 1


def test_of_groups_that_end_together_each_is_as_it_was_decided_on_or_none_ends(
    connection: LaneConnection,
) -> None:
    rows = {name: _empty(connection, name, 7) for name in ("arrivals", "departures")}
    connection.execute("UPDATE consumer_group SET version = version + 1 WHERE name = 'arrivals'")
    with pytest.raises(VersionConflict):
        GroupStore().save_all(connection, [(name, rows[name], (records.GroupDeleted(),)) for name in rows])


def test_what_kafkas_consumers_are_assigned_is_shown_and_other_bytes_show_nothing(
    connection: LaneConnection,
) -> None:
    turns = Turns(connection)
    names = ("ann", "ben", "cleo")
    members = [
        ClassicMember(
            member_id=name, session_timeout_ms=6_000, rebalance_timeout_ms=6_000, protocols=(("range", b""),)
        )
        for name in names
    ]
    turns.take(
        records.ProtocolEntered("classic"),
        *map(records.ClassicMemberAdded, members),
        records.ProtocolChosen("consumer", "range", "ann"),
    )
    given = {"ann": assignment({"orders": [0, 2], "clicks": [1]}), "ben": b"\xff\xfe\x00 no consumer's"}
    turns.take(records.ClassicAssigned(given))
    assert shown(connection) == [("ann", "clicks", [1]), ("ann", "orders", [0, 2])]
    turns.take(records.ClassicAssigned({"ben": assignment({"orders": [0, 2]})}))
    assert shown(connection) == [("ben", "orders", [0, 2])]
    turns.take(*(records.MemberRemoved(name, "left") for name in names))
    assert shown(connection) == []


def test_bytes_of_another_protocol_type_are_never_read_as_kafkas(connection: LaneConnection) -> None:
    turns = Turns(connection)
    worker = ClassicMember(
        member_id="worker", session_timeout_ms=6_000, rebalance_timeout_ms=6_000, protocols=(("eager", b""),)
    )
    turns.take(
        records.ProtocolEntered("classic"),
        records.ClassicMemberAdded(worker),
        records.ProtocolChosen("connect", "eager", "worker"),
    )
    turns.take(records.ClassicAssigned({"worker": assignment({"orders": [0]})}))
    assert shown(connection) == []


def shown(connection: LaneConnection) -> list[tuple[str, str, list[int]]]:
    return connection.execute(
        "SELECT member_id, topic_name, partitions FROM observed_assignment ORDER BY 1, 2"
    ).fetchall()


def test_a_name_that_is_kept_out_is_known_to_the_next_owner(connection: LaneConnection) -> None:
    turns = Turns(connection)
    turns.take(joins("ann"), records.MemberQuarantined("ann", 60_000, "removed by olga: a test"))
    turns.take(records.MemberQuarantined("ann", 0, "again"), records.MemberQuarantined("ben", 5, "b"))
    assert turns.store.load(connection, "departures") == turns.rows
    turns.take(records.QuarantineEnded("ann"))
    assert turns.store.load(connection, "departures").quarantined == {"ben": (5, "b")}
    turns.take(records.MemberRemoved("ann", "left"), records.GroupDeleted())
    assert connection.execute("SELECT count(*) FROM group_quarantine").fetchone() == (0,)


def test_an_answer_alone_leaves_the_version_of_the_group(connection: LaneConnection) -> None:
    turns = Turns(connection)
    turns.take(joins("ann"))
    request_id = "00000000-0000-4000-8000-000000000001"
    connection.execute(
        "INSERT INTO work_item (id, kind, lane, key, principal, reason, payload, state, claim_epoch,"
        " claimed_by, error)"
        " VALUES (%s, 'group.request', 'coordinator/1', 'departures', 'olga', '', '{}', 'done', 0, '', '')",
        (request_id,),
    )
    answer = Answer(Verdict.REFUSED, 68, "no")
    turns.take(records.RequestDecided(request_id, "delete_group", "olga", "a test", answer))
    assert turns.rows.version == 1 and turns.store.load(connection, "departures") == turns.rows
    found = connection.execute("SELECT state, result ->> 'text' FROM work_item").fetchall()
    assert found == [("adopted", "no")]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE committed_offset SET expires_at = 'infinity' WHERE group_name = %s",
        "UPDATE classic_member SET protocol_names = '{{a,b}}' WHERE group_name = %s",
        "UPDATE group_member SET subscription = 'null' WHERE group_name = %s",
    ],
)
def test_a_row_that_cannot_be_read_hides_no_other_group_of_its_shard(
    connection: LaneConnection, damage: str
) -> None:
    shard = shard_of("departures")
    names = [name for number in range(999) if shard_of(name := f"group-{number}") == shard]
    for name in names:
        settled(Turns(connection, name))
    bad = names[len(names) // 2]
    if "classic" in damage:
        connection.execute("DELETE FROM partition_ownership WHERE group_name = %s", (bad,))
        connection.execute("DELETE FROM group_member WHERE group_name = %s", (bad,))
        connection.execute("UPDATE consumer_group SET protocol = 'classic' WHERE name = %s", (bad,))
        connection.execute(
            "INSERT INTO classic_member (group_name, member_id, client_id, client_host, session_timeout_ms,"
            " rebalance_timeout_ms, protocol_names, protocol_metadata, assignment, node)"
            " VALUES (%s, 'ann', '', '', 1, 1, '{range,sticky}', '{a,b}', '', '')",
            (bad,),
        )
    connection.execute(damage.encode(), (bad,))
    connection.commit()
    connection.set_autocommit(True)
    loaded = GroupStore("node-1").load_shard(connection, shard)
    assert len(names) > 9 and loaded.keys() == set(names)
    assert [name for name, rows in loaded.items() if rows is None] == [bad]
    with pytest.raises(Unreadable):
        GroupStore("node-1").load(connection, bad)


def test_members_who_subscribe_alike_are_loaded_with_one_list(connection: LaneConnection) -> None:
    turns = Turns(connection)
    turns.take(joins("ann", "orders", "clicks"), joins("ben", "orders", "clicks"), joins("cleo", "clicks"))
    loaded = turns.store.load(connection, "departures")
    assert loaded.members == turns.rows.members
    assert loaded.members["ann"].topic_count is loaded.members["ben"].topic_count
    connection.execute("UPDATE group_member SET subscription_digest = ''")
    assert turns.store.load(connection, "departures").members == turns.rows.members, "rows of older programs"
