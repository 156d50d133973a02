"""A turn that was asked for says by whom, why, and through which door, however the wish came."""

from uuid import UUID

from controller.core.events import Heard, RequestSeat
from controller.core.records import TurnStamped
from controller.journalling import entry
from controller.links import BrokerLink
from muster.messages.link.from_broker import AllocateProducerIds, DeleteTopics, NamedTopic, Wish
from muster.messages.link.plans import PausePlan

FRESH = UUID(int=1)
NOTHING = (NamedTopic(name="nothing"),)


def asked(link: object, wish: Wish) -> list[dict[str, str]]:
    told: list[dict[str, str]] = entry([Heard(link, wish, FRESH)], [TurnStamped(7)]).summary["asked"]
    return told


def test_a_row_says_who_stored_it_and_why() -> None:
    seat = RequestSeat("a-request", "mira", "it is not read any more")
    assert asked(seat, DeleteTopics(topics=NOTHING, principal="mira")) == [
        {"what": "DeleteTopics", "by": "mira", "why": "it is not read any more", "request": "a-request"}
    ]


def test_a_kafka_client_is_told_with_the_broker_that_it_asked() -> None:
    link = BrokerLink(3, "127.0.0.1:1")
    assert asked(link, DeleteTopics(topics=NOTHING, principal="olga")) == [
        {"what": "DeleteTopics", "by": "olga", "why": "asked by a Kafka client", "through": "broker 3"}
    ]
    (nobody,) = asked(link, DeleteTopics(topics=NOTHING))
    assert nobody["by"] == "ANONYMOUS"


def test_a_wish_that_states_its_reason_keeps_it() -> None:
    wish = PausePlan(plan_id=FRESH, principal="olga", reason="producers are slow")
    (told,) = asked(BrokerLink(3, "127.0.0.1:1"), wish)
    assert (told["by"], told["why"], told["through"]) == ("olga", "producers are slow", "broker 3")


def test_what_a_broker_needs_for_itself_was_asked_by_nobody() -> None:
    told = entry([Heard(BrokerLink(3, ""), AllocateProducerIds(), FRESH)], [TurnStamped(7)])
    assert "asked" not in told.summary and told.cause == "a broker needs producer ids"
