"""This room is a consumer by aiokafka: `by_aiokafka.py BOOTSTRAP GROUP TOPIC SESSION_MS`."""

import asyncio
import signal
import sys

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError


async def consume(bootstrap: str, group: str, topic: str, session: str) -> None:
    """Read and commit until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=int(session),
        heartbeat_interval_ms=500,
    )
    await consumer.start()
    mine: list[int] = []
    while not stopping.is_set():
        batch = await consumer.getmany(timeout_ms=200, max_records=500)
        if mine != (mine := sorted(one.partition for one in consumer.assignment())):
            print("assigned", *mine)
        for records in batch.values():
            for one in records:
                print(one.partition, one.offset, one.key.decode(), one.value.decode())
        if batch:
            try:
                await consumer.commit()
            except KafkaError as problem:
                print(problem, file=sys.stderr)
    await consumer.stop()


asyncio.run(consume(*sys.argv[1:]))
