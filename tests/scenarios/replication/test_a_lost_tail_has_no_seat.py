"""This room plays counterexample 2 of replication.md section 7: a seat kept for a machine that crashed."""

from controller.core.records import PossibleLoss
from tests.scenarios.replication.stage import Stage


def test_a_crashed_machine_that_the_floor_kept_is_not_elected_without_its_records() -> None:
    stage = Stage(assigned=(1, 2), min_insync=2, brokers=3)
    stage.commit(1, 2)
    stage.machine_crash(2)
    stage.session_over(2)
    assert set(stage.row.isr) == {1, 2}

    stage.session_over(1)
    assert stage.row.leader == -1
    stage.start(2)
    stage.join(2)

    assert stage.row.isr == (1,), "its seat is gone with its tail"
    assert stage.row.leader == -1
    stage.join(1)
    assert stage.row.leader == 1


def test_the_last_member_leads_again_even_without_its_tail_and_the_journal_says_so() -> None:
    stage = Stage(assigned=(1, 2), min_insync=1, brokers=3)
    stage.shrink_to(1, 1)
    stage.kill(1)
    stage.session_over(1)
    assert (stage.row.leader, stage.row.isr) == (-1, (1,))
    stage.machine_crash(1)
    stage.start(1)
    stage.join(1)

    assert (stage.row.leader, stage.row.isr) == (1, (1,))
    losses = [record for record in stage.world.database.journal if isinstance(record, PossibleLoss)]
    assert [loss.leader for loss in losses] == [1]


def test_a_loss_said_by_who_is_about_to_stop_is_heard_from_the_next() -> None:
    stage = Stage(assigned=(1, 2), min_insync=1, brokers=3)
    stage.shrink_to(1, 1)
    stage.kill(1)
    stage.session_over(1)
    stage.machine_crash(1)
    stage.start(1)
    stage.world.do(("leave", 1))
    stage.join(1)
    assert stage.row.leader == -1, "it is not elected"
    assert not stage.world.brokers[1].up, "and stops"
    stage.start(1)
    stage.join(1)

    assert (stage.row.leader, stage.row.isr) == (1, (1,))
    losses = [record for record in stage.world.database.journal if isinstance(record, PossibleLoss)]
    assert [loss.leader for loss in losses] == [1]
