"""This room shows a follower: what it asks, when it cuts its log, what it takes over (section 5)."""

from broker.core.leader_epochs import LeaderEpochs, offset_for_leader_epoch
from broker.core.replica import FetchPosition, Replica, Role
from broker.core.replica_log import EpochEnd
from tests.unit.broker_core.stage import NOW, Log, row


def follower(records: list[tuple[int, int]]) -> tuple[Replica, Log]:
    log = Log()
    for epoch, count in records:
        log.append(epoch, count)
    replica = Replica(2, log)
    replica.obey(row(leader=1, epoch=5), NOW)
    return replica, log


def test_it_asks_from_its_log_end_with_the_epoch_of_its_last_batch() -> None:
    replica, _ = follower([(1, 3), (4, 2)])
    assert replica.next_fetch() == FetchPosition(1, 5, 5, 4)
    replica.obey(row(leader=-1, epoch=6, version=2), NOW)
    assert replica.role is Role.OFFLINE and replica.next_fetch() is None


def test_it_cuts_to_the_smallest_of_the_three_ends() -> None:
    replica, _ = follower([(1, 3), (4, 2)])
    asked = FetchPosition(1, 5, 5, 4)
    assert replica.heed_diverging(asked, EpochEnd(3, 9)) == 3, "its own end of what it has up to epoch 3"
    assert replica.heed_diverging(asked, EpochEnd(1, 2)) == 2, "the leader's end"
    assert replica.heed_diverging(asked, EpochEnd(4, 9)) == 5, "its own log end"


def test_an_answer_to_what_it_does_not_ask_any_more_cuts_nothing() -> None:
    replica, _ = follower([(1, 3), (4, 2)])
    asked, parts = FetchPosition(1, 5, 5, 4), EpochEnd(1, 3)
    assert replica.heed_diverging(asked._replace(leader_epoch=4), parts) is None, "an earlier leader epoch"
    assert replica.heed_diverging(asked._replace(offset=4), parts) is None, "another log end"
    assert replica.heed_diverging(asked, parts) == 3
    replica.log = log = Log()
    log.append(1, 3)
    log.append(5, 2)
    assert replica.heed_diverging(asked, parts) is None, "as long as it was, and by now the leader's"


def test_it_appends_only_at_its_log_end_and_believes_the_smaller_high_watermark() -> None:
    replica, log = follower([(1, 3)])
    asked = FetchPosition(1, 5, 3, 1)
    assert not replica.accepts(asked._replace(offset=2))
    assert not replica.accepts(asked._replace(leader_epoch=4))
    assert replica.accepts(asked)
    log.append(5, 2)
    replica.followed(9)
    assert replica.high_watermark == 5
    replica.followed(4)
    assert replica.high_watermark == 5


def test_leader_epochs_know_their_ends_also_across_gaps_and_cuts() -> None:
    epochs = LeaderEpochs([(2, 0), (4, 10)])
    assert epochs.end_of_epoch(2, 15) == epochs.end_of_epoch(3, 15) == EpochEnd(2, 10)
    assert epochs.end_of_epoch(9, 15) == EpochEnd(4, 15)
    assert epochs.end_of_epoch(1, 15) == EpochEnd(-1, 0)
    epochs.truncate(10)
    assert epochs.last_epoch == 2 and epochs.entries == [(2, 0)]


def test_offset_for_leader_epoch_answers_as_kafka_does() -> None:
    epochs = LeaderEpochs([(2, 0), (4, 10)])
    assert offset_for_leader_epoch(epochs, -1, 6, 15) == EpochEnd(-1, -1)
    assert offset_for_leader_epoch(epochs, 7, 6, 15) == EpochEnd(-1, -1)
    assert offset_for_leader_epoch(epochs, 6, 6, 15) == EpochEnd(6, 15)
    assert offset_for_leader_epoch(epochs, 3, 6, 15) == EpochEnd(2, 10)
    assert offset_for_leader_epoch(epochs, 1, 6, 15) == EpochEnd(1, 0)
    assert offset_for_leader_epoch(epochs, -2, 6, 15) == EpochEnd(-2, 0), "only -1 is no epoch"
