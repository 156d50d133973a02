"""This room is a consumer by our SDK: `by_sdk.py NODES GROUP TOPIC SESSION_MS`, the token in TOKEN."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Collection
from contextlib import suppress

from muster import CommitUnanswered, Consumer, PartitionsLost, RebalanceListener, TopicPartition


class Told(RebalanceListener):
    """Prints what is assigned."""

    def __init__(self) -> None:
        self.mine: set[int] = set()

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.mine.update(one.partition for one in partitions)
        print("assigned", *sorted(self.mine))

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.mine.difference_update(one.partition for one in partitions)
        print("assigned", *sorted(self.mine))

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.on_revoked(partitions)


async def consume(nodes: str, group: str, topic: str, session: str) -> None:
    """Read and commit until SIGTERM."""
    consumer = Consumer(
        group,
        [topic],
        nodes=nodes.split(","),
        token=os.environ["TOKEN"],
        session_timeout_ms=int(session),
        auto_offset_reset="earliest",
        listener=Told(),
    )
    loop = asyncio.get_running_loop()
    closing: list[asyncio.Task[None]] = []
    loop.add_signal_handler(signal.SIGTERM, lambda: closing.append(loop.create_task(consumer.close())))
    async with consumer:
        while batch := await consumer.next_batch(500):
            for one in batch:
                print(one.partition, one.offset, (one.key or b"").decode(), (one.value or b"").decode())
            if not closing:
                with suppress(CommitUnanswered, PartitionsLost):
                    # The next commit settles it, or whoever has them now reads them again (docs/sdk.md).
                    await consumer.commit()
    await asyncio.gather(*closing)


# What it is in trouble with is told by the test that fails.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
asyncio.run(consume(*sys.argv[1:]))
