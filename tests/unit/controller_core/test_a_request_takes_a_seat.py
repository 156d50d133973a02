"""Who asks by a row of the database has a seat instead of a link: its answer is a record of the same turn."""

from uuid import UUID

from controller.core.events import Heard, RequestSeat
from controller.core.records import RequestAnswered, TopicCreated, TopicDeleted, TurnStamped
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import (
    CreateTopics,
    DeleteTopics,
    ListReassignments,
    NamedTopic,
    NewTopic,
    Wish,
)
from muster.messages.link.to_broker import CreateTopicsAnswer, OngoingReassignments, TopicResults
from tests.unit.controller_core.stage import ORDERS, Cluster, row

SEAT = RequestSeat("5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11", "mira", "more flights")
ROWS = [row(0, (1, 2, 3), 1, (1, 2, 3))]


def asked(wish: Wish, fresh: int = 20) -> Heard:
    return Heard(SEAT, wish, UUID(int=fresh))


def creation(*names: str) -> CreateTopics:
    topics = tuple(NewTopic(name=name, partition_count=6, replication_factor=3) for name in names)
    return CreateTopics(topics=topics, timeout_ms=60_000, principal="mira")


def test_a_topic_and_its_answer_are_one_turn() -> None:
    cluster = Cluster()
    decision = cluster.turn(asked(creation("flights")))
    (created,) = [one.row for one in decision.records if isinstance(one, TopicCreated)]
    answer = decision.records[-1]
    assert isinstance(answer, RequestAnswered)
    assert (answer.request_id, answer.principal, answer.reason) == (SEAT.id, "mira", "more flights")
    assert isinstance(answer.answer, CreateTopicsAnswer)
    (told,) = answer.answer.topics
    assert (told.name, told.topic_id, told.error) == ("flights", created.topic_id, ErrorCode.NONE)
    assert decision.replies == ()


def test_a_seat_waits_for_no_leaders() -> None:
    """The owner that would tell it may be another one by then."""
    cluster = Cluster()
    cluster.turn(asked(creation("flights")))
    assert cluster.state.memory.parked == []


def test_an_answer_alone_has_no_version_and_brokers_hear_nothing() -> None:
    cluster = Cluster(ROWS)
    before = cluster.state.rows.metadata_version
    decision = cluster.turn(asked(ListReassignments()))
    (answer,) = decision.records
    assert isinstance(answer, RequestAnswered) and isinstance(answer.answer, OngoingReassignments)
    assert decision.commands == ()
    assert cluster.state.rows.metadata_version == before


def test_a_link_and_a_seat_are_heard_in_one_turn() -> None:
    cluster = Cluster(ROWS)
    frame = DeleteTopics(correlation_id=4, topics=(NamedTopic(name="orders"),))
    decision = cluster.turn(Heard("link-1a", frame, UUID(int=1)), asked(creation("orders")))
    assert [type(one) for one in decision.records][:2] == [TurnStamped, TopicDeleted]
    (reply,) = decision.replies
    assert isinstance(reply.frame, TopicResults)  # type: ignore[union-attr]
    (answer,) = [one.answer for one in decision.records if isinstance(one, RequestAnswered)]
    assert isinstance(answer, CreateTopicsAnswer) and answer.topics[0].topic_id != ORDERS


def test_what_an_unbound_link_asks_is_still_not_read() -> None:
    cluster = Cluster()
    assert cluster.turn(Heard("nobody's link", creation("flights"), UUID(int=1))).records == ()
