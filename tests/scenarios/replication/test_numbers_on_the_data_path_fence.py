"""This room plays what walks find only slowly: late fetches, late answers, a second leader (section 8)."""

from tests.scenarios.replication.stage import Stage


def test_an_answer_of_an_earlier_leader_epoch_is_dropped() -> None:
    stage = Stage()
    stage.produce(1)
    stage.fetch(3)
    stage.move(2)
    stage.heed(2, 3)
    stage.fetch(3, "slow")
    stage.move(1)
    stage.heed(1, 3)
    stage.fetch(3, "lost")
    stage.heed(2)
    stage.fetch(2)
    stage.fetch(2, "lost")
    assert stage.committed == [1]

    stage.receive(3)

    assert stage.values(3) == [1], "the diverging answer of the leader before is not obeyed"


def test_a_leader_refuses_a_fetch_of_another_leader_epoch() -> None:
    stage = Stage()
    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2, "lost")
    stage.move(3)
    stage.heed(2, 3)
    stage.fetch(2)
    assert stage.values(2) == []
    stage.move(1)
    stage.heed(3)
    stage.fetch(3)
    stage.fetch(3, "lost")

    assert stage.committed == [], "1 has not heard yet that it leads again, in a later epoch"
    assert stage.replica(1).leader_epoch < stage.replica(3).leader_epoch


def test_progress_of_an_earlier_leadership_does_not_count() -> None:
    stage = Stage()
    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2, "lost")
    stage.move(3)
    stage.heed(1, 2, 3)
    stage.fetch(2)
    assert stage.values(2) == []
    stage.move(1)
    stage.heed(1, 2, 3)
    stage.fetch(3)
    stage.fetch(3, "lost")

    assert stage.committed == [], "2 has not fetched in this epoch"


def test_the_high_watermark_of_a_diverging_answer_is_not_taken() -> None:
    stage = Stage()
    stage.produce(1)
    stage.produce(1)
    stage.move(2)
    stage.heed(2, 3)
    stage.produce(2)
    stage.produce(2)
    stage.fetch(3)
    stage.fetch(3)
    stage.propose_drop(2)
    stage.controller_reads(2)
    stage.heed(2, 3)
    stage.fetch(3)
    assert stage.committed == [1, 2]

    stage.heed(1)
    stage.fetch(1)

    assert stage.values(1) == []
    assert stage.replica(1).high_watermark == 0


def test_a_fetch_of_an_incarnation_before_the_machine_crash_makes_no_progress() -> None:
    stage = Stage(assigned=(1, 2), min_insync=2, brokers=3)
    stage.produce(1)
    stage.fetch(2)
    stage.send_late(2)
    stage.machine_crash(2)
    stage.session_over(2)
    stage.start(2)
    stage.join(2)
    stage.heed(1)
    stage.fetch(2, "lost")
    stage.late_fetch_arrives()
    stage.propose_add(1)
    stage.controller_reads(1)
    stage.heed(1, 2)

    assert stage.committed == []
    assert stage.values(2) == []


def test_nobody_is_admitted_below_the_start_of_the_leaders_epoch() -> None:
    stage = Stage()
    stage.shrink_to(1, 1, 2)
    stage.produce(1)
    stage.fetch(2)
    stage.fetch(2, "lost")
    assert stage.committed == [1]
    stage.move(2)
    stage.heed(2, 3)
    assert stage.replica(2).high_watermark == 0, "the new leader does not know that 1 is committed"

    stage.fetch(3, "lost")
    stage.propose_add(2)
    stage.controller_reads(2)

    assert 3 not in stage.row.isr
