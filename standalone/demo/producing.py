"""This room replays the calendar: an unmodified librdkafka producer, each flight at its hour of the year."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from standalone.demo.flights import Flight, moment
from standalone.demo.kafka_consumer import METADATA_INTERVAL_MS

LINGER_MS = 20
FLUSH_SECONDS = 60.0


class Replay(threading.Thread):
    """Produces `flights` in calendar order; `produced` maps (partition, offset) to the key there.

    A flight counts as produced when the broker acknowledged it with acks=all. `refused` lists what
    librdkafka gave up on.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        flights: Sequence[Flight],
        days_a_second: float,
        progress: Callable[[datetime, int], None],
    ) -> None:
        super().__init__(name="replay", daemon=True)
        self._topic = topic
        self._flights = flights
        self._days_a_second = days_a_second
        self._progress = progress
        self._ending = threading.Event()
        self.produced: dict[tuple[int, int], bytes] = {}
        self.placeless: list[bytes] = []
        """Keys of flights that are stored somewhere: what was sent behind them is acknowledged."""
        self.refused: list[str] = []
        self.started_at = 0.0
        self.seconds = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": LINGER_MS,
                "client.id": "departures-board",
                "topic.metadata.refresh.interval.ms": METADATA_INTERVAL_MS,
                "message.timeout.ms": 120_000,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        """Send each flight when the calendar reaches it, then wait until every one is answered."""
        self.started_at = time.monotonic()
        for count, flight in enumerate(self._flights):
            if self._ending.is_set():
                break
            self._wait_for(flight, count)
            try:
                self._send(flight)
            except KafkaException as error:
                self.refused.append(f"flight {count} could not be sent: {error}")
                break
        left = self._producer.flush(FLUSH_SECONDS)
        if left:
            self.refused.append(f"{left} flights were not answered within {FLUSH_SECONDS:.0f}s")
        self.seconds = time.monotonic() - self.started_at

    def stop(self) -> None:
        """End the replay early; what is in flight is still answered."""
        self._ending.set()

    def _wait_for(self, flight: Flight, count: int) -> None:
        due = self.started_at + moment(flight.time_hour, self._days_a_second)
        ahead = due - time.monotonic()
        self._producer.poll(0)
        while ahead > 0 and not self._ending.is_set():
            self._progress(flight.time_hour, count)
            self._producer.poll(min(ahead, 0.1))
            ahead = due - time.monotonic()

    def _send(self, flight: Flight) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value=flight.value, key=flight.key, on_delivery=self._delivered
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(str(error))
            return
        partition, offset, key = message.partition(), message.offset(), message.key()
        if not isinstance(key, bytes):
            self.refused.append("an acknowledgement named no key")
        elif partition is None or offset is None:
            self.placeless.append(key)
        else:
            self.produced[(partition, offset)] = key
