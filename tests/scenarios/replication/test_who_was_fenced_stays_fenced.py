"""This room plays a takeover while a broker is dead: the rows say so, and the new owner believes them."""

from tests.scenarios.replication.stage import Stage


def test_a_takeover_does_not_elect_a_broker_that_was_dead_before_it() -> None:
    stage = Stage(assigned=(1, 3), min_insync=2)
    stage.kill(3)
    stage.session_over(3)
    assert set(stage.row.isr) == {1, 3}, "the floor keeps the dead"
    stage.takeover()
    stage.join(1)
    stage.session_over(1)
    assert stage.row.leader == -1
