"""A client hears that its topic is made before the broker hosts its own part of it, which takes a while."""

import asyncio
from pathlib import Path
from uuid import UUID

from muster.messages.link.from_broker import CreateTopics, NewTopic
from muster.messages.link.rows import AlikePartitions, TopicRow
from muster.messages.link.to_broker import Changes, CreatedTopic, CreateTopicsAnswer
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker

CLICKS = UUID(int=2)
MANY = 500


async def test_the_answer_before_a_frame_of_many_rows_leaves_when_their_leaders_are_told(
    tmp_path: Path,
) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link, _ = await controller.bind()
        await controller.apply(link, 5)
        told: list[tuple[bool, bool]] = []

        def sent() -> None:
            """As a listener sends: all that was answered in one turn of the loop, in the next."""
            is_hosted = process._plane.hosted(CLICKS, 0) is not None
            view = process._plane.view.partition("clicks", MANY - 1)
            told.append((view is not None and view.leader == 1, is_hosted))

        async def ask() -> None:
            await process._forwarding.ask(CreateTopics(topics=(NewTopic(name="clicks"),), timeout_ms=0))
            asyncio.get_running_loop().call_soon(sent)

        asking = asyncio.create_task(ask())
        while not process._forwarding._asked:
            await asyncio.sleep(0)
        (number,) = process._forwarding._asked
        # The two arrive together, and nothing waits between them.
        await process.obey(CreateTopicsAnswer(correlation_id=number, topics=(CreatedTopic(name="clicks"),)))
        led = AlikePartitions(CLICKS, (1, 2), 1, 1, (1, 2), tuple(range(MANY)))
        topic = TopicRow(CLICKS, "clicks", MANY, 2)
        await process.obey(Changes(metadata_version=6, leader_and_isr=(led,), topics=(topic,)))
        await asking
        await asyncio.sleep(0)
        assert told == [(True, False)]
        assert process._plane.hosted(CLICKS, MANY - 1) is not None
        # What is alike is told by one view.
        assert len({id(one) for one in process._plane.view.topics["clicks"].partitions}) == 1
