"""This room holds what a rebalance handler hands in: the members it saw, and who should own what."""

from msgspec import Struct

from muster.messages.member import TopicCount, TopicPartitions


class SeenMember(Struct, frozen=True, array_like=True):
    """One member as the handler read it; another token or subscription makes it another one."""

    member_id: str
    token_hash: str
    topic_count: tuple[TopicCount, ...]


class Share(Struct, frozen=True, array_like=True):
    """What one member should own."""

    member_id: str
    partitions: tuple[TopicPartitions, ...]


class Proposal(Struct, frozen=True):
    """The result of a rebalance handler's work item; JSON by msgspec. `standbys`: who stands by for what.

    `why` is the first of the four tests of 000 chapter 9 that asks for a rebalance; empty: none is
    necessary, and the shares are what is stored.
    """

    members: tuple[SeenMember, ...]
    shares: tuple[Share, ...]
    why: str = ""
    standbys: tuple[Share, ...] = ()
