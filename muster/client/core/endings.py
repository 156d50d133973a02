"""This room is what a session remembers of an end that is under way: of some fetchers, or its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.kernel.instants import Instant
from muster.messages.member import StopFetcherRequest
from muster.messages.partitions import Partition, Position

UNREACHED: Final = "no coordinator was reached"


@dataclass(slots=True)
class Farewell:
    """It was asked to leave, until `by` at the latest, on as many connections as that takes.

    `ended` is where fetchers had come that have ended, unless a coordinator was told. `positions` is that
    once all have: it is to be committed, and nothing more, once that is answered. `refused` is what that
    answer refused, `unheard` what went wrong last.
    """

    by: Instant
    reason: str
    ended: dict[Partition, Position] = field(default_factory=dict)
    positions: Mapping[Partition, Position] | None = None
    unheard: str = ""
    refused: str = ""


@dataclass(slots=True)
class Ending:
    """Fetchers that were told to end, with their last positions; `request` is None at a leave."""

    request: StopFetcherRequest | None
    positions: dict[Partition, Position]
