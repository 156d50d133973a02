"""This room plays counterexample 4 of replication.md section 7: the old link's buffer."""

from tests.scenarios.replication.stage import Stage


def test_a_proposal_left_in_the_old_link_is_not_committed_after_the_hello() -> None:
    stage = Stage()
    stage.shrink_to(1, 1, 2)
    stage.fetch(3)
    stage.propose_add(1)
    stage.break_link(1)
    stage.heed(1)
    stage.hello(1)
    stage.controller_reads_newest_link(1)
    stage.heed(1)
    assert stage.replica(1).pending is None, "the snapshot denied it"
    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2)
    assert stage.committed == [1]

    stage.controller_reads(1)

    assert set(stage.row.isr) == {1, 2}, "3 does not have the record and is no member"


def test_after_a_takeover_the_old_controllers_turn_is_fenced() -> None:
    stage = Stage()
    stage.shrink_to(1, 1, 2)
    stage.fetch(3)
    stage.propose_add(1)
    stage.takeover()
    stage.hello(1)
    stage.controller_reads_newest_link(1)
    stage.heed(1)
    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2)
    assert stage.committed == [1]

    stage.controller_reads(1)

    assert set(stage.row.isr) == {1, 2}


def test_an_answer_left_in_the_old_link_does_not_end_a_proposal_of_the_new_one() -> None:
    stage = Stage()
    stage.shrink_to(1, 1, 2)
    stage.fetch(3)
    stage.session_over(3)
    stage.propose_add(1)
    stage.controller_reads(1)
    stage.break_link(1)
    stage.hello(1)
    stage.join(3)
    stage.controller_reads_newest_link(1)
    for _ in ("accepted", "snapshot"):
        stage.world.do(("heed", 1))
    stage.fetch(3)
    stage.propose_add(1)
    stage.heed(1)

    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2)
    assert stage.committed == [], "the refusal of the first proposal was of the second's base version, too"
    stage.controller_reads(1)
    assert set(stage.row.isr) == {1, 2, 3}
