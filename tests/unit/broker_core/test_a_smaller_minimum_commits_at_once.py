"""This room shows what becomes of records that wait when min.insync.replicas is another than before."""

from broker.core.replica import Replica
from tests.unit.broker_core.stage import NOW, Log, leader_of, row


def test_what_waited_for_more_members_is_committed_when_fewer_are_enough() -> None:
    replica, _ = leader_of(records=5, min_insync=2, first=row(isr=(1,)))
    assert replica.high_watermark == 0
    replica.require(1)
    assert replica.high_watermark == 5


def test_a_larger_minimum_takes_nothing_back_and_lets_nothing_more_through() -> None:
    replica, log = leader_of(records=5, first=row(isr=(1,)))
    replica.require(2)
    log.append(1, 3)
    replica.appended()
    assert replica.high_watermark == 5


def test_a_follower_commits_nothing_by_it() -> None:
    log = Log()
    log.append(1, 5)
    replica = Replica(2, log, min_insync_replicas=2)
    replica.obey(row(), NOW)
    replica.require(1)
    assert replica.high_watermark == 0
