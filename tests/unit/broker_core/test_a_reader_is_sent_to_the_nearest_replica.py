"""A consumer is sent to a follower on its rack that is in sync and holds what it wants, and served there."""

import pytest

from broker.core import nearest_replica
from broker.core.nearest_replica import (
    READ_ELSEWHERE_MS,
    is_read_at,
    may_serve,
    nearest_follower,
    sent_to,
)
from broker.core.replica import Replica
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from tests.unit.broker_core.stage import NOW, Log, fetch, leader_of, row

LAG_MS = 30_000
BOTH = (2, 3)
OK, ELSEWHERE, UNKNOWN = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE


def nearest(replica: Replica, offset: int, nearby: tuple[int, ...] = BOTH, now: Instant = NOW) -> int | None:
    return nearest_follower(replica, nearby, offset, now, LAG_MS)


def refusal(replica: Replica, offset: int) -> ErrorCode:
    return nearest_replica.refusal_at_follower(replica, offset)


def follower(isr: tuple[int, ...] = (1, 2), records: int = 5) -> Replica:
    log = Log()
    replica = Replica(2, log)
    replica.obey(row(isr=isr), NOW)
    log.append(1, records)
    return replica


def test_of_those_nearby_the_one_that_holds_most_is_preferred() -> None:
    leader, _ = leader_of(records=5)
    fetch(leader, 2, 3)
    fetch(leader, 3, 4)
    assert (nearest(leader, 3), nearest(leader, 3, (2,))) == (3, 2)


def test_nobody_is_sent_where_what_he_wants_is_not_yet_or_no_more() -> None:
    leader, _ = leader_of(records=5)
    assert nearest(leader, 0) is None
    leader.follower_fetches(2, 1, 1, 3, 1, NOW, start_offset=2)
    assert [nearest(leader, offset) for offset in range(5)] == [None, None, 2, 2, None]


def test_who_is_out_of_sync_or_about_to_be_is_not_preferred() -> None:
    leader, _ = leader_of(records=5, first=row(isr=(1, 2)))
    for b in BOTH:
        fetch(leader, b, 5)
    assert (nearest(leader, 0), nearest(leader, 0, (3,))) == (2, None)
    late = after(NOW, LAG_MS + 1)
    leader.log.append(1)  # type: ignore[attr-defined]
    assert nearest(leader, 0, now=late) is None
    proposal = leader.propose(late, True, {1, 2}, LAG_MS)
    assert proposal is not None
    assert proposal.isr == (1,)
    assert nearest(leader, 0) is None


def test_who_holds_no_replica_is_not_preferred() -> None:
    leader, _ = leader_of(records=1)
    assert nearest(leader, 0, (7,)) is None


@pytest.mark.parametrize(("offset", "answer"), [(0, OK), (5, OK), (6, UNKNOWN)])
def test_a_follower_serves_what_it_holds_and_leaves_the_rest_to_its_leader(
    offset: int, answer: ErrorCode
) -> None:
    assert refusal(follower(), offset) is answer


def test_what_a_follower_has_deleted_its_leader_may_still_have() -> None:
    replica = follower()
    replica.log.start_offset = 2  # type: ignore[misc]
    assert (refusal(replica, 1), refusal(replica, 2)) == (UNKNOWN, OK)


def test_who_is_out_of_sync_or_has_no_leader_sends_readers_back() -> None:
    replica = follower(isr=(1,))
    assert not may_serve(replica)
    assert refusal(replica, 0) is ELSEWHERE
    orphan = follower()
    orphan.obey(row(leader=-1, epoch=2, isr=(1, 2), version=2), NOW)
    assert refusal(orphan, 0) is ELSEWHERE


def test_a_follower_hears_of_commits_at_once_for_a_while_after_a_reader_was_sent_there() -> None:
    leader, _ = leader_of(records=1)
    assert not is_read_at(leader, 2, NOW)
    sent_to(leader, 2, NOW)
    assert (is_read_at(leader, 2, NOW), is_read_at(leader, 3, NOW)) == (True, False)
    assert not is_read_at(leader, 2, after(NOW, READ_ELSEWHERE_MS))
    leader.obey(row(epoch=2, version=2), NOW)
    assert not is_read_at(leader, 2, NOW)
