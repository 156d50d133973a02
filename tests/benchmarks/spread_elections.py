"""This room measures how long a node's loop is held while ten thousand leaders of a dead broker are elected.

As `elections`, but in a cluster of thirty brokers over all of which the replicas are spread: its partitions
become alike in few. The loop is looked at from outside, by a process of its own that asks on a link every
five milliseconds and waits for each answer: so long everybody waited.
"""

import asyncio
import multiprocessing
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from uuid import uuid4

from controller.core.settings import ControllerSettings
from muster.messages import codec
from muster.messages.link.from_broker import BrokerPing, CreateTopics, NewTopic
from muster.messages.link.to_broker import BrokerPingAnswer
from tests.benchmarks.elections import PARTITIONS, PATIENCE_S, PING_INTERVAL_S, VICTIM, LinkClient, link
from tests.benchmarks.planes import bench_plane
from tests.integration.coordinator.control_plane import ControlPlane

BROKERS = range(1, 31)
TOPICS = 100
WATCHER = 31
"""It hosts nothing, and hears of everything as all others do."""
QUESTION_INTERVAL_S = 0.005
SETTLED_S = 2.0

_VERSION = re.compile(r'"metadata_version":(\d+)')


class Bystander(LinkClient):
    """A survivor that reads what it is told no further than it must: twenty-nine that decode are a crowd."""

    async def listen(self) -> None:
        async for data in self.connection:
            found = _VERSION.search(str(data[:200]))
            if found is not None:
                self.heard_at, self.version = time.monotonic(), int(found[1])


async def _create_topics(client: LinkClient, partitions: int) -> None:
    """Topics led by the one that will die, their other replicas on any two of the others."""
    dice, most = Random(1), ControllerSettings().max_partitions_per_request
    topics = [_topic(dice, partitions // TOPICS) for _ in range(TOPICS)]
    at_once = TOPICS * most // max(partitions, most)
    for request, first in enumerate(range(0, TOPICS, at_once), start=1):
        some = tuple(topics[first : first + at_once])
        wanted = CreateTopics(correlation_id=request, topics=some, timeout_ms=int(PATIENCE_S * 1000))
        await client.connection.send(codec.encode(wanted), text=True)
        await client.until(partial(client.answers.__contains__, request))
        refused = [one.text for one in client.answers[request].topics if one.error]
        assert not refused, refused


def _topic(dice: Random, partitions: int) -> NewTopic:
    replicas = {number: (VICTIM, *dice.sample(BROKERS[1:], 2)) for number in range(partitions)}
    return NewTopic(name=f"orders-{uuid4().hex[:8]}", assignments=replicas)


async def _one_death(address: str, secrets: dict[int, str], partitions: int) -> tuple[float, float]:
    """Milliseconds from the detection of a death to the last command received, and of the longest wait."""
    reader = await link(address, 2, secrets[2])
    others = [await _bystander(address, broker_id, secrets[broker_id]) for broker_id in BROKERS[2:]]
    victim = await _bystander(address, VICTIM, secrets[VICTIM])
    everybody = (reader, victim, *others)
    tasks = [asyncio.create_task(duty) for one in everybody for duty in (one.listen(), one.ping())]
    try:
        await _create_topics(reader, partitions)
        await asyncio.sleep(SETTLED_S)
        with _watching(address, secrets[WATCHER]) as waited:
            closed_at = time.monotonic()
            await victim.connection.close()
            detected_at = closed_at + ControllerSettings().closed_link_timeout_ms / 1000
            last = await reader.until_no_leader_is(VICTIM)
            async with asyncio.timeout(PATIENCE_S):
                while any(one.version < reader.version for one in others):
                    await asyncio.sleep(PING_INTERVAL_S)
            last = max(last, *(one.heard_at for one in others))
            await asyncio.sleep(SETTLED_S)
        return (last - detected_at) * 1000, waited[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in everybody:
            await one.connection.close()


async def _bystander(address: str, broker_id: int, secret: str) -> Bystander:
    client = await link(address, broker_id, secret)
    return Bystander(broker_id, client.connection)


@contextmanager
def _watching(address: str, secret: str) -> Iterator[list[float]]:
    """Somebody asks all the time, in a process of its own; then the list holds its longest wait in ms."""
    context, waited = multiprocessing.get_context("spawn"), list[float]()
    here, there = context.Pipe()
    process = context.Process(target=_watch, args=(address, secret, there))
    process.start()
    try:
        assert here.recv() == "begun"
        yield waited
        here.send("end")
        waited.append(here.recv())
    finally:
        process.terminate()
        process.join()


def _watch(address: str, secret: str, pipe: Connection) -> None:
    asyncio.run(_ask(address, secret, pipe))


async def _ask(address: str, secret: str, pipe: Connection) -> None:
    client = await link(address, WATCHER, secret)
    asked_at: dict[int, float] = {}
    longest = [0.0]

    async def listen() -> None:
        async for data in client.connection:
            if len(data) < 1_000 and isinstance(answer := codec.decode_to_broker(data), BrokerPingAnswer):
                longest.append(time.monotonic() - asked_at.pop(answer.number))

    listening = asyncio.create_task(listen())
    number = 0
    while not pipe.poll():
        number += 1
        asked_at[number] = time.monotonic()
        await client.connection.send(codec.encode(BrokerPing(number=number, metadata_version=0)), text=True)
        if number == 100:
            longest.clear()
            pipe.send("begun")
        await asyncio.sleep(QUESTION_INTERVAL_S)
    listening.cancel()
    await client.connection.close()
    pipe.send(max(longest) * 1000)


def run(home: Path, partitions: int = PARTITIONS, rounds: int = 3) -> list[str]:
    """The table's lines. Makes and removes folders under `home`."""
    took = [_one_round(home, partitions) for _ in range(rounds)]
    leaders, held = zip(*took, strict=True)
    return [
        f"leaders of {partitions:,} partitions of one of {len(BROKERS)} brokers, which dies; fsync on",
        f"{'':<34}{'median ms':>12}{'best ms':>12}{'worst ms':>12}",
        *(
            f"{name:<34}" + "".join(f"{ms:>12.0f}" for ms in (statistics.median(ms), min(ms), max(ms)))
            for name, ms in (("detection to last command", leaders), ("longest wait for the node", held))
        ),
    ]


def _one_round(home: Path, partitions: int) -> tuple[float, float]:
    with bench_plane(home, "elections") as plane:
        (address,) = plane.addresses.values()
        return asyncio.run(_one_death(address, _enrolled(plane), partitions))


def _enrolled(plane: ControlPlane) -> dict[int, str]:
    return {
        broker_id: plane.manage("enroll_broker", str(broker_id)).split()[-1]
        for broker_id in (*BROKERS, WATCHER)
    }


def main() -> None:
    """`python -m tests.benchmarks.spread_elections [PARTITIONS] [ROUNDS]`"""
    home = Path(os.environ.get("MUSTER_HOME", ".muster"))
    print("\n".join(run(home, *map(int, sys.argv[1:3]))))


if __name__ == "__main__":
    main()
