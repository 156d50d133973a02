"""This room is one consumer of the demo, a process of its own, written as a user of the SDK would.

It writes each record down before it asks for the next one: evidence that a kill -9 cannot take back.
"""

import argparse
import asyncio
import os
import signal
from pathlib import Path

from muster import Consumer
from standalone.demo.evidence import Seen, line


async def consume(arguments: argparse.Namespace) -> None:
    """Consume until SIGTERM, then leave the group."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    evidence = os.open(Path(arguments.evidence), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    async with Consumer(
        arguments.group,
        [arguments.topic],
        nodes=arguments.nodes.split(","),
        token=os.environ["MUSTER_TOKEN"],
        consumer_id=arguments.consumer_id,
        session_timeout_ms=6_000,
        auto_offset_reset="earliest",
    ) as consumer:
        stopper = asyncio.create_task(_close_when(stopping, consumer))
        async for record in consumer:
            os.write(evidence, line(Seen(record.partition, record.offset, record.tenure, record.key or b"")))
        await stopper


async def _close_when(stopping: asyncio.Event, consumer: Consumer) -> None:
    await stopping.wait()
    await consumer.close()


def main() -> None:
    """Read the command line; the token comes from MUSTER_TOKEN, not from the arguments that `ps` shows."""
    parser = argparse.ArgumentParser(description="One consumer of the demo.")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--consumer-id", required=True)
    parser.add_argument("--nodes", required=True, help="websocket addresses, separated by commas")
    parser.add_argument("--evidence", required=True, help="file to which every record is written")
    asyncio.run(consume(parser.parse_args()))


if __name__ == "__main__":
    main()
