"""A wish that the controller's node does not know would end the link: it is not sent, the client is told."""

import asyncio

import pytest

from broker.forwarding import Forwarding
from kafkaserver.admin.asking import ControllerUnreachable
from muster.messages.link.brokers import UnregisterBroker
from muster.messages.link.from_broker import CreateTopics, FromBroker
from muster.messages.link.protocol import LEAVES, WISHES
from muster.messages.link.to_broker import CreateTopicsAnswer


class Link:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[FromBroker] = []

    def send(self, frame: FromBroker) -> bool:
        self.sent.append(frame)
        return True


@pytest.mark.parametrize("protocol", [0, LEAVES])
async def test_an_older_node_never_hears_a_wish_that_is_new(protocol: int) -> None:
    link = Link()
    forwarding = Forwarding(link.send)
    forwarding.linked(protocol)
    forwarding.link_ready()
    with pytest.raises(ControllerUnreachable, match="upgrade it"):
        await forwarding.ask(UnregisterBroker(broker_id=3))
    assert link.sent == []
    asking = asyncio.create_task(forwarding.ask(CreateTopics(topics=(), timeout_ms=0)))
    while not link.sent:
        await asyncio.sleep(0)
    forwarding.hear(CreateTopicsAnswer(correlation_id=link.sent[0].correlation_id, topics=()))  # type: ignore[union-attr]
    assert isinstance(await asking, CreateTopicsAnswer)


async def test_one_of_this_version_hears_all() -> None:
    link = Link()
    forwarding = Forwarding(link.send)
    forwarding.linked(WISHES)
    forwarding.link_ready()
    asking = asyncio.create_task(forwarding.ask(UnregisterBroker(broker_id=3)))
    while not link.sent:
        await asyncio.sleep(0)
    asking.cancel()
