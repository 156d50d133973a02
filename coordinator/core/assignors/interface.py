"""This room says what every assignor is: members, topics and present owners in, shares out."""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import repeat

from muster.kernel.topology import TopicLayout
from muster.messages.partitions import Partition

Threads = Mapping[str, int]
"""Topic name to the number of streams a member reads it with; wildcards are resolved already."""

Shares = dict[str, list[Partition]]
"""Member id to what it should own; every member has an entry."""


@dataclass(frozen=True, slots=True)
class Question:
    """What an assignor is asked: `topics` that exist, and in `owner_of` members that own something now.

    `rack_of` are the members that told their rack. `copies` is to how many members a partition is to be
    given, its owner included; `willing` are those who may stand by, `standbys` what they stand by for now.
    """

    members: Mapping[str, Threads]
    topics: Mapping[str, TopicLayout]
    owner_of: Mapping[Partition, str] = field(default_factory=dict)
    rack_of: Mapping[str, str] = field(default_factory=dict)
    copies: int = 1
    willing: frozenset[str] = frozenset()
    standbys: Mapping[str, Collection[Partition]] = field(default_factory=dict)

    def readers(self) -> dict[str, list[str]]:
        """The members that read each topic, by id; topics by name."""
        found: dict[str, list[str]] = {name: [] for name in sorted(self.topics)}
        nowhere: list[str] = []
        for member in sorted(self.members):
            # Millions of pairs of a member and a topic: the loop is C's.
            lists = map(found.get, self.members[member], repeat(nowhere))
            deque(map(list.append, lists, repeat(member)), maxlen=0)
        return found


Assignor = Callable[[Question], Shares]
"""Pure and deterministic: equal questions, however ordered, get equal answers."""


def partitions_of(layout: TopicLayout) -> list[Partition]:
    """All partitions of a topic, by number."""
    return [Partition(layout.name, layout.topic_id, number) for number in range(layout.partition_count)]
