"""This room is the demo's unmodified Kafka client: librdkafka in a group of its own, with its own settings.

It writes each record down before it asks for the next one, as the consumers of the SDK do.
"""

import argparse
import os
import signal
import threading
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from standalone.demo.evidence import Seen, line

POLL_S = 0.2
COMMIT_INTERVAL_MS = 500
METADATA_INTERVAL_MS = 2_000
"""How soon partitions that are added are found: a year passes in less than its default of five minutes."""


def consume(arguments: argparse.Namespace) -> None:
    """Consume until SIGTERM, then leave the group."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    evidence = os.open(Path(arguments.evidence), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    tenure = 0

    def assigned(*_: Any) -> None:
        nonlocal tenure
        tenure += 1

    consumer = Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": arguments.group,
            "client.id": arguments.client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
            "topic.metadata.refresh.interval.ms": METADATA_INTERVAL_MS,
            "log_level": 2,
        }
    )
    consumer.subscribe([arguments.topic], on_assign=assigned)
    try:
        while not stopping.is_set():
            for message in consumer.consume(1_000, POLL_S):
                partition, offset, key = message.partition(), message.offset(), message.key()
                if message.error() is None and partition is not None and offset is not None:
                    named = key if isinstance(key, bytes) else b""
                    os.write(evidence, line(Seen(partition, offset, tenure, named)))
    finally:
        consumer.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="The demo's unmodified Kafka client.")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--bootstrap", required=True, help="brokers' addresses, separated by commas")
    parser.add_argument("--evidence", required=True, help="file to which every record is written")
    consume(parser.parse_args())


if __name__ == "__main__":
    main()
