"""This room measures what an application gets: the SDK beside aiokafka and confluent-kafka.

One broker, and a coordinator that gives the SDK every partition; the other clients are assigned the same
partitions by hand. Each reads all that was produced, record by record, in a process of its own, so that none
pays for another's heap. Rounds alternate; the figures are medians. CPU is what the application's process
used for each record, which says more than the rate on a machine that others use as well.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from muster import BlockingConsumer, Consumer
from tests.integration.sdk.brokers import ROOT, LoneBroker, topic_id
from tests.unit.client.coordinators import coordinating

SIZES = (100, 1024)
PARTITIONS = (1, 50)
AT_ONCE = 50_000
"""librdkafka keeps 100,000 records at most that wait for their acknowledgement."""
CONTESTANTS = ("sdk", "sdk-blocking", "aiokafka", "confluent-kafka")


def topic_of(size: int, partitions: int) -> str:
    """The topic with records of `size` bytes over so many partitions."""
    return f"records-{size}-{partitions}"


def _fill(broker: LoneBroker, size: int, partitions: int, count: int) -> None:
    value = os.urandom(size)
    for partition in range(partitions):
        left = count // partitions
        while left:
            broker.produce(topic_of(size, partitions), [value] * min(left, AT_ONCE), partition=partition)
            left -= min(left, AT_ONCE)


async def _sdk(address: str, topic: str, partitions: int, count: int) -> float:
    async with coordinating({topic: topic_id(topic)}, address) as coordinator:
        coordinator.shares = [{(topic, number) for number in range(partitions)}]
        nodes = [coordinator.address]
        async with Consumer(
            "bench", [topic], nodes=nodes, token="bench", auto_offset_reset="earliest", auto_commit=False
        ) as consumer:
            await anext(consumer)
            begun, seen = time.perf_counter(), 1
            async for _ in consumer:
                seen += 1
                if seen == count:
                    break
            return (count - 1) / (time.perf_counter() - begun)


async def _sdk_blocking(address: str, topic: str, partitions: int, count: int) -> float:
    async with coordinating({topic: topic_id(topic)}, address) as coordinator:
        coordinator.shares = [{(topic, number) for number in range(partitions)}]
        return await asyncio.to_thread(_block, coordinator.address, topic, count)


def _block(node: str, topic: str, count: int) -> float:
    with BlockingConsumer(
        "bench", [topic], nodes=[node], token="bench", auto_offset_reset="earliest", auto_commit=False
    ) as consumer:
        next(consumer)
        begun, seen = time.perf_counter(), 1
        for _ in consumer:
            seen += 1
            if seen == count:
                break
        return (count - 1) / (time.perf_counter() - begun)


async def _aiokafka(address: str, topic: str, partitions: int, count: int) -> float:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        await anext(consumer)
        begun, seen = time.perf_counter(), 1
        async for _ in consumer:
            seen += 1
            if seen == count:
                break
        return (count - 1) / (time.perf_counter() - begun)
    finally:
        await consumer.stop()


def _confluent(address: str, topic: str, partitions: int, count: int) -> float:
    from confluent_kafka import Consumer as Librdkafka
    from confluent_kafka import TopicPartition

    consumer = Librdkafka({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    begun, seen = 0.0, 0
    while seen < count:
        message = consumer.poll(10)
        if message is None or message.error():
            raise RuntimeError(f"{seen} of {count}: {message and message.error()}")
        seen += 1
        begun = begun or time.perf_counter()
    took = time.perf_counter() - begun
    consumer.close()
    return (count - 1) / took


def consume(contestant: str, address: str, topic: str, partitions: int, count: int) -> float:
    """Records a second of one contestant, the first one not counted."""
    if contestant == "confluent-kafka":
        return _confluent(address, topic, partitions, count)
    reading = {"sdk": _sdk, "sdk-blocking": _sdk_blocking, "aiokafka": _aiokafka}[contestant]
    return asyncio.run(reading(address, topic, partitions, count))


def run(home: Path, count: int = 400_000, rounds: int = 3) -> list[str]:
    """The table's lines. Makes and removes a folder for the logs under `home`."""
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="sdk-", dir=home)).resolve()
    work = [(size, partitions) for size in SIZES for partitions in PARTITIONS]
    broker = LoneBroker(folder, **{topic_of(*one): one[1] for one in work})
    lines = [
        f"records/s (and µs of CPU) for an application that reads {count:,} one by one, medians of {rounds}",
        f"{'bytes':>6}{'partitions':>12}"
        + "".join(f"{name:>24}" for name in CONTESTANTS)
        + f"{'x aiokafka':>12}",
    ]
    try:
        broker.start()
        for size, partitions in work:
            _fill(broker, size, partitions, count)
            rates: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
            costs: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
            for _ in range(rounds):
                for name in CONTESTANTS:
                    command = [sys.executable, "-m", "tests.benchmarks.sdk", name, broker.address]
                    command += [topic_of(size, partitions), str(partitions), str(count)]
                    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
                    rate, cost = map(float, done.stdout.split())
                    rates[name].append(rate)
                    costs[name].append(cost)
            medians = {name: statistics.median(taken) for name, taken in rates.items()}
            told = "".join(
                f"{medians[name]:>15,.0f} ({statistics.median(costs[name]):5.2f})" for name in CONTESTANTS
            )
            ratio = medians["sdk"] / medians["aiokafka"]
            lines.append(f"{size:>6}{partitions:>12}{told}{ratio:>12.2f}")
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return lines


if __name__ == "__main__":
    name, address, topic, partitions, count = sys.argv[1:]
    rate = consume(name, address, topic, int(partitions), int(count))
    print(rate, time.process_time() / int(count) * 1e6)
