"""Rights are looked at when they are used: who stands and may no more is hung up on with the news (S38)."""

import pytest

from muster.client.broker_connection import BrokerUnavailable
from muster.messages.link.callers import CallerRow
from tests.unit.kafkaserver.test_callers_are_believed_for_a_time import VERSIONS, Door
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import row


@pytest.mark.parametrize("now", [(), (row(topics=("orders",)),)], ids=["taken back", "narrowed"])
async def test_whoever_may_no_more_what_it_might_is_hung_up_on(now: tuple[CallerRow, ...]) -> None:
    door = Door()
    standing = await door.come_in()
    door.guard.know(now, door.server)
    with pytest.raises(BrokerUnavailable):
        await standing.ask(VERSIONS, timeout_s=5)
    await door.server.drain(grace_ms=0)


async def test_whoever_may_what_it_might_stays() -> None:
    door = Door()
    standing = await door.come_in()
    door.guard.know((row(), row(name="other", prefix="ffffffff")), door.server)
    await standing.ask(VERSIONS, timeout_s=5)
    standing.close()
    await door.server.drain(grace_ms=0)
