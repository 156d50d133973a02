"""Section 3, leaving: a drain, takeover or hang before its end is answered is no reason to go unheard."""

import pytest

from muster.client.core.directives import (
    Directive,
    Disconnect,
    EndFetchers,
    Left,
    Rediscover,
    Send,
)
from muster.client.core.session import MemberSession, Stage
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.member import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    LeaveRequest,
    LeaveResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherResponse,
    StopFetcherRequest,
    StopFetcherResponse,
)
from muster.messages.partitions import Partition, Position, by_topic, each_position
from tests.unit.client_core.test_a_member_obeys_its_coordinator import NOW, orders, registered, said, start

S = 10_000


def let_in_again(session: MemberSession, at: Instant = NOW) -> list[Directive]:
    """The next owner answers Register; what the member does on that."""
    (register,) = said(session.connected(at))
    assert isinstance(register, RegisterConsumerRequest) and register.token == session.wishes.token
    answer = RegisterConsumerResponse(correlation_id=register.correlation_id, known=True, generation=1)
    return session.hear(answer, at)


def leaves_at_last(session: MemberSession, commit: CommitOffsetsRequest) -> None:
    """The commit is answered, and then the farewell."""
    (leave,) = said(session.hear(CommitOffsetsResponse(correlation_id=commit.correlation_id), NOW))
    assert isinstance(leave, LeaveRequest)
    gone = session.hear(LeaveResponse(correlation_id=leave.correlation_id), NOW)
    assert gone[-1] == Left() and session.stage is Stage.OVER


def test_who_leaves_while_apart_commits_and_leaves_at_the_next_owner() -> None:
    session = registered(3)
    session.advance(orders(0), 7)
    session.disconnected(NOW)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    assert session.fetchers_ended(ending.answer, NOW) == []
    (commit,) = said(let_in_again(session))
    assert isinstance(commit, CommitOffsetsRequest)
    assert dict(each_position(commit.offset_info)) == {orders(0): Position(7, 1)}
    leaves_at_last(session, commit)


def test_whose_owner_goes_before_its_last_commit_is_answered_says_it_to_the_next_one() -> None:
    session = registered(3)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    (first,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(first, CommitOffsetsRequest)
    assert session.disconnected(NOW)[-1] == Rediscover(NOW)
    (again,) = said(let_in_again(session))
    assert isinstance(again, CommitOffsetsRequest) and again.offset_info == first.offset_info
    leaves_at_last(session, again)


def test_whose_owner_goes_before_its_farewell_is_answered_says_it_to_the_next_one() -> None:
    session = registered(3, auto_commit=False)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    (first,) = said(session.fetchers_ended(ending.answer, NOW))
    session.disconnected(NOW)
    (again,) = said(let_in_again(session))
    assert isinstance(first, LeaveRequest) and isinstance(again, LeaveRequest)
    assert session.hear(LeaveResponse(correlation_id=again.correlation_id), NOW)[-1] == Left()


def test_whose_record_is_still_in_hand_when_the_next_owner_lets_it_in_commits_behind_it() -> None:
    session = registered(3)
    (ending,) = session.leave(NOW)
    session.disconnected(NOW)
    assert let_in_again(session) == []
    assert isinstance(ending, EndFetchers) and ending.answer
    (commit,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(commit, CommitOffsetsRequest)
    leaves_at_last(session, commit)


def test_who_leaves_begins_nothing_that_the_next_owner_names() -> None:
    session = registered(3)
    session.leave(NOW)
    session.disconnected(NOW)
    let_in_again(session)
    (answer,) = session.hear(start(4, 0), NOW)
    assert isinstance(answer, Send) and isinstance(answer.message, StartFetcherResponse)


@pytest.mark.parametrize("refusal", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_last_commit_that_is_refused_for_now_is_said_to_the_next_owner(refusal: ErrorCode) -> None:
    session = registered(3)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    (first,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(first, CommitOffsetsRequest)
    refused = CommitOffsetsResponse(correlation_id=first.correlation_id, error_code=int(refusal))
    assert [type(one) for one in session.hear(refused, NOW)] == [Disconnect, Rediscover]
    (again,) = said(let_in_again(session))
    assert isinstance(again, CommitOffsetsRequest) and again.offset_info == first.offset_info
    leaves_at_last(session, again)


def test_who_finds_no_owner_within_a_session_has_left_unheard() -> None:
    session = registered(3)
    session.disconnected(NOW)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    session.fetchers_ended(ending.answer, NOW)
    assert session.look_again_at == after(NOW, S)
    assert session.tick(after(NOW, S - 1)) == []
    assert session.tick(after(NOW, S)) == [Left("no coordinator was reached")]


def test_who_has_failed_looks_for_nobody_to_leave() -> None:
    """Its token may be refused: it would look in vain, and whoever iterates waits for its end."""
    apart, leaving = registered(3), registered(3)
    apart.disconnected(NOW)
    leaving.leave(NOW)
    leaving.disconnected(NOW)
    for session in (apart, leaving):
        assert session.abandon(NOW)[-1] == Left("no coordinator was reached")
        assert session.stage is Stage.OVER


def test_who_is_refused_for_good_while_it_leaves_has_left() -> None:
    session = registered(3)
    session.leave(NOW)
    session.disconnected(NOW)
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    code = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = RegisterConsumerResponse(correlation_id=register.correlation_id, error_code=code)
    assert session.hear(refused, NOW)[-1] == Left("it was refused: GROUP_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NOT_PARTITION_OWNER])
def test_a_last_commit_that_was_answered_is_not_said_again_with_the_farewell(code: ErrorCode) -> None:
    """The first owner may have heard the farewell: what it took would be refused now, as another's."""
    session = registered(3)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    (commit,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(commit, CommitOffsetsRequest)
    answer = CommitOffsetsResponse(correlation_id=commit.correlation_id, error_code=int(code))
    session.hear(answer, NOW)
    session.disconnected(NOW)
    (leave,) = said(let_in_again(session))
    assert isinstance(leave, LeaveRequest)
    gone = session.hear(LeaveResponse(correlation_id=leave.correlation_id), NOW)
    assert gone[-1] == Left(f"its last commit was refused: {code.name}" if code else "")


def test_who_has_failed_and_loses_its_owner_looks_for_no_other_one() -> None:
    session = registered(3)
    session.abandon(NOW)
    assert session.disconnected(NOW)[-1] == Left("the connection went first")
    assert session.stage is Stage.OVER


def told_to_stop(session: MemberSession, generation: int, *partitions: Partition) -> list[Directive]:
    """What the member does when others are to have these."""
    request = StopFetcherRequest(
        consumer_id="", generation=generation, version=0, partitions=by_topic(partitions)
    )
    return session.hear(request, NOW)


def answer_of(directives: list[Directive]) -> int:
    """By which it is said that these fetchers have ended."""
    (ending,) = directives
    assert isinstance(ending, EndFetchers) and ending.answer is not None
    return ending.answer


def test_a_partition_whose_record_is_in_hand_goes_to_nobody_while_its_member_leaves() -> None:
    """Answered at once, a StopFetcher would give it away beside the handler, and the commit come too late."""
    session = registered(3)
    leaving = answer_of(session.leave(NOW))
    assert told_to_stop(session, 2, orders(0)) == []
    session.advance(orders(0), 7)
    (commit,) = said(session.fetchers_ended(leaving, NOW))
    assert isinstance(commit, CommitOffsetsRequest)
    assert dict(each_position(commit.offset_info))[orders(0)] == Position(7, 1)
    # All have ended, and their commit is said: now it may go.
    (stopped,) = said(session.fetchers_ended(answer_of(told_to_stop(session, 2, orders(0))), NOW))
    assert isinstance(stopped, StopFetcherResponse)
    leaves_at_last(session, commit)


def test_who_leaves_behind_a_stop_waits_for_the_record_in_hand_of_that() -> None:
    session = registered(3)
    stopping = answer_of(told_to_stop(session, 2, orders(0)))
    leaving = answer_of(session.leave(NOW))
    assert session.fetchers_ended(leaving, NOW) == []
    session.advance(orders(0), 7)
    stopped, *farewell = said(session.fetchers_ended(stopping, NOW))
    assert isinstance(stopped, StopFetcherResponse)
    assert dict(each_position(stopped.offset_info)) == {orders(0): Position(7, 1)}
    assert len(farewell) == 1, "the others' commit, or the farewell"
    assert orders(0) not in dict(each_position(getattr(farewell[0], "offset_info", ())))


def test_what_was_to_be_stopped_is_committed_at_the_next_owner_by_who_leaves() -> None:
    session = registered(3)
    stopping = answer_of(told_to_stop(session, 2, orders(0)))
    leaving = answer_of(session.leave(NOW))
    session.disconnected(NOW)
    session.advance(orders(0), 7)
    assert session.fetchers_ended(leaving, NOW) == []
    assert session.fetchers_ended(stopping, NOW) == []
    (commit,) = said(let_in_again(session))
    assert isinstance(commit, CommitOffsetsRequest)
    assert dict(each_position(commit.offset_info))[orders(0)] == Position(7, 1)
    leaves_at_last(session, commit)
