"""This room is a consumer process for tests: it commits each record, and writes down what it did.

One JSON line each: `consumed` before a record is committed, then `committed` or `refused`. While the file
<evidence>.hold exists it keeps the record in hand, says `holding`, and commits only when the file is gone;
`told` when pings have said meanwhile how far it is, more than once.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster import CommitFailed, Consumer, Record

LOOK_EVERY_S = 0.01
PINGS_THAT_TELL = 3
"""Longer than the interval in which what came with pings is committed."""


class Evidence:
    """The file of what was done; what is written survives a kill -9."""

    def __init__(self, path: Path) -> None:
        self._hold = path.with_name(f"{path.name}.hold")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, what: str, record: Record, **more: Any) -> None:
        """One line; `at` is the machine's monotonic clock, the same for every process."""
        facts = {
            "at": time.monotonic_ns(),
            "what": what,
            "partition": record.partition,
            "offset": record.offset,
            "tenure": record.tenure,
            "value": (record.value or b"").decode(),
        }
        os.write(self._file, json.dumps({**facts, **more}).encode() + b"\n")

    async def hold(self, record: Record, pings: Callable[[], int]) -> None:
        """Keep the record in hand while the test wants it; `pings` says how many were answered."""
        if self._hold.exists():
            self.write("holding", record)
            told_at = pings() + PINGS_THAT_TELL
            while self._hold.exists():
                await asyncio.sleep(LOOK_EVERY_S)
                if pings() == told_at:
                    told_at = -1
                    self.write("told", record)


async def consume(arguments: argparse.Namespace) -> None:
    """Consume until killed."""
    evidence = Evidence(Path(arguments.evidence))
    async with Consumer(
        arguments.group,
        [arguments.topic],
        nodes=arguments.nodes.split(","),
        token=os.environ["MUSTER_TOKEN"],
        consumer_id=arguments.consumer_id,
        session_timeout_ms=arguments.session_timeout_ms,
        auto_offset_reset="earliest",
    ) as consumer:
        async for record in consumer:
            evidence.write("consumed", record)
            await evidence.hold(record, lambda: consumer._conversation.session._answered[0])
            try:
                await consumer.commit()
            except CommitFailed as refusal:
                evidence.write("refused", record, lost=[one.number for one in refusal.refused])
            else:
                evidence.write("committed", record)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("group", "topic", "consumer-id", "nodes", "evidence"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    asyncio.run(consume(parser.parse_args()))
