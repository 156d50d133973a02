"""Section 3: what a member does on each frame, and what it says."""

from uuid import UUID

from muster.client.core.directives import (
    CommitAnswered,
    CommitLost,
    Directive,
    Disconnect,
    EndFetchers,
    Left,
    Rediscover,
    Refused,
    Send,
    StartFetchers,
)
from muster.client.core.session import RETRY_MS, MemberSession, Stage
from muster.client.core.wishes import Wishes
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.member import (
    AssignedPartition,
    AssignedTopic,
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    FromMember,
    LeaveRequest,
    LeaveResponse,
    NodeInfo,
    PartitionError,
    PingRequest,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherRequest,
    StopFetcherResponse,
    ThreadOwnership,
    TopicCount,
    TopicErrors,
    TopicPartitions,
)
from muster.messages.partitions import Partition, Position, each_position

ORDERS = UUID(int=1)
NOW = Instant(1_000)


def orders(number: int) -> Partition:
    return Partition("orders", ORDERS, number)


def ann(**wishes: object) -> MemberSession:
    wishes = {"session_timeout_ms": 10_000, **wishes}
    return MemberSession(Wishes("readers", "ann", "t" * 43, (TopicCount("orders"),), **wishes))  # type: ignore[arg-type]


def start(version: int, *offsets: int, generation: int = 1) -> StartFetcherRequest:
    parts = tuple(AssignedPartition(number, offset) for number, offset in enumerate(offsets))
    topics = (AssignedTopic("orders", ORDERS, parts),) if parts else ()
    return StartFetcherRequest(
        consumer_id="ann",
        generation=generation,
        version=version,
        ownership_info=(ThreadOwnership("ann-0", topics),),
    )


def stop(version: int, *numbers: int) -> StopFetcherRequest:
    return StopFetcherRequest(
        consumer_id="ann",
        generation=1,
        version=version,
        partitions=(TopicPartitions("orders", ORDERS, numbers),),
    )


def said(directives: list[Directive]) -> list[FromMember]:
    return [directive.message for directive in directives if isinstance(directive, Send)]


def registered(*offsets: int, **wishes: object) -> MemberSession:
    session = ann(**wishes)
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    session.hear(RegisterConsumerResponse(correlation_id=register.correlation_id), NOW)
    session.hear(start(1, *offsets), NOW)
    for number, offset in enumerate(offsets):
        session.advance(orders(number), offset)
    return session


def test_start_fetcher_starts_the_difference_and_is_always_answered() -> None:
    session = registered(3)
    started, answered = session.hear(start(2, 3, 8), NOW)
    assert started == StartFetchers({orders(1): 8})
    assert answered == Send(StartFetcherResponse(consumer_id="ann", generation=1, version=2))
    assert [type(each) for each in session.hear(start(2, 3, 8), NOW)] == [Send]


def test_what_start_fetcher_does_not_name_ends() -> None:
    session = registered(3, 4)
    assert session.hear(start(2), NOW)[0] == EndFetchers(frozenset({orders(0), orders(1)}))
    assert session.fetching == {}


def test_stop_fetcher_is_answered_when_the_fetchers_have_ended() -> None:
    session = registered(3, 4)
    (ending,) = session.hear(stop(2, 1), NOW)
    assert isinstance(ending, EndFetchers) and ending.partitions == {orders(1)} and ending.answer
    session.advance(orders(1), 6)
    (answer,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(answer, StopFetcherResponse) and (answer.generation, answer.version) == (1, 2)
    assert list(each_position(answer.offset_info)) == [(orders(1), Position(6, 1))]


def test_a_stop_of_what_is_not_fetched_is_answered_too() -> None:
    session = registered(3)
    (ending,) = session.hear(stop(2, 5), NOW)
    assert isinstance(ending, EndFetchers) and ending.partitions == frozenset() and ending.answer
    (answer,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(answer, StopFetcherResponse) and answer.offset_info == ()


def test_a_fetcher_that_was_told_to_end_when_the_connection_broke_starts_again_when_named() -> None:
    session = registered(3)
    (ending,) = session.hear(stop(2, 0), NOW)
    session.disconnected(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    assert session.fetchers_ended(ending.answer, NOW) == []
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    session.hear(RegisterConsumerResponse(correlation_id=register.correlation_id, known=True), NOW)
    assert session.hear(start(3, 9), NOW)[0] == StartFetchers({orders(0): 9})


def test_a_ping_is_answered_with_what_is_fetched() -> None:
    session = registered(3, 4)
    nodes = (NodeInfo(10_001, "ws://127.0.0.1:9301"),)
    (answer,) = said(session.hear(PingRequest(consumer_id="ann", number=1, nodes=nodes), NOW))
    assert isinstance(answer, PingResponse) and answer.number == 1
    assert dict(each_position(answer.offset_info)) == {orders(0): Position(3, 1), orders(1): Position(4, 1)}
    assert session.nodes == nodes


def test_without_auto_commit_no_position_is_told() -> None:
    session = registered(3, auto_commit=False)
    (answer,) = said(session.hear(PingRequest(consumer_id="ann", number=1), NOW))
    assert isinstance(answer, PingResponse)
    assert dict(each_position(answer.offset_info)) == {orders(0): Position(-1, 1)}


def test_a_frame_with_an_old_key_ends_the_connection() -> None:
    session = registered(3)
    assert [type(each) for each in session.hear(start(0, 3), NOW)] == [Disconnect, Rediscover]
    assert session.fetching


def test_after_hanging_up_nothing_of_the_old_connection_is_read() -> None:
    session = registered(3)
    session.disconnected(NOW)
    assert session.hear(start(5), NOW) == []
    assert session.fetching


def test_a_new_member_starts_with_nothing() -> None:
    session = registered(3)
    session.disconnected(NOW)
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    ended = session.hear(RegisterConsumerResponse(correlation_id=register.correlation_id), NOW)
    assert ended == [EndFetchers(frozenset({orders(0)}))]


def test_a_duplicate_id_is_tried_again_later() -> None:
    session = ann()
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    refusal = RegisterConsumerResponse(
        correlation_id=register.correlation_id, error_code=ErrorCode.DUPLICATE_CONSUMER_ID
    )
    assert session.hear(refusal, NOW) == [Disconnect(""), Rediscover(Instant(NOW + RETRY_MS))]


def test_another_node_is_tried_at_once() -> None:
    session = ann()
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    refusal = RegisterConsumerResponse(
        correlation_id=register.correlation_id,
        error_code=ErrorCode.NOT_COORDINATOR,
        coordinator_address="ws://b",
    )
    assert session.hear(refusal, NOW)[-1] == Rediscover(NOW, "ws://b")


def test_a_wrong_wish_is_reported_and_not_tried_again() -> None:
    session = ann()
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    refusal = RegisterConsumerResponse(
        correlation_id=register.correlation_id, error_code=ErrorCode.INVALID_SESSION_TIMEOUT, error_text="6 s"
    )
    assert session.hear(refusal, NOW)[-1] == Refused(ErrorCode.INVALID_SESSION_TIMEOUT, "6 s")
    assert session.stage is Stage.OVER


def test_commits_state_the_generation_they_were_fetched_under() -> None:
    session = registered(3)
    session.hear(start(2, 3, generation=4), NOW)
    number, directives = session.commit({orders(0): session.fetching[orders(0)]})
    (request,) = said(directives)
    assert isinstance(request, CommitOffsetsRequest)
    assert dict(each_position(request.offset_info)) == {orders(0): Position(3, 1)}
    refused = (TopicErrors("orders", ORDERS, (PartitionError(0, int(ErrorCode.NOT_PARTITION_OWNER)),)),)
    assert session.hear(CommitOffsetsResponse(correlation_id=number, refused=refused), NOW) == [
        CommitAnswered(number, ErrorCode.NONE, {orders(0): ErrorCode.NOT_PARTITION_OWNER})
    ]


def test_a_commit_without_an_answer_is_reported_as_lost() -> None:
    session = registered(3)
    number, _ = session.commit({orders(0): Position(3, 1)})
    assert CommitLost((number,)) in session.disconnected(NOW)
    assert session.commit({orders(0): Position(3, 1)}) == (0, [])


def test_leaving_ends_fetchers_commits_then_leaves() -> None:
    session = registered(3)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    (commit,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(commit, CommitOffsetsRequest)
    (leave,) = said(session.hear(CommitOffsetsResponse(correlation_id=commit.correlation_id), NOW))
    assert isinstance(leave, LeaveRequest)
    gone = session.hear(LeaveResponse(correlation_id=leave.correlation_id), NOW)
    assert [type(each) for each in gone] == [Disconnect, Left]


def test_who_is_asked_to_leave_twice_leaves_once() -> None:
    """One task closes the consumer, and another ends the block that holds it."""
    session = registered(3)
    (ending,) = session.leave(NOW)
    assert session.leave(NOW) == []
    assert isinstance(ending, EndFetchers) and ending.answer is not None
    (commit,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(commit, CommitOffsetsRequest)


def test_a_record_in_hand_can_be_committed_while_leaving() -> None:
    session = registered(3)
    (ending,) = session.leave(NOW)
    number, (commit,) = session.commit({orders(0): Position(3, 1)})
    assert isinstance(commit, Send) and isinstance(commit.message, CommitOffsetsRequest)
    (answered,) = session.hear(CommitOffsetsResponse(correlation_id=number), NOW)
    assert isinstance(answered, CommitAnswered) and answered.correlation_id == number
    assert isinstance(ending, EndFetchers) and ending.answer is not None
    (last,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(last, CommitOffsetsRequest) and last.correlation_id != number


def test_who_was_never_let_in_leaves_nothing_unheard() -> None:
    session = ann()
    session.connected(NOW)
    assert session.leave(NOW)[-1] == Left()


def test_a_farewell_that_nobody_answers_is_told() -> None:
    """The application hears of it: its records come again, and others wait for its session."""
    lost, silent = registered(3), registered(3)
    for session in (lost, silent):
        session.leave(NOW)
    lost.disconnected(NOW)
    assert lost.tick(lost.look_again_at or NOW)[-1] == Left("the connection went first")
    assert silent.tick(silent.look_again_at or NOW)[-1] == Left("the coordinator is silent")


def test_a_last_commit_that_is_refused_is_told() -> None:
    session = registered(3)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    (commit,) = said(session.fetchers_ended(ending.answer, NOW))
    assert isinstance(commit, CommitOffsetsRequest)
    error = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = CommitOffsetsResponse(correlation_id=commit.correlation_id, error_code=error)
    (leave,) = said(session.hear(refused, NOW))
    assert isinstance(leave, LeaveRequest)
    gone = session.hear(LeaveResponse(correlation_id=leave.correlation_id), NOW)
    assert gone[-1] == Left("its last commit was refused: GROUP_AUTHORIZATION_FAILED")


def test_out_of_range_registers_again_and_resets_the_offset() -> None:
    session = registered(3, 4)
    asked = session.out_of_range(orders(1), NOW)
    assert [type(each) for each in asked] == [EndFetchers, Disconnect, Rediscover]
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    session.hear(RegisterConsumerResponse(correlation_id=register.correlation_id, known=True), NOW)
    assert session.hear(start(2, 3, 4), NOW)[0] == StartFetchers({orders(0): 3, orders(1): -1})


def again(session: MemberSession) -> None:
    """It comes back, and is known."""
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    session.hear(RegisterConsumerResponse(correlation_id=register.correlation_id, known=True), NOW)


def test_what_was_out_of_range_stays_so_until_something_else_is_committed() -> None:
    session = registered(30, 40)
    session.out_of_range(orders(0), NOW)
    again(session)
    assert session.hear(start(2, 30, 40), NOW)[0] == StartFetchers({orders(0): -1, orders(1): 40})
    session.out_of_range(orders(1), NOW)
    again(session)
    assert session.hear(start(3, 30, 40), NOW)[0] == StartFetchers({orders(0): -1, orders(1): -1})
    session.out_of_range(orders(1), NOW)
    again(session)
    assert session.hear(start(4, 5, 40), NOW)[0] == StartFetchers({orders(0): 5, orders(1): -1})


def reset(*offsets: int, **wishes: object) -> MemberSession:
    """Its first partition was out of range, and follows auto_offset_reset."""
    session = registered(*offsets, **wishes)
    session.out_of_range(orders(0), NOW)
    again(session)
    assert session.hear(start(2, *offsets), NOW)[0] == StartFetchers(
        {orders(number): offset if number else -1 for number, offset in enumerate(offsets)}
    )
    return session


def test_what_was_out_of_range_counts_when_the_log_has_grown_to_it_and_the_consumer_with_it() -> None:
    """Else it would begin at the end, and pass over what came meanwhile; or read everything again."""
    session = reset(30, 40)
    session.advance(orders(0), 29)
    session.advance(orders(0), 30)
    session.out_of_range(orders(1), NOW)
    again(session)
    assert session.hear(start(3, 30, 40), NOW)[0] == StartFetchers({orders(0): 30, orders(1): -1})


def test_what_was_out_of_range_counts_when_the_application_commits_it() -> None:
    session = reset(30, 40, auto_commit=False)
    session.commit({orders(0): Position(30, 1)})
    session.out_of_range(orders(1), NOW)
    again(session)
    assert session.hear(start(3, 30, 40), NOW)[0] == StartFetchers({orders(0): 30, orders(1): -1})


def test_what_was_out_of_range_counts_when_another_may_have_committed_it() -> None:
    for taken in (start(5), stop(5, 0)):
        session = reset(30)
        session.hear(taken, NOW)
        assert session.hear(start(6, 30, generation=3), NOW)[0] == StartFetchers({orders(0): 30})


def test_what_was_out_of_range_counts_when_the_session_was_over_meanwhile() -> None:
    session = reset(30)
    session.tick(LATE := Instant(NOW + 10_000))
    (register,) = said(session.connected(LATE))
    assert isinstance(register, RegisterConsumerRequest)
    session.hear(RegisterConsumerResponse(correlation_id=register.correlation_id), LATE)
    assert session.hear(start(3, 30, generation=9), LATE)[0] == StartFetchers({orders(0): 30})


def test_what_was_found_out_of_range_counts_where_another_has_it_before_the_member_is_back() -> None:
    session = registered(30, 40)
    session.out_of_range(orders(1), NOW)
    again(session)
    session.hear(start(2, 30), NOW)
    assert session.hear(start(3, 30, 70, generation=3), NOW)[0] == StartFetchers({orders(1): 70})


def test_another_subscription_registers_again_with_the_same_token() -> None:
    session = registered(3)
    assert [type(each) for each in session.subscribe((TopicCount("clicks"),), NOW)] == [
        Disconnect,
        Rediscover,
    ]
    (register,) = said(session.connected(NOW))
    assert isinstance(register, RegisterConsumerRequest)
    assert register.token == "t" * 43 and register.topic_count == (TopicCount("clicks"),)
