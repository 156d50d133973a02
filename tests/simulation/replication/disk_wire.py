"""This room carries fetches between the brokers of the simulation, in the words of the product."""

import os
from typing import Any, NamedTuple

from broker.core.replica import FetchPosition
from broker.core.replica_log import PartitionKey
from broker.fetch_session import FetchLimits, FetchSession
from kafkaserver.outbox import FileRegion
from muster.kafkawire.fetch_requests import fetch_frame
from muster.kafkawire.framing import LENGTH_BYTES
from tests.simulation.replication.memory_log import Stored

LIMITS = FetchLimits(wait_max_ms=0, min_bytes=1, max_bytes=1_000_000, partition_max_bytes=1_000_000)


class Sent(NamedTuple):
    """A follower's fetch on its way to the leader."""

    follower: int
    key: PartitionKey
    position: FetchPosition
    frame: bytes
    connection: "Connection"


class Answered(NamedTuple):
    """A leader's answer on its way back."""

    key: PartitionKey
    asked: FetchPosition
    data: bytes
    connection: "Connection"
    diverging: None = None
    """In its bytes."""
    held: dict[PartitionKey, list[Stored]] = {}  # noqa: RUF012 (never changed)
    """What the leader holds, or held, of each log; the rules do not see it."""


class Connection:
    """One connection to a peer and the fetch session on it; one fetch at a time is under way."""

    def __init__(self, follower: int, broker_epoch: int) -> None:
        self.session = FetchSession(follower, broker_epoch, LIMITS)
        self.keys: set[PartitionKey] = set()
        self.is_waiting = False

    def ask(self, positions: dict[PartitionKey, FetchPosition]) -> bytes:
        for key in self.keys - positions.keys():
            self.session.move(key, None)
        for key, position in positions.items():
            self.session.move(key, position)
        self.keys = set(positions)
        self.is_waiting = True
        return fetch_frame(0, "follower", self.session.request())[LENGTH_BYTES:]


def bytes_of(piece: Any) -> bytes:
    """What the socket sends of it."""
    if isinstance(piece, FileRegion):
        return os.pread(piece.file.fileno(), len(piece), piece.position)
    return bytes(piece)
