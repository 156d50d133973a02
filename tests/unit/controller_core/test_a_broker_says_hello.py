"""This room shows what a hello does (replication.md section 2)."""

from uuid import UUID

import pytest

from controller.core.dispatch import snapshot
from controller.core.events import HangUp, Hello, LinkClosed
from controller.core.records import PossibleLoss
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_configs import KEYS
from muster.messages.codec import encode
from muster.messages.limits import MAX_FRAME_TO_BROKER_BYTES
from muster.messages.link.rows import TopicRow
from muster.messages.link.to_broker import Changes, HelloAccepted, HelloRefused, SnapshotChunk
from tests.unit.controller_core.stage import ORDERS, Cluster, hello, row, said
from tests.unit.messages.made_rows import alone


def test_the_same_incarnation_keeps_its_broker_epoch_and_gets_a_snapshot() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(LinkClosed("link-1a"))
    decision = cluster.turn(hello(1))

    accepted, chunk = said(decision, "link-1a")
    assert isinstance(accepted, HelloAccepted) and accepted.broker_epoch == 1
    assert isinstance(chunk, SnapshotChunk) and chunk.last and len(chunk.partitions) == 1
    assert decision.records == (), "nothing changed, nothing is written"


def test_a_new_incarnation_is_a_death_first_and_sees_it_in_its_snapshot() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(LinkClosed("link-1a"))
    decision = cluster.turn(hello(1, run="b"))

    assert cluster.state.rows.brokers[1].broker_epoch == 2
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 2, (2, 3))
    accepted, chunk = said(decision, "link-1b")
    assert isinstance(accepted, HelloAccepted) and accepted.broker_epoch == 2
    assert isinstance(chunk, SnapshotChunk) and chunk.partitions == (partition,)
    [changes] = said(decision, "link-2a")
    assert isinstance(changes, Changes) and changes.leader_and_isr == (alone(partition),)


def test_the_only_member_of_an_isr_leads_again_in_a_later_epoch() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.turn(hello(1, run="b"))

    partition = cluster.partition()
    assert (partition.leader, partition.isr) == (1, (1,))
    assert partition.leader_epoch > 1


@pytest.mark.parametrize("rack", ["r" * 250, "a\0b"])
def test_a_rack_that_cannot_be_stored_is_refused_and_spoils_no_turn(rack: str) -> None:
    cluster = Cluster()
    decision = cluster.turn(hello(9, rack=rack))
    [refused] = said(decision, "link-9a")
    assert isinstance(refused, HelloRefused) and refused.error is ErrorCode.INVALID_REQUEST
    assert "249 characters" in refused.text and decision.records == ()


def test_a_broker_of_another_cluster_is_refused_and_changes_nothing() -> None:
    cluster = Cluster()
    decision = cluster.turn(hello(9, cluster_id="cluster-2"))

    [refused] = said(decision, "link-9a")
    assert isinstance(refused, HelloRefused) and refused.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert 9 not in cluster.state.rows.brokers and decision.records == ()


def test_two_hellos_of_one_broker_in_one_turn_leave_the_newer_link_bound() -> None:
    cluster = Cluster()
    older = Hello("link-1-older", hello(1).frame)
    decision = cluster.turn(older, hello(1))

    assert said(decision, "link-1-older") == []
    assert HangUp("link-1-older", "the broker opened another link") in decision.commands
    assert cluster.state.memory.broker_of("link-1a") == 1
    assert cluster.state.rows.brokers[1].broker_epoch == 1


def test_ten_thousand_partitions_come_in_chunks_of_a_thousand() -> None:
    cluster = Cluster([row(number, (1, 2, 3), 1, (1, 2, 3)) for number in range(2_500)])
    decision = cluster.turn(LinkClosed("link-2a"), hello(2))

    chunks = [frame for frame in said(decision, "link-2a") if isinstance(frame, SnapshotChunk)]
    assert [(one.number, one.last, len(one.partitions)) for one in chunks] == [
        (0, False, 1_000),
        (1, False, 1_000),
        (2, True, 500),
    ]
    assert chunks[0].brokers and not chunks[1].brokers


def test_topics_come_in_chunks_too() -> None:
    cluster = Cluster()
    for number in range(2_500):
        cluster.state.rows.put_topic(TopicRow(UUID(int=number), f"topic-{number}", 1, 3))
    chunks = [frame for frame in said(cluster.turn(hello(2)), "link-2a") if isinstance(frame, SnapshotChunk)]
    assert [(len(one.topics), one.last) for one in chunks] == [(1_000, False), (1_000, False), (500, True)]


@pytest.mark.parametrize("letters", [40, 249])
def test_no_number_of_topics_makes_a_frame_that_no_broker_reads(letters: int) -> None:
    """A hundred thousand topics in one chunk were 15 MiB of 16."""
    configs = {key: "9" * 18 for key in KEYS}
    topics = [TopicRow(UUID(int=n), f"{n:0{letters}d}", 1, 3, configs) for n in range(30_000)]
    assert all(len(encode(chunk)) < MAX_FRAME_TO_BROKER_BYTES / 8 for chunk in snapshot(1, [], topics, []))


def test_a_damaged_log_leaves_the_isr_below_the_floor_and_the_others_stay() -> None:
    rows = [row(0, (1, 2), 1, (1, 2)), row(1, (1, 2), 1, (1, 2))]
    cluster = Cluster(rows, configs={"min.insync.replicas": "2"})
    cluster.turn(LinkClosed("link-1a"))
    cluster.turn(hello(1, run="b", damaged_logs=((ORDERS, 1),)))

    assert cluster.partition(0).isr == (1, 2)
    assert (cluster.partition(1).leader, cluster.partition(1).isr) == (2, (2,))


def test_the_last_member_with_a_damaged_log_leads_and_the_journal_says_so() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,)), row(1, (1, 2), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    decision = cluster.turn(hello(1, run="b", damaged_logs=((ORDERS, 1),)))

    assert [cluster.partition(number).leader for number in (0, 1)] == [1, 1]
    assert [(one.partition, one.leader) for one in decision.records if isinstance(one, PossibleLoss)] == [
        (1, 1)
    ]
