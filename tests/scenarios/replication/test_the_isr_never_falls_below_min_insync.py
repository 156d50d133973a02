"""This room plays counterexample 1 of replication.md section 7: the floor under the ISR."""

from tests.scenarios.replication.stage import Stage


def test_a_leader_whose_machine_crashes_after_a_shrink_loses_nothing() -> None:
    stage = Stage(assigned=(1, 2), min_insync=2, brokers=3)
    stage.produce(1)
    stage.propose_drop(1)
    stage.controller_reads(1)

    assert set(stage.row.isr) == {1, 2}, "two members are the floor: nobody is dropped"

    stage.fetch(2)
    stage.fetch(2, "lost")
    assert stage.committed == [1]
    stage.machine_crash(1)
    stage.session_over(1)
    stage.start(1)
    stage.join(1)
    stage.heed(2)

    assert stage.row.leader == 2
    assert stage.row.isr == (2,), "who lost its tail leaves, whatever the floor says"
    stage.fetch(1)
    assert stage.values(1) == [1]


def test_the_session_of_a_follower_ends_and_its_seat_stays_at_the_floor() -> None:
    stage = Stage(assigned=(1, 2, 3), min_insync=2)
    stage.session_over(3)
    assert set(stage.row.isr) == {1, 2}
    stage.session_over(2)
    assert set(stage.row.isr) == {1, 2}, "the floor keeps the dead"
    assert stage.row.leader == 1
