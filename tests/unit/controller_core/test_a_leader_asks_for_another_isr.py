"""This room shows how AlterPartition is judged (conformance lines 179 to 184) and answered."""

import pytest

from controller.core.events import LinkClosed, TimePassed
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import AlterPartition, IsrProposal
from muster.messages.link.to_broker import AlterPartitionAnswer, Changes
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row, said
from tests.unit.messages.made_rows import alone


def ask(
    isr: tuple[int, ...], version: int = 5, epochs: dict[int, int] | None = None, number: int = 0
) -> AlterPartition:
    one = IsrProposal(
        topic_id=ORDERS, partition=number, base_version=version, isr=isr, broker_epochs=epochs or {}
    )
    return AlterPartition(proposals=(one,))


def test_an_accepted_proposal_is_answered_with_the_row_and_told_to_all() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    decision = cluster.turn(heard("link-1a", ask((1, 2, 3), epochs={3: 1})))

    partition = cluster.partition()
    assert (partition.isr, partition.leader_epoch) == ((1, 2, 3), 1)
    answer, changes = said(decision, "link-1a")
    assert isinstance(answer, AlterPartitionAnswer) and answer.answers[0].row == partition
    assert answer.answers[0].base_version == 5
    assert isinstance(changes, Changes) and changes.leader_and_isr == (alone(partition),)
    [follower_hears] = said(decision, "link-2a")
    assert isinstance(follower_hears, Changes) and follower_hears.leader_and_isr == (alone(partition),)


@pytest.mark.parametrize(
    ("link", "frame", "error"),
    [
        ("link-1a", ask((1,), version=6), ErrorCode.NOT_CONTROLLER),
        ("link-1a", ask((1,), version=4), ErrorCode.INVALID_UPDATE_VERSION),
        ("link-2a", ask((1, 2)), ErrorCode.INVALID_REQUEST),
        ("link-1a", ask((2,)), ErrorCode.INVALID_REQUEST),
        ("link-1a", ask((1, 1)), ErrorCode.INVALID_REQUEST),
        ("link-1a", ask((1, 2, 4), epochs={4: 1}), ErrorCode.INVALID_REQUEST),
        ("link-1a", ask((1, 2, 3), epochs={3: 2}), ErrorCode.INELIGIBLE_REPLICA),
        ("link-1a", ask((1, 2, 3)), ErrorCode.INELIGIBLE_REPLICA),
        ("link-1a", ask((1,), number=8), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_refusal_says_why_and_carries_the_row_as_it_is(
    link: str, frame: AlterPartition, error: ErrorCode
) -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    decision = cluster.turn(heard(link, frame))

    [answer] = said(decision, link)
    assert isinstance(answer, AlterPartitionAnswer)
    assert answer.answers[0].error is error
    known = frame.proposals[0].partition == 0
    assert answer.answers[0].row == (cluster.partition() if known else None)
    assert decision.records == ()


def test_a_broker_without_a_session_is_not_admitted() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    cluster.turn(LinkClosed("link-3a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    decision = cluster.turn(heard("link-1a", ask((1, 2, 3), epochs={3: 1})))
    [answer] = said(decision, "link-1a")
    assert isinstance(answer, AlterPartitionAnswer)
    assert answer.answers[0].error is ErrorCode.INELIGIBLE_REPLICA


def test_what_is_left_on_an_older_link_is_not_read() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    again = hello(1)
    cluster.turn(type(again)("link-1-newer", again.frame))
    decision = cluster.turn(heard("link-1a", ask((1, 2, 3), epochs={3: 1})))
    assert decision.records == () and decision.replies == ()


def test_the_answer_is_the_row_at_the_end_of_the_turn() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(LinkClosed("link-2a"))
    cluster.later(1_000)
    decision = cluster.turn(heard("link-1a", ask((1, 2))))

    answer = said(decision, "link-1a")[0]
    assert isinstance(answer, AlterPartitionAnswer)
    assert answer.answers[0].row == cluster.partition()
    assert cluster.partition().isr == (1,), "3 left by the proposal, 2 by its death in the same turn"


def test_a_shrink_below_the_floor_is_refused_whatever_the_leader_believes() -> None:
    """min.insync.replicas was configured twice, and nobody compared the two."""
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))], configs={"min.insync.replicas": "2"})
    decision = cluster.turn(heard("link-1a", ask((1,))))
    [answer] = said(decision, "link-1a")
    assert isinstance(answer, AlterPartitionAnswer)
    assert answer.answers[0].error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.partition().isr == (1, 2)


def test_an_isr_below_the_floor_may_grow_step_by_step() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1,))], configs={"min.insync.replicas": "3"})
    cluster.turn(heard("link-1a", ask((1, 2), epochs={2: 1})))
    assert cluster.partition().isr == (1, 2)
