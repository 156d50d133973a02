"""This room is what a connection shares with all others of its door (`kafkaserver.server`)."""

import asyncio
from typing import Protocol, TypeVar

from kafkaserver.limits import ServerCounters, ServerLimits
from kafkaserver.replies import Handler
from kafkaserver.request_memory import RequestMemory
from kafkaserver.turns import Turns
from muster.kafkawire.errors import KafkaWireError

One = TypeVar("One")


class Door(Protocol[One]):
    """What a connection shares with all others of its door."""

    limits: ServerLimits
    counters: ServerCounters
    handler: Handler
    loop: asyncio.AbstractEventLoop
    shared_buffer: memoryview
    few_bytes: int
    """As long as no more wait for a connection, no limit of bytes is reached."""
    memory: RequestMemory[One]
    turns: Turns[One]
    is_draining: bool
    parked_elements: int

    def answered(self, connection: One, waiting_bytes: int) -> None:
        """Send what this connection was answered: at once, or with what others are in this loop turn."""

    def flush_soon(self, connection: One) -> None:
        """Send this connection's outbox once, after everything else of this loop turn."""

    def reclaim_buffers(self) -> None:
        """Memory is short: nobody keeps a buffer for a frame that has not begun."""

    def answers_grew(self, size_bytes: int) -> None:
        """So many bytes of answers more, or fewer, wait in memory for their peers to take them."""

    def frame_refused(self, peer: str, error: KafkaWireError) -> None:
        """A peer sent what is no request, or too much of one."""

    def not_admitted(self, peer: str, why: str) -> None:
        """A peer did not prove who it is."""

    def lost(self, peer: str, error: OSError) -> None:
        """A connection broke, or its TLS did."""

    def admitted(self, connection: One) -> None:
        """It has said who it is."""

    def forget(self, connection: One) -> None:
        """A connection is gone."""
