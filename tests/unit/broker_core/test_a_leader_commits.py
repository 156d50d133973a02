"""This room shows when the high watermark rises (replication.md section 4), and what is told of it."""

from hypothesis import given
from hypothesis import strategies as st

from broker.core.replica import Obeyed, Role
from broker.core.replica_log import EpochEnd
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from tests.unit.broker_core.stage import NOW, Log, fetch, leader_of, row


def test_a_record_is_committed_when_every_member_of_the_isr_has_fetched_behind_it() -> None:
    replica, _ = leader_of(records=2)
    assert fetch(replica, 2, 2) is None
    assert replica.high_watermark == 0
    assert fetch(replica, 3, 1) is None
    assert replica.high_watermark == 1


def test_the_only_member_commits_at_once() -> None:
    replica, log = leader_of(first=row(isr=(1,)))
    log.append(1)
    replica.appended()
    assert replica.high_watermark == 1


def test_nothing_is_committed_while_the_isr_is_smaller_than_min_insync() -> None:
    replica, _ = leader_of(records=1, min_insync=2, first=row(isr=(1,)))
    assert replica.high_watermark == 0
    replica.obey(row(isr=(1, 2), version=2), NOW)
    fetch(replica, 2, 1)
    assert replica.high_watermark == 1


def test_a_proposed_member_counts_before_it_is_accepted_and_a_dropped_one_until_then() -> None:
    replica, log = leader_of(first=row(isr=(1, 2)))
    fetch(replica, 3, 0)
    assert replica.may_grow
    assert replica.propose(NOW, True, {1, 2, 3}, 30_000) is not None
    log.append(1)
    fetch(replica, 2, 1)
    assert replica.high_watermark == 0, "3 may be a member by now"
    fetch(replica, 3, 1)
    assert replica.high_watermark == 1

    log.append(1)
    replica.obey(row(isr=(1, 2, 3), version=2), NOW)
    fetch(replica, 2, 2)
    late = Instant(NOW + 40_000)
    proposal = replica.propose(late, True, {1, 2, 3}, 30_000)
    assert proposal is not None and proposal.isr == (1, 2)
    assert replica.high_watermark == 1, "3 is a member until the controller says otherwise"
    replica.hear_answer(2, row(isr=(1, 2), version=3), late)
    assert replica.high_watermark == 2


def test_a_new_leader_does_not_tell_an_end_offset_that_could_go_back() -> None:
    log = Log()
    log.append(1, 5)
    replica, _ = leader_of()
    replica.log = log
    replica.obey(row(leader=2, epoch=2, version=2), NOW)
    replica.obey(row(leader=1, epoch=3, version=3), NOW)
    assert replica.epoch_start_offset == 5
    assert replica.latest_offset() is None
    for follower in (2, 3):
        replica.follower_fetches(follower, 1, 3, 5, 1, NOW)
    assert replica.latest_offset() == 5


def test_requests_of_other_epochs_and_strangers_are_refused() -> None:
    replica, _ = leader_of(first=row(epoch=4))
    assert replica.refusal(3) is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.refusal(5) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert replica.refusal(4) is replica.refusal() is ErrorCode.NONE
    assert fetch(replica, 9, 0, epoch=4) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(replica, 2, 0, epoch=4, broker_epoch=2) is None
    assert fetch(replica, 2, 0, epoch=4, broker_epoch=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.obey(row(leader=2, epoch=5, version=2), NOW)
    assert replica.refusal() is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_diverging_follower_makes_no_progress() -> None:
    replica, _ = leader_of(records=3)
    assert replica.follower_fetches(2, 1, 1, 5, 1, NOW) == EpochEnd(1, 3)
    assert replica.end_offset_of(2) == -1
    assert replica.follower_fetches(2, 1, 1, 2, 0, NOW) == EpochEnd(0, 0)


def test_older_rows_are_ignored_and_a_row_of_the_same_epoch_keeps_progress() -> None:
    replica, _ = leader_of(records=1, first=row(version=5))
    fetch(replica, 2, 1)
    assert replica.obey(row(leader=2, epoch=9, version=4), NOW) is Obeyed.IGNORED
    assert replica.obey(row(isr=(1, 2), version=6), NOW) is Obeyed.SAME_LEADER
    assert replica.high_watermark == 1
    assert replica.obey(row(assigned=(2, 3), leader=2, epoch=2, isr=(2, 3), version=7), NOW) is Obeyed.STOPPED
    assert replica.role is Role.STOPPED


def test_acks_all_counts_only_members_that_are_there() -> None:
    replica, log = leader_of(min_insync=2, first=row(isr=(1, 2)))
    assert replica.enough_in_sync({1, 2}, NOW, 30_000)
    assert not replica.enough_in_sync({1}, NOW, 30_000), "the floor keeps 2, but it has no session"
    log.append(1)
    late = Instant(NOW + 30_001)
    assert not replica.enough_in_sync({1, 2}, late, 30_000)
    fetch(replica, 2, 1, now=late)
    assert replica.enough_in_sync({1, 2}, late, 30_000)


@given(st.lists(st.tuples(st.sampled_from([0, 2, 3]), st.integers(1, 3)), max_size=40))
def test_the_high_watermark_is_the_lowest_end_of_the_isr_and_never_falls(
    steps: list[tuple[int, int]],
) -> None:
    replica, log = leader_of()
    ends = {2: 0, 3: 0}
    for who, count in steps:
        before = replica.high_watermark
        if who == 0:
            log.append(1, count)
            replica.appended()
        else:
            ends[who] = min(ends[who] + count, log.end_offset)
            assert fetch(replica, who, ends[who]) is None
        assert before <= replica.high_watermark == min(log.end_offset, *ends.values())
