"""What a group committed is old by PostgreSQL's clock, from a time that depends on who is in the group."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.core.management import call_command
from msgspec.structs import replace

from controller import store as controllers_store
from controller.core import records as facts
from coordinator import store_offsets
from coordinator.store import GroupStore
from coordinator.store_outlived import Outlived
from groups.core import records
from groups.core.classic import ClassicMember
from groups.core.phases import Phase
from groups.core.records import GroupRecord
from groups.core.rows import apply
from groups.core.state import OffsetNote
from muster.kernel.shards import shard_of
from muster.messages.link.rows import PartitionRow
from muster.messages.partitions import Partition, Position, by_topic, positions_by_topic
from runtime.postgres import LaneConnection
from tests.unit.messages import made_rows

DAY = 24 * 60
OLD = "now() - interval '8 days'"
P = Partition("orders", UUID(int=10), 0)
ANN = ClassicMember(
    member_id="ann", session_timeout_ms=6_000, rebalance_timeout_ms=6_000, protocols=(("range", b""),)
)
CLASSIC, NATIVE = records.ProtocolEntered("classic"), records.ProtocolEntered("native")
CONSUMERS = records.ProtocolChosen("consumer", None, None)
JOINED = (records.ClassicMemberAdded(ANN), records.PhaseEntered(Phase.PREPARING_REBALANCE))
SETTLED = (records.PhaseEntered(Phase.COMPLETING_REBALANCE), records.PhaseEntered(Phase.STABLE))
COMMITTED = records.OffsetsSet(positions_by_topic({P: Position(5, 1)}))


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    call_command("initialise_cluster", verbosity=0)
    with LaneConnection.connect(fresh_database) as opened:
        opened.execute(
            "INSERT INTO topic (name, topic_id, partition_count, replication_factor, configs,"
            " metadata_version) VALUES ('orders', %s, 1, 1, '{}', 0)",
            (P.topic_id,),
        )
        add_partition(opened)
        yield opened
        opened.rollback()


def add_partition(connection: LaneConnection, base_epoch: int = 0) -> None:
    """The one partition, behind another of its number if there is a base; then it is of now."""
    connection.execute(
        "INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr,"
        " version, base_epoch, added_again_at) SELECT %s, 0, '{1}', '{}', '{}', -1, n, '{}', 1, n,"
        " CASE WHEN n > 0 THEN clock_timestamp() END FROM (SELECT %s::int) AS u(n)",
        (P.topic_id, base_epoch),
    )


def stored(connection: LaneConnection, *turn: GroupRecord) -> None:
    """A group `readers` of which this became true, with an offset, all of it just now."""
    store = GroupStore()
    before = store.load(connection, "readers")
    store.save(connection, "readers", before, (*turn, COMMITTED))
    assert apply(before, (*turn, COMMITTED)).offsets == {P: 5}


def found(connection: LaneConnection, minutes: int = 7 * DAY) -> Outlived:
    return GroupStore().outlived(connection, shard_of("readers"), minutes)


def aged(connection: LaneConnection, minutes: int = 7 * DAY) -> list[Partition]:
    """The old offsets of the one group; each as it was committed, and older than a day or at its own end."""
    old = found(connection, minutes).aged.get("readers", [])
    assert all(one.offset == 5 and (one.stamp_passed or one.age_ms >= 0) for one in old)
    return [one.partition for one in old]


def committed_long_ago(connection: LaneConnection) -> None:
    connection.execute(f"UPDATE committed_offset SET committed_at = {OLD}")


def in_its_phase_for_long(connection: LaneConnection) -> None:
    connection.execute(f"UPDATE consumer_group SET phase_entered_at = {OLD}")


@pytest.mark.parametrize("turn", [(CLASSIC,), (CLASSIC, CONSUMERS), (NATIVE,), (CLASSIC, *JOINED, *SETTLED)])
def test_what_is_young_is_not_old(connection: LaneConnection, turn: tuple[GroupRecord, ...]) -> None:
    stored(connection, *turn)
    assert aged(connection) == []
    assert aged(connection, 2**31 - 1) == []


def test_where_nobody_was_ever_a_member_the_commit_counts(connection: LaneConnection) -> None:
    stored(connection, CLASSIC)
    in_its_phase_for_long(connection)
    assert aged(connection) == []
    committed_long_ago(connection)
    assert aged(connection) == [P]
    assert aged(connection, 9 * DAY) == []


@pytest.mark.parametrize("turn", [(CLASSIC, CONSUMERS), (NATIVE,)])
def test_where_members_were_it_counts_since_when_there_are_none(
    connection: LaneConnection, turn: tuple[GroupRecord, ...]
) -> None:
    stored(connection, *turn)
    committed_long_ago(connection)
    assert aged(connection) == []
    in_its_phase_for_long(connection)
    assert aged(connection) == [P]


def test_where_members_are_the_commit_counts_and_in_a_rebalance_nothing(connection: LaneConnection) -> None:
    stored(connection, CLASSIC, CONSUMERS, *JOINED)
    in_its_phase_for_long(connection)
    committed_long_ago(connection)
    assert aged(connection) == []
    stored(connection, *SETTLED)
    in_its_phase_for_long(connection)
    assert aged(connection) == []
    committed_long_ago(connection)
    assert aged(connection) == [P]


def test_a_time_that_a_commit_stated_replaces_the_rule(connection: LaneConnection) -> None:
    stored(connection, CLASSIC)
    connection.execute("UPDATE committed_offset SET expires_at = now() + interval '1 hour'")
    committed_long_ago(connection)
    assert aged(connection) == []
    connection.execute("UPDATE committed_offset SET expires_at = now()")
    assert aged(connection, 2**31 - 1) == [P]


@pytest.mark.parametrize("world", [CLASSIC, NATIVE])
def test_a_group_without_members_may_go_after_a_while(
    connection: LaneConnection, world: records.ProtocolEntered
) -> None:
    stored(connection, world)
    assert found(connection).empty_ms == {}
    in_its_phase_for_long(connection)
    assert found(connection).empty_ms["readers"] >= 8 * DAY * 60_000
    stored(connection, CLASSIC, *JOINED)
    in_its_phase_for_long(connection)
    assert found(connection).empty_ms == {}


def test_offsets_of_a_topic_that_is_no_more_are_found_in_any_phase(connection: LaneConnection) -> None:
    stored(connection, CLASSIC, *JOINED)
    assert found(connection).topics == {}
    connection.execute("UPDATE topic SET topic_id = gen_random_uuid()")
    assert found(connection).topics == {"readers": frozenset({P.topic_id})}


def test_offsets_of_partitions_that_were_removed_are_found_and_go_from_rows_that_no_load_has_read(
    connection: LaneConnection,
) -> None:
    stored(connection, CLASSIC)
    assert found(connection).removed == {}
    connection.execute("DELETE FROM partition")
    assert found(connection).removed == {"readers": [(P, 5)]}
    assert GroupStore().load(connection, "readers").offsets == {P: 5}

    add_partition(connection, base_epoch=7)
    assert found(connection).removed == {"readers": [(P, 5)]}
    loaded = GroupStore().load(connection, "readers")
    assert loaded.offsets == {}, "what was committed for the one before it counts as absent"
    gone = records.OffsetsDeleted(by_topic([P]))
    GroupStore().save(connection, "readers", loaded, (gone,))
    assert not connection.execute("SELECT FROM committed_offset").fetchall()


def test_what_is_committed_for_the_partition_that_came_again_stays(connection: LaneConnection) -> None:
    stored(connection, CLASSIC)
    connection.execute("DELETE FROM partition")
    add_partition(connection, base_epoch=7)
    connection.execute("UPDATE committed_offset SET committed_at = clock_timestamp()")
    assert found(connection).removed == {}
    assert GroupStore().load(connection, "readers").offsets == {P: 5}


@pytest.mark.parametrize("note", [None, OffsetNote(-1, "step 5", None)])
def test_what_is_committed_after_the_clock_was_set_back_behind_the_partition_that_came_again_stays(
    connection: LaneConnection, note: OffsetNote | None
) -> None:
    stored(connection, CLASSIC)
    connection.execute("DELETE FROM partition")
    add_partition(connection, base_epoch=7)
    connection.execute("UPDATE partition SET added_again_at = now() + interval '1 hour'")
    connection.row_ids.clear()
    for offset in (6, 7):  # by its key, and then by its id
        store_offsets.write(connection, {("readers", P): offset if note is None else (offset, note)})
        assert found(connection).removed == {}
        assert GroupStore().load(connection, "readers").offsets == {P: offset}
    connection.execute("DELETE FROM committed_offset")
    store_offsets.write(connection, {("readers", P): 8 if note is None else (8, note)})
    assert GroupStore().load(connection, "readers").offsets == {P: 8}, "the first of its group"


def test_a_number_is_taken_again_behind_what_was_committed_before_the_clock_was_set_back(
    connection: LaneConnection,
) -> None:
    stored(connection, CLASSIC)
    connection.execute("DELETE FROM partition")
    connection.execute("UPDATE committed_offset SET committed_at = now() + interval '1 hour'")
    assert GroupStore().load(connection, "readers").offsets == {P: 5}
    rows = controllers_store.load(connection)
    version = rows.metadata_version + 1
    topic = replace(rows.topics[P.topic_id], version=version)
    [again] = made_rows.gathered([PartitionRow(P.topic_id, 0, (1,), -1, 7, (), version, base_epoch=7)])
    turn = (
        facts.TurnStamped(version),
        facts.TopicChanged(topic),
        facts.PartitionsCreated(again, version),
    )
    controllers_store.save(connection, rows, turn)
    assert GroupStore().load(connection, "readers").offsets == {}
    assert found(connection).removed == {"readers": [(P, 5)]}
