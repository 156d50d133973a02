"""This room shows the link's rules at the broker (section 3): order, chunks, old controllers, strays."""

from uuid import UUID

import pytest
from msgspec import structs

from broker.core.cluster_view import ClusterView
from broker.core.replica import Obeyed, Replica, Role
from muster.messages.link.rows import PartitionRow, TopicRow
from muster.messages.link.to_broker import AlterPartitionAnswer, Changes, IsrAnswer, SnapshotChunk
from tests.unit.broker_core.stage import NOW, ORDERS, Log, row
from tests.unit.messages.made_rows import alone

TOPICS = (TopicRow(ORDERS, "orders", 1, 3),)


def chunk(version: int, number: int = 0, last: bool = True, **rows: object) -> SnapshotChunk:
    return SnapshotChunk(metadata_version=version, number=number, last=last, **rows)  # type: ignore[arg-type]


def linked(version: int = 5) -> ClusterView:
    view = ClusterView(1)
    view.open_link()
    view.obey(chunk(version, topics=TOPICS, partitions=(row(version=3),)))
    return view


def numbered(number: int, **changes: object) -> PartitionRow:
    return structs.replace(row(**changes), partition=number)  # type: ignore[arg-type]


def test_a_snapshot_counts_only_whole() -> None:
    view = ClusterView(1)
    view.open_link()
    assert view.obey(chunk(5, last=False, partitions=(row(),))).rows == []
    assert view.strays([(ORDERS, 9)]) == []
    heeded = view.obey(chunk(5, number=1))
    assert view.ready and heeded.from_snapshot and len(heeded.rows) == 1
    assert view.strays([(ORDERS, 0), (ORDERS, 9)]) == [(ORDERS, 9)]


def test_a_snapshot_that_broke_off_leaves_nothing_to_the_next() -> None:
    view = ClusterView(1)
    view.open_link()
    view.obey(chunk(5, last=False, partitions=(row(), numbered(1))))
    view.open_link()
    heeded = view.obey(chunk(5, partitions=(row(),)))
    assert [one.partition for one in heeded.rows] == [0]
    assert list(view.partitions) == [(ORDERS, 0)]


def test_whoever_lost_a_partition_meanwhile_hears_of_it_with_the_snapshot() -> None:
    view = linked()
    view.open_link()
    view.obey(chunk(6, last=False, partitions=(row(version=6, assigned=(2, 3), isr=(2,), leader=2),)))
    heeded = view.obey(chunk(6, number=1, partitions=(numbered(1, version=6),)))
    assert [(one.partition, one.assigned) for one in heeded.rows] == [(0, (2, 3)), (1, (1, 2, 3))]


def test_the_end_of_a_snapshot_costs_no_more_than_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hundred thousand partitions it held the loop for a tenth of a second."""
    asked = 0

    def counted(one: PartitionRow) -> tuple[UUID, int]:
        nonlocal asked
        asked += 1
        return one.topic_id, one.partition

    monkeypatch.setattr(PartitionRow, "key", property(counted))
    view = ClusterView(1)
    view.open_link()
    for number in range(10):
        rows = tuple(numbered(10 * number + place) for place in range(10))
        asked = 0
        view.obey(chunk(5, number, number == 9, partitions=rows))
        assert asked == len(rows)
    assert len(view.partitions) == 100


def test_a_missing_or_foreign_chunk_hangs_up() -> None:
    view = ClusterView(1)
    assert view.obey(chunk(5, number=1)).hang_up
    view.open_link()
    view.obey(chunk(5, last=False))
    assert view.obey(chunk(6, number=1)).hang_up


def test_an_older_snapshot_is_refused_whole() -> None:
    view = linked(version=5)
    view.open_link()
    assert view.obey(chunk(4)).hang_up
    assert view.partitions and view.metadata_version == 5 and not view.ready


def test_a_change_before_the_snapshot_hangs_up() -> None:
    view = linked()
    view.open_link()
    assert view.obey(Changes(metadata_version=6)).hang_up


def test_changes_apply_in_order_and_count_when_complete() -> None:
    view = linked()
    newer = row(leader=2, epoch=2, version=6)
    heeded = view.obey(Changes(metadata_version=6, complete=False, leader_and_isr=(alone(newer),)))
    assert heeded.rows == heeded.told == [newer] and view.metadata_version == 5
    assert view.obey(Changes(metadata_version=6)).rows == []
    assert view.metadata_version == 6
    assert view.obey(Changes(metadata_version=4, leader_and_isr=(alone(row(version=4)),))).rows == []
    assert view.partitions[ORDERS, 0] == newer


def test_what_a_new_snapshot_does_not_name_is_gone() -> None:
    view = linked()
    view.open_link()
    heeded = view.obey(chunk(6, partitions=(row(version=3, leader=2, epoch=2, isr=(2,), assigned=(2,)),)))
    assert heeded.gone == [] and [one.assigned for one in heeded.rows] == [(2,)]
    view = linked()
    view.open_link()
    assert view.obey(chunk(6)).gone == [(ORDERS, 0)]
    assert view.topic_ids == {}
    assert view.strays([(UUID(int=1), 0)]) == [(UUID(int=1), 0)]


def test_a_log_that_failed_is_not_led_whatever_rows_say() -> None:
    replica = Replica(1, Log())
    replica.obey(row(leader=2), NOW)
    replica.fail()
    replica.obey(row(leader=1, epoch=2, version=2), NOW)
    assert replica.role is Role.FAILED
    assert replica.next_fetch() is None


def test_a_deleted_topic_is_forgotten_with_its_partitions() -> None:
    view = linked()
    heeded = view.obey(Changes(metadata_version=6, deleted_topics=(ORDERS,)))
    assert (heeded.deleted, heeded.deleted_topics) == ([(ORDERS, 0)], [ORDERS])
    assert not view.partitions and not view.topics and not view.topic_ids
    assert view.strays([(ORDERS, 0)]) == [(ORDERS, 0)]


def test_another_topic_may_have_the_name_of_one_that_goes() -> None:
    view = linked()
    again = UUID(int=77)
    made = TopicRow(again, "orders", 1, 3)
    view.obey(Changes(metadata_version=6, deleted_topics=(ORDERS,), topics=(made,)))
    assert view.topic_ids == {"orders": again} and view.topics == {again: made}


def test_what_is_said_late_of_a_deleted_partition_is_passed_over() -> None:
    view = linked()
    view.obey(Changes(metadata_version=6, deleted_topics=(ORDERS,)))
    late = IsrAnswer(topic_id=ORDERS, partition=0, base_version=3, row=row(version=5))
    assert view.obey(AlterPartitionAnswer(answers=(late,))).told == []
    assert not view.partitions


FEWER = TopicRow(ORDERS, "orders", 1, 3)


def linked_with_two() -> ClusterView:
    view = ClusterView(1)
    view.open_link()
    rows = (row(version=3), structs.replace(row(version=3), partition=1))
    view.obey(chunk(5, topics=(TopicRow(ORDERS, "orders", 2, 3),), partitions=rows))
    return view


def test_partitions_that_are_removed_stop_and_the_others_stay() -> None:
    view = linked_with_two()
    heeded = view.obey(Changes(metadata_version=6, topics=(FEWER,)))
    assert (heeded.deleted, heeded.deleted_topics, heeded.shrunk_topics) == ([(ORDERS, 1)], [], [ORDERS])
    assert view.partitions.keys() == {(ORDERS, 0)}
    assert view.strays([(ORDERS, 0), (ORDERS, 1)]) == [(ORDERS, 1)]


def test_what_is_said_late_of_a_removed_partition_is_passed_over() -> None:
    view = linked_with_two()
    view.obey(Changes(metadata_version=6, topics=(FEWER,)))
    late = structs.replace(row(version=5), partition=1)
    answer = IsrAnswer(topic_id=ORDERS, partition=1, base_version=3, row=late)
    assert view.obey(AlterPartitionAnswer(answers=(answer,))).told == []
    assert view.partitions.keys() == {(ORDERS, 0)}


def added_again(epoch: int = 8, version: int = 9) -> PartitionRow:
    """Another partition under the same number: epochs up to 7 were given by the one before."""
    return structs.replace(row(epoch=epoch, version=version), base_epoch=7)


def test_a_replica_of_a_removed_partition_never_becomes_one_of_the_next() -> None:
    replica = Replica(1, Log())
    assert replica.obey(row(epoch=7), NOW) is Obeyed.NEW_LEADER
    assert replica.obey(added_again(), NOW) is Obeyed.ANOTHER
    assert replica.row == row(epoch=7), "nothing of the row was taken over"


def test_a_log_of_a_removed_partition_is_known_by_its_epochs_after_a_start_as_well() -> None:
    log = Log()
    log.append(epoch=7, count=3)
    assert Replica(1, log).obey(added_again(), NOW) is Obeyed.ANOTHER
    log = Log()
    log.append(epoch=8, count=3)
    assert Replica(1, log, 3).obey(added_again(epoch=9), NOW) is Obeyed.NEW_LEADER
    assert Replica(1, Log()).obey(added_again(), NOW) is Obeyed.NEW_LEADER
