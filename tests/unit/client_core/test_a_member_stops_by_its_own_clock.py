"""Section 5: the deadline is S after the sending of the last answer that is known to have been received."""

from muster.client.core.directives import Disconnect, EndFetchers, Left, Rediscover, Send
from muster.client.core.session import MemberSession, Stage
from muster.kernel.instants import Instant, after
from muster.messages.member import PingRequest, RegisterConsumerRequest, RegisterConsumerResponse
from tests.unit.client_core.test_a_member_obeys_its_coordinator import NOW, orders, registered, start

S = 10_000


def ping(session: MemberSession, number: int, now: Instant) -> None:
    session.hear(PingRequest(consumer_id="ann", number=number), now)


def test_register_counts_from_its_sending() -> None:
    session = registered(3)
    assert session.deadline == after(NOW, S)


def test_the_first_ping_proves_nothing() -> None:
    session = registered(3)
    ping(session, 1, after(NOW, 3_000))
    assert session.deadline == after(NOW, S)


def test_the_next_ping_proves_the_answer_before() -> None:
    session = registered(3)
    ping(session, 1, after(NOW, 3_000))
    ping(session, 2, after(NOW, 6_500))
    assert session.deadline == after(NOW, 3_000 + S)


def test_a_ping_that_is_repeated_counts_from_the_first_answer() -> None:
    session = registered(3)
    ping(session, 1, after(NOW, 3_000))
    ping(session, 1, after(NOW, 9_000))
    ping(session, 2, after(NOW, 9_500))
    assert session.deadline == after(NOW, 3_000 + S)


def test_commands_prove_nothing() -> None:
    session = registered(3)
    session.hear(start(2, 3), after(NOW, 5_000))
    assert session.deadline == after(NOW, S)


def test_at_the_deadline_fetchers_end_and_the_connection_too() -> None:
    session = registered(3)
    late = after(NOW, S)
    assert session.may_fetch(Instant(late - 1)) and not session.may_fetch(late)
    assert session.look_again_at == late
    asked = session.tick(late)
    assert asked[0] == EndFetchers(frozenset({orders(0)}))
    assert [type(each) for each in asked[1:]] == [Disconnect, Rediscover]
    assert session.stage is Stage.APART


def test_a_frame_after_the_deadline_is_not_obeyed() -> None:
    session = registered(3)
    asked = session.hear(start(2, 3, 4), after(NOW, S))
    assert not any(isinstance(each, Send) for each in asked)
    assert session.fetching == {}


def test_a_broken_connection_leaves_fetchers_running_until_the_deadline() -> None:
    session = registered(3)
    assert session.disconnected(after(NOW, 10)) == [Rediscover(after(NOW, 10))]
    assert session.tick(after(NOW, S - 1)) == [] and session.fetching
    assert session.tick(after(NOW, S))[0] == EndFetchers(frozenset({orders(0)}))


def test_an_answer_to_register_that_comes_too_late_is_not_obeyed() -> None:
    session = registered(3)
    session.disconnected(NOW)
    (sent,) = session.connected(after(NOW, S - 100))
    assert isinstance(sent, Send) and isinstance(sent.message, RegisterConsumerRequest)
    answer = RegisterConsumerResponse(correlation_id=sent.message.correlation_id, known=True)
    asked = session.hear(answer, after(NOW, S))
    assert [type(each) for each in asked] == [EndFetchers, Disconnect, Rediscover]


def test_register_unanswered_for_a_third_hangs_up() -> None:
    session = registered(3)
    session.disconnected(NOW)
    session.connected(NOW)
    assert session.tick(after(NOW, S // 3 - 1)) == []
    assert [type(each) for each in session.tick(after(NOW, S // 3))] == [Disconnect, Rediscover]


def test_a_member_that_connects_after_its_deadline_ends_first() -> None:
    session = registered(3)
    session.disconnected(NOW)
    asked = session.connected(after(NOW, S))
    assert [type(each) for each in asked] == [EndFetchers, Send]


def test_a_farewell_that_nobody_answers_ends_with_a_session_though_pings_go_on() -> None:
    session = registered(3)
    (ending,) = session.leave(NOW)
    assert isinstance(ending, EndFetchers) and ending.answer
    session.fetchers_ended(ending.answer, NOW)
    for number in (1, 2, 3, 4):
        ping(session, number, after(NOW, 3_000 * number - 1_000))
    assert session.look_again_at == after(NOW, S)
    assert session.tick(after(NOW, S - 1)) == []
    assert [type(each) for each in session.tick(after(NOW, S))] == [Disconnect, Left]
    assert session.stage is Stage.OVER
