"""This room writes who leads a partition now beside the refusal of what is not led here (KIP-951).

A client that is told goes there at once; one that is not asks for metadata, and waits before it does.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from muster.kafkawire.fields import NO_TAGS, count, text
from muster.kafkawire.numbers import uvarint

_CURRENT_LEADER: Final = struct.Struct(">BBBiiB")
_LEADER_BYTES: Final = 9
_NUMBER: Final = struct.Struct(">i")


class NewLeader(NamedTuple):
    """Who leads a partition, since which epoch, and where clients reach it."""

    broker_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None = None


LeaderOf = Callable[[UUID | str, int, int], NewLeader | None]
"""Of a partition, by its topic's id or name, its number, and the error it is refused with."""


def current_leader(tag: int, leader: NewLeader) -> bytes:
    """The tags of a partition: this one alone."""
    return _CURRENT_LEADER.pack(1, tag, _LEADER_BYTES, leader.broker_id, leader.leader_epoch, 0)


def node_endpoints(leaders: Mapping[int, NewLeader]) -> bytes:
    """The tags of an answer whose partitions name these leaders: where they are."""
    if not leaders:
        return NO_TAGS
    nodes = b"".join(
        _NUMBER.pack(one.broker_id)
        + text(one.host, flexible=True)
        + _NUMBER.pack(one.port)
        + text(one.rack, flexible=True)
        + NO_TAGS
        for one in leaders.values()
    )
    array = count(len(leaders), flexible=True) + nodes
    return b"\1\0" + uvarint(len(array)) + array
