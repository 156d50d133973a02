"""This room holds what a rebalance handler hands in: whom it saw, and what should change its owner."""

from msgspec import Struct

from muster.messages.member import TopicPartitions


class Move(Struct, frozen=True, array_like=True):
    """These partitions go from `giver` to `taker`; an empty name: nobody owned them, or nobody shall."""

    giver: str
    taker: str
    partitions: tuple[TopicPartitions, ...]


class Share(Struct, frozen=True, array_like=True):
    """What one member should stand by for."""

    member_id: str
    partitions: tuple[TopicPartitions, ...]


class Proposal(Struct, frozen=True):
    """The result of a rebalance handler's work item; JSON by msgspec. `standbys`: who stands by for what.

    `version` is the group's as the handler read it, `members` who belonged to it. What is in no move stays
    with its owner, so that one who joins five thousand costs what it moves. `why` is the first of the four
    tests of 000 chapter 9 that asks for a rebalance; empty: none is necessary, and nothing moves.
    """

    version: int
    members: tuple[str, ...]
    moves: tuple[Move, ...]
    why: str = ""
    standbys: tuple[Share, ...] = ()
