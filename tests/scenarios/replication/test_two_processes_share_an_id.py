"""This room plays a copied config: a second process of broker 1, with an empty folder, says hello."""

from tests.scenarios.replication.stage import Stage


def test_the_empty_one_does_not_take_the_seat_of_the_one_that_has_the_records() -> None:
    stage = Stage(assigned=(1,), brokers=1)
    stage.produce(1)
    assert stage.committed == [1]
    stage.twin_says_hello(1)
    stage.break_link(1)
    stage.twin_says_hello(1)
    stage.controller_reads(1)
    stage.twin_says_hello(1)

    stage.join(1)
    assert (stage.row.leader, stage.row.leader_epoch) == (1, 1)
    stage.produce(1)
    assert stage.committed == [1, 2]
