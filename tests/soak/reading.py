"""This room reads a whole topic once for a process, for members that speak only to their coordinator."""

import threading
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition


class WholeLog:
    """Every record of a topic that is committed, by partition; a thread reads on until it is closed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.values: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody-joins-this",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._ending.is_set():
            for message in self._consumer.consume(500, 0.2):
                number, offset = message.partition(), message.offset()
                if message.error() is None and number is not None and offset == len(self.values[number]):
                    self.values[number].append(message.value() or b"")

    def ends(self) -> Sequence[int]:
        """How many records of each partition were read so far."""
        return [len(self.values[number]) for number in sorted(self.values)]

    def close(self) -> None:
        """Read no further."""
        self._ending.set()
        self._thread.join(10)
        self._consumer.close()
