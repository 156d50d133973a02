"""This room runs one broker without a controller for the SDK's tests, and produces to it."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID, uuid5

from confluent_kafka import Producer

from standalone.children import end, launch, log_tail

ROOT = Path(__file__).resolve().parents[3]
_TOPIC_IDS = UUID("6f1d1c0e-5a35-4d0b-9d1e-1c0f5d2b7a11")
READY_WITHIN_S = 90.0


def topic_id(name: str) -> UUID:
    """The id that the lone broker gives a topic."""
    return uuid5(_TOPIC_IDS, name)


class LoneBroker:
    """A broker process that leads all partitions of its topics; each start has another port."""

    def __init__(self, home: Path, **topics: int) -> None:
        self.home = home
        self.topics = topics
        self.log = home / "broker.log"
        self.port = 0
        self.popen: subprocess.Popen[bytes] | None = None

    @property
    def topic(self) -> str:
        """The first of its topics."""
        return next(iter(self.topics))

    @property
    def address(self) -> str:
        """Where clients connect, "host:port"."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process and wait for its port."""
        folder = self.home / "data"
        folder.mkdir(parents=True, exist_ok=True)
        self.log.unlink(missing_ok=True)
        pairs = [f"{name}:{count}" for name, count in self.topics.items()]
        command = [sys.executable, "-m", "tests.benchmarks.produce_consume_broker", str(folder), *pairs]
        self.popen = launch(command, folder=ROOT, log=self.log, environment={"PYTHONPATH": str(ROOT)})
        until = time.monotonic() + READY_WITHIN_S
        while not (found := re.search(r"ready (\d+)", log_tail(self.log))):
            if time.monotonic() > until or self.popen.poll() is not None:
                raise AssertionError(f"the broker did not start: {log_tail(self.log)}")
            time.sleep(0.02)
        self.port = int(found[1])

    def kill(self) -> None:
        """kill -9."""
        assert self.popen is not None
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> None:
        """End it, however it is."""
        if self.popen is not None and self.popen.poll() is None:
            end(self.popen, signal.SIGTERM)

    def produce(
        self, topic: str, values: Iterable[bytes], partition: int = 0, compression: str = "none"
    ) -> None:
        """Produce `values` in this order and wait until all are acknowledged."""
        refused: list[object] = []
        producer = Producer({"bootstrap.servers": self.address, "compression.type": compression})

        def delivered(error: object, message: object) -> None:
            if error is not None:
                refused.append(error)

        for value in values:
            producer.produce(topic, value, key=b"key", partition=partition, on_delivery=delivered)
        assert producer.flush(READY_WITHIN_S) == 0
        assert not refused, refused
