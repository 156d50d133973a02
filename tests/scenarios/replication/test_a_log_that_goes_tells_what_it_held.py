"""This room plays a partition that moves away from who held what an unclean election lost, and back."""

from controller.core.loss_rows import Cut
from muster.messages.link.losses import NOT_KNOWN
from tests.scenarios.replication.stage import ORDERS_0, Stage

TWO_AND_THREE, ONE_AND_TWO = (2, 3), (2, 1)


def two_leads_and_lacks_what_one_held() -> Stage:
    """One was alone in sync when it died, and held three records more than two, which was elected."""
    stage = Stage(assigned=(1, 2), brokers=3, is_lossy=True)
    stage.commit(1, 2)
    for _ in range(3):
        stage.produce(1)
    stage.shrink_to(1, 1)
    stage.kill(1)
    stage.session_over(1)
    stage.heed(2, 3)
    assert (stage.row.leader, stage.row.isr) == (2, (2,))
    return stage


def move(stage: Stage, *replicas: int) -> None:
    """Until nobody is added and nobody leaves; who is down, or not one of them, hears of it later."""
    stage.world._move_to(ORDERS_0, replicas)
    for _ in range(5):
        stage.heed(*replicas)
        for b in replicas:
            stage.fetch(b)
        stage.propose_add(2)
        stage.controller_reads(2)
    stage.heed(*replicas)
    assert set(stage.row.assigned) == set(stage.row.isr) == set(replicas)


def told(stage: Stage) -> tuple[Cut, ...]:
    """What brokers have told the controller of the one election, with the pings that they have sent."""
    for b, broker in stage.world.brokers.items():
        if stage.world.losses.may_be_told(broker):
            stage.world.do(("tell_losses", b))
            stage.controller_reads(b)
    [loss] = stage.world.rows().losses.values()
    return loss.cuts


def test_whoever_comes_back_when_the_partition_is_elsewhere_tells_what_its_log_held() -> None:
    stage = two_leads_and_lacks_what_one_held()
    move(stage, *TWO_AND_THREE)
    stage.start(1)
    stage.join(1)

    assert stage.values(1) == [], "its log is stray"
    assert Cut(1, 4, NOT_KNOWN, 0, NOT_KNOWN) in told(stage)


def test_the_log_that_it_has_when_the_partition_is_back_answers_for_nothing() -> None:
    stage = two_leads_and_lacks_what_one_held()
    stage.start(1)
    stage.join(1)
    move(stage, *TWO_AND_THREE)
    stage.heed(1)
    assert stage.values(1) == [], "it was told to stop"
    stage.kill(1)
    stage.start(1)
    stage.join(1)
    move(stage, *ONE_AND_TWO)

    assert stage.values(1) == [1], "it has another log"
    assert [one for one in told(stage) if one.broker_id == 1] == [Cut(1, 4, NOT_KNOWN, 0, NOT_KNOWN)]


def test_whoever_was_elected_and_died_behind_its_log_before_it_was_heard_tells_where_it_began() -> None:
    stage = two_leads_and_lacks_what_one_held()
    move(stage, *TWO_AND_THREE)
    stage.produce(2)
    move(stage, 3)
    stage.heed(2)
    assert stage.values(2) == [], "it was told to stop"
    stage.kill(2)
    stage.start(2)
    stage.join(2)

    told(stage)
    [loss] = stage.world.rows().losses.values()
    assert (loss.leader, loss.start_offset) == (2, 1)
