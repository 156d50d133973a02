"""This room plays counterexamples 3 and 7 of replication.md section 7: how a proposal ends."""

from muster.kernel.instants import Instant
from tests.scenarios.replication.stage import Stage


def test_a_proposal_without_an_answer_holds_the_high_watermark_for_as_long_as_it_takes() -> None:
    stage = Stage()
    stage.shrink_to(1, 1, 2)
    stage.fetch(3)
    stage.propose_add(1)
    stage.world.now = Instant(stage.world.now + 5_000)
    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2)

    assert stage.committed == [], "3 may be a member already, and does not have the record"
    stage.controller_reads(1)
    stage.heed(1)
    assert set(stage.replica(1).isr) == {1, 2, 3}


def test_a_refused_proposal_is_ended_by_the_row_in_its_answer() -> None:
    stage = Stage()
    stage.shrink_to(1, 1, 2)
    stage.fetch(3)
    stage.session_over(3)
    stage.propose_add(1)
    assert stage.replica(1).pending is not None
    stage.controller_reads(1)
    stage.heed(1)

    assert stage.replica(1).pending is None
    assert set(stage.replica(1).isr) == {1, 2}
    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2)
    assert stage.committed == [1]


def test_nothing_is_proposed_on_a_new_link_before_its_snapshot_is_applied() -> None:
    stage = Stage()
    stage.shrink_to(1, 1, 2)
    stage.fetch(3)
    stage.break_link(1)
    stage.hello(1)
    stage.propose_add(1)
    assert stage.replica(1).pending is None

    stage.controller_reads(1)
    stage.heed(1)
    stage.propose_add(1)
    assert stage.replica(1).pending is not None


def test_the_late_answer_to_one_proposal_does_not_end_the_next() -> None:
    stage = Stage()
    replica = stage.replica(1)
    stage.produce(1)
    first = replica.row
    assert first is not None
    stage.propose_drop(1)
    stage.controller_reads(1)
    stage.heed(1)
    later = replica.row
    assert later is not None and later.version > first.version
    stage.propose_drop(1)
    pending = replica.pending
    assert pending is not None

    replica.hear_answer(first.version, later, stage.world.now)
    assert replica.pending is pending
