"""What is stored of a group, in either world and either database, is what was decided."""

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from django.core.management import call_command

from groups.core import records
from groups.core.classic import ClassicMember
from groups.core.phases import Phase
from groups.core.records import GroupRecord
from groups.core.state import GroupRows, OffsetNote
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition, Position, by_topic, positions_by_topic
from runtime.ports import VersionConflict
from tests.conformance.databases import Breakable
from tests.conformance.stored_groups import Group
from tests.unit.coordinator.shards import MemoryGroups

ORDERS = UUID("00000000-0000-4000-8000-00000000000a")
P = [Partition("orders", ORDERS, number) for number in range(4)]
Grouped = Callable[..., Group]


@pytest.fixture
def grouped(breakable: Breakable, request: pytest.FixtureRequest) -> Iterator[Grouped]:
    """Groups by name, in the database of this test."""
    in_memory = request.node.callspec.params["breakable"] == "memory"
    if not in_memory:
        call_command("initialise_cluster", verbosity=0)
    link = breakable.database.connect("aaaaaaaaaaaaaaaa", "tests")
    yield lambda name="departures": Group(link, MemoryGroups() if in_memory else None, name)
    link.close()


def kafka(name: str, *protocols: str, instance: str | None = None) -> ClassicMember:
    return ClassicMember(
        member_id=name,
        group_instance_id=instance,
        client_id='a "client" \\ {of}, Zürich',
        client_host="/127.0.0.1",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        protocols=tuple((one, b"\x00\xff\\'{,}" + one.encode()) for one in protocols or ("range",)),
    )


def native(name: str) -> records.MemberAdded:
    return records.MemberAdded(
        member_id=name,
        token_hash=name.encode().hex().ljust(64, "0"),
        topic_count=(TopicCount("orders"),),
        session_timeout_ms=6_000,
    )


def assert_stored(group: Group, expected: GroupRows) -> None:
    """The owner's rows, the journal's fold, a single load and a bulk load are equal."""
    assert group.rows == expected
    assert group.folded == expected
    assert group.stored() == expected
    assert group.stored_in_bulk() == (None if expected.version == 0 else expected)


CLASSIC_LIFE: tuple[tuple[GroupRecord, ...], ...] = (
    (
        records.ProtocolEntered("classic"),
        records.ClassicMemberAdded(kafka("ann", "range", "roundrobin")),
        records.PhaseEntered(Phase.PREPARING_REBALANCE),
    ),
    (records.ClassicMemberAdded(kafka("ben", instance="i-ben")), records.ClassicMemberAdded(kafka("cleo"))),
    (
        records.GenerationOpened(1),
        records.ProtocolChosen("consumer", "range", "ann"),
        records.PhaseEntered(Phase.COMPLETING_REBALANCE),
    ),
    (
        records.ClassicAssigned({"ann": b"\x00\x01", "ben": b"\xff\xfe not Kafka's"}),
        records.PhaseEntered(Phase.STABLE),
    ),
    (records.OffsetsSet(positions_by_topic({P[0]: Position(5, 1), P[2]: Position(7, 1)})),),
    (records.InstanceReplaced("ben", kafka("ben-2", instance="i-ben")),),
    (records.ClassicMemberChanged(kafka("ann", "cooperative-sticky")),),
    (records.MemberRemoved("ann", "left"), records.PhaseEntered(Phase.PREPARING_REBALANCE)),
    (records.OffsetsDeleted(by_topic(P[:1])),),
    (
        records.MemberRemoved("ben-2", "session over"),
        records.MemberRemoved("cleo", "session over"),
        records.GenerationOpened(2),
        records.ProtocolChosen("consumer", None, None),
        records.PhaseEntered(Phase.EMPTY),
    ),
)


def test_a_classic_group_is_the_same_in_cache_journal_and_tables_at_every_step(grouped: Grouped) -> None:
    group = grouped()
    for turn in CLASSIC_LIFE:
        assert_stored(group, group.take(*turn))
    assert group.rows.offsets == {P[2]: 7}


def test_an_empty_group_changes_its_world_and_keeps_its_offsets(grouped: Grouped) -> None:
    group = grouped()
    group.take(native("ann"), records.PhaseEntered(Phase.STABLE))
    group.take(
        records.OffsetsFlushed(positions_by_topic({P[1]: Position(3, 1)})),
        records.MemberRemoved("ann", "left"),
        records.PhaseEntered(Phase.EMPTY),
    )
    turn = (
        records.ProtocolEntered("classic"),
        records.ClassicMemberAdded(kafka("ben")),
        records.PhaseEntered(Phase.PREPARING_REBALANCE),
    )
    assert_stored(group, group.take(*turn))
    group.take(records.MemberRemoved("ben", "left"), records.PhaseEntered(Phase.EMPTY))
    turn_back = (records.ProtocolEntered("native"), native("cleo"), records.PhaseEntered(Phase.STABLE))
    assert_stored(group, group.take(*turn_back))
    assert group.stored().offsets == {P[1]: 3}


def test_a_deleted_classic_group_leaves_nothing(grouped: Grouped) -> None:
    group = grouped()
    for turn in CLASSIC_LIFE:
        group.take(*turn)
    group.take(records.GroupDeleted())
    assert group.stored_in_bulk() is None
    assert group.stored().version == 0
    assert group.stored().offsets == {}


def test_a_turn_on_an_old_version_of_a_classic_group_writes_nothing(grouped: Grouped) -> None:
    group = grouped()
    old = group.take(*CLASSIC_LIFE[0])
    group.take(*CLASSIC_LIFE[1])
    with pytest.raises(VersionConflict):
        group.write(old, records.ClassicMemberAdded(kafka("dan")))
    assert_stored(group, group.rows)


def test_a_turns_fill_of_members_is_assigned_and_loaded(grouped: Grouped) -> None:
    group = grouped()
    names = [f"member-{number}" for number in range(1_000)]
    added = (records.ClassicMemberAdded(kafka(name)) for name in names)
    group.take(records.ProtocolEntered("classic"), *added)
    assert_stored(group, group.take(records.ClassicAssigned({name: name.encode() for name in names})))


def test_an_offset_keeps_its_note_until_it_is_committed_without_one(grouped: Grouped) -> None:
    group = grouped("simple")
    group.take(records.ProtocolEntered("classic"))
    odd = OffsetNote(4, 'a "note" \\ {of}, Zürich')
    timed = OffsetNote(metadata="NULL", expires_at_ms=1_700_000_000_123)

    def written(positions: dict[int, int | tuple[int, OffsetNote]]) -> GroupRows:
        rows = {("simple", P[number]): offset for number, offset in positions.items()}
        # A batch is one statement, with and without notes.
        group.link.batch((), lambda connection: group.store.write_offsets(connection, rows))
        stored = group.stored()
        assert stored == group.stored_in_bulk()
        return stored

    stored = written({0: (7, odd), 1: 8, 2: (9, timed)})
    assert stored.offsets == {P[0]: 7, P[1]: 8, P[2]: 9}
    assert stored.offset_notes == {P[0]: odd, P[2]: timed}
    stored = written({1: (8, odd), 2: 9})
    assert stored.offset_notes == {P[0]: odd, P[1]: odd}
    stored = written({0: (1, timed), 1: (2, OffsetNote(5))})
    assert stored.offsets == {P[0]: 1, P[1]: 2, P[2]: 9}
    assert stored.offset_notes == {P[0]: timed, P[1]: OffsetNote(5)}
    group.rows = stored
    assert group.take(records.OffsetsDeleted(by_topic(P[:1]))) == group.stored()


def test_an_offset_that_an_operator_sets_has_no_note(grouped: Grouped) -> None:
    group = grouped("simple")
    group.take(records.ProtocolEntered("classic"))
    note = OffsetNote(4, "read up to here", 1_700_000_000_123)
    noted = {("simple", P[number]): (7, note) for number in range(2)}
    group.link.batch((), lambda connection: group.store.write_offsets(connection, noted))
    group.rows = group.folded = group.stored()
    turn = records.OffsetsSet(positions_by_topic({P[0]: Position(2, 0)}))
    assert_stored(group, group.take(turn))
    assert group.rows.offsets == {P[0]: 2, P[1]: 7}
    assert group.rows.offset_notes == {P[1]: note}


def test_a_generation_that_was_skipped_with_a_reset_is_stored(grouped: Grouped) -> None:
    group = grouped()
    group.take(native("ann"), records.PhaseEntered(Phase.STABLE))
    group.take(records.MemberRemoved("ann", "session over"), records.PhaseEntered(Phase.EMPTY))
    turn = (records.OffsetsSet(positions_by_topic({P[0]: Position(2, 0)})), records.GenerationSkipped(1))
    assert_stored(group, group.take(*turn))
    assert group.stored().generation == 1
