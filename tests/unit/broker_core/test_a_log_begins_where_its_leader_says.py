"""The rules of the log start: who deletes, who follows, and when everybody has."""

from broker.core.replica import FetchPosition, Replica
from broker.core.replica_log import EpochEnd
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_core.stage import NOW, Log, fetch, leader_of, row


def _says(replica: Replica, follower: int, offset: int, start_offset: int) -> object:
    return replica.follower_fetches(follower, 1, 1, offset, 1, NOW, start_offset)


def test_the_low_watermark_is_the_lowest_start_of_all_live_replicas() -> None:
    replica, log = leader_of(records=10)
    log.start_offset = 5
    assert replica.low_watermark({1, 2, 3}) == -1, "nobody has said where it begins"
    _says(replica, 2, 10, 5)
    _says(replica, 3, 10, 2)
    assert replica.low_watermark({1, 2, 3}) == 2
    assert replica.low_watermark({1, 2}) == 5, "a dead one follows when it is back"
    _says(replica, 3, 10, 7)
    assert replica.low_watermark({1, 2, 3}) == 5


def test_a_follower_begins_later_as_its_leader_does() -> None:
    log = Log()
    log.append(1, 10)
    replica = Replica(2, log)
    replica.obey(row(), NOW)
    replica.followed(6)
    assert replica.start_to_follow(4) == 4
    assert replica.start_to_follow(8) == 8, "the leader has committed it, though it was not told so yet"
    assert replica.start_to_follow(11) == 10
    log.start_offset = 8
    replica.began_later()
    assert replica.high_watermark == 8
    log.start_offset = 5
    assert replica.start_to_follow(3) == 5, "its own retention went further"


def test_whoever_is_below_the_start_begins_again_there_whatever_its_epoch_was() -> None:
    replica, log = leader_of(records=10)
    log.start_offset = 5
    assert fetch(replica, 2, 4) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert replica.follower_fetches(2, 1, 1, 4, 0, NOW) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert replica.end_offset_of(2) == -1, "what it holds is deleted"
    assert fetch(replica, 2, 5) is None


def test_whoever_deleted_in_a_history_that_was_lost_begins_again_where_its_leader_does() -> None:
    log = Log()
    log.append(3, 60)
    log.start_offset = 50
    log.epochs.begin_at(50)
    replica = Replica(2, log)
    replica.obey(row(epoch=5, isr=(1,)), NOW)
    asked = FetchPosition(1, 5, 60, 3)
    assert replica.heed_diverging(asked, EpochEnd(2, 55)) == 50, "all that it has not deleted"
    assert replica.must_begin_again(50, leader_start_offset=0, after_loss=True)
    assert replica.must_begin_again(40, leader_start_offset=40, after_loss=False)
    assert not replica.must_begin_again(55, leader_start_offset=0, after_loss=True)
    assert not replica.must_begin_again(50, leader_start_offset=0, after_loss=False)

    replica.obey(row(epoch=5, isr=(1, 2), version=2), NOW)
    in_sync = replica.must_begin_again(50, leader_start_offset=0, after_loss=True)
    assert not in_sync, "its leader holds the same"
    assert replica.must_begin_again(50, leader_start_offset=50, after_loss=True)


def test_whoever_stands_where_a_forgotten_epoch_ended_lacks_nothing() -> None:
    replica, log = leader_of(first=row(epoch=3))
    log.append(1, 5)
    log.append(3, 5)
    log.start_offset = 5
    log.epochs.begin_at(5)
    assert log.end_of_epoch(1).epoch == -1
    assert replica.follower_fetches(2, 1, 3, 5, 1, NOW) is None
    assert replica.follower_fetches(2, 1, 3, 7, 1, NOW) == EpochEnd(1, 5)


def test_what_was_deleted_was_committed() -> None:
    log = Log()
    log.append(1, 10)
    log.start_offset = 6
    assert Replica(1, log, high_watermark=2).high_watermark == 6


def test_who_has_not_heard_where_the_log_begins_is_not_admitted() -> None:
    replica, log = leader_of(records=6, first=row(isr=(1, 2)))
    log.start_offset = 5
    _says(replica, 3, offset=6, start_offset=0)
    assert replica.propose(NOW, True, {1, 2, 3}, 1_000) is None, (
        "below 5 it may hold what was never committed"
    )
    _says(replica, 3, offset=6, start_offset=5)
    wish = replica.propose(NOW, True, {1, 2, 3}, 1_000)
    assert wish is not None and set(wish.isr) == {1, 2, 3}
