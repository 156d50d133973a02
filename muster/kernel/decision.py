"""This room holds the shape of every decision: what became true, what is said, when to look again.

A core returns a Decision and does nothing else. `runtime.turn` writes the records in one
transaction, and only after the commit sends the replies, then the commands, in this order.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from muster.kernel.instants import Instant

Record = TypeVar("Record")
Saying = TypeVar("Saying")


@dataclass(frozen=True, slots=True)
class Decision(Generic[Record, Saying]):
    """What a core decided.

    `records` say what became true and are written together. `replies` answer requests and
    leave before `commands`, which nobody asked for. `look_again_at` is the earliest instant at
    which the core wants to be asked again though nothing happened; None: not by itself.
    """

    records: tuple[Record, ...] = ()
    replies: tuple[Saying, ...] = ()
    commands: tuple[Saying, ...] = ()
    look_again_at: Instant | None = None
