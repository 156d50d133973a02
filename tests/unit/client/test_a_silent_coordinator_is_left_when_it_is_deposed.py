"""A coordinator that says nothing is left when another node names another one; one that is late is not."""

import asyncio

from muster.client import clock
from muster.client.conversation import _Link
from muster.client.transport import Transport
from muster.kernel.instants import Instant
from tests.unit.client.ann import Ann
from tests.unit.client.nodes import Nodes, running


async def connected(nodes: Nodes) -> tuple[Ann, _Link]:
    """Ann, registered at node one, of which she has heard nothing for longer than half a session."""
    ann = Ann(list(nodes.addresses.values()))
    transport = await Transport.open(nodes.addresses["one"], "token")
    now = clock.now()
    ann.registers(now)
    ann.conversation._link = link = _Link(transport, Instant(now - 6_000))
    return ann, link


async def test_it_is_left_for_the_node_that_coordinates_now() -> None:
    async with running("one", "two") as nodes:
        nodes.coordinator = "two"
        ann, link = await connected(nodes)
        await asyncio.wait_for(ann.conversation._watch(link), 10)
        assert ann.conversation._link is None
        assert ann.conversation._found is not None
        assert ann.conversation._found.address == nodes.addresses["two"]
        ann.conversation._found.hang_up()


async def test_it_is_kept_while_nobody_names_another_and_its_fetchers_run_on() -> None:
    async with running("one", "two") as nodes:
        nodes.coordinator = "one"
        ann, link = await connected(nodes)
        watching = asyncio.create_task(ann.conversation._watch(link))
        while nodes.questions["two"] < 3:
            await asyncio.sleep(0.01)
        link.heard_at = clock.now()
        while nodes.open["two"]:
            await asyncio.sleep(0.01)
        assert ann.conversation._link is link and not watching.done()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        link.transport.hang_up()
