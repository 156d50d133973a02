"""This room plays counterexample 6 of replication.md section 7: the zombie's snapshot."""

from tests.scenarios.replication.stage import Stage


def test_a_follower_does_not_go_back_to_the_epoch_of_an_old_controller() -> None:
    stage = Stage()
    stage.produce(1)
    stage.takeover()
    for b in (1, 2, 3):
        stage.join(b)
    stage.session_over(1)
    stage.heed(2, 3)
    assert stage.row.leader == 2
    stage.produce(2)
    stage.fetch(3)
    stage.fetch(3)
    committed = stage.committed
    assert committed

    stage.hello_to_the_old_controller(3)
    stage.controller_reads(3)
    stage.heed(3)

    assert stage.world.brokers[3].link is None, "it hung up"
    assert stage.replica(3).leader_epoch == 2
    stage.fetch(3)
    assert stage.values(3)[: len(committed)] == committed


def test_an_answer_that_ran_ahead_of_its_turn_counts_against_an_old_snapshot_too() -> None:
    stage = Stage()
    stage.produce(1)
    broker = stage.world.brokers[1]
    stage.takeover()
    for b in (1, 2, 3):
        stage.join(b)
    stage.propose_drop(1)
    stage.controller_reads(1)
    stage.world.do(("heed", 1))
    assert broker.view.metadata_version < stage.row.version == broker.view.partitions[stage.row.key].version

    stage.hello_to_the_old_controller(1)
    stage.controller_reads(1)
    stage.heed(1)

    assert broker.view.partitions[stage.row.key].version == stage.row.version
    assert len(stage.replica(1).isr) == 2
