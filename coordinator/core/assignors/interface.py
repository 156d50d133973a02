"""This room says what every assignor is: members, topics and present owners in, shares out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.kernel.topology import TopicLayout
from muster.messages.partitions import Partition

Threads = Mapping[str, int]
"""Topic name to the number of streams a member reads it with; wildcards are resolved already."""

Shares = dict[str, list[Partition]]
"""Member id to what it should own; every member has an entry."""


@dataclass(frozen=True, slots=True)
class Question:
    """What an assignor is asked: `topics` that exist, and in `owner_of` members that own something now."""

    members: Mapping[str, Threads]
    topics: Mapping[str, TopicLayout]
    owner_of: Mapping[Partition, str] = field(default_factory=dict)

    def subscribers(self, topic: str) -> list[str]:
        """The members that read this topic, by id."""
        return sorted(member for member, threads in self.members.items() if topic in threads)


Assignor = Callable[[Question], Shares]
"""Pure and deterministic: equal questions, however ordered, get equal answers."""


def partitions_of(layout: TopicLayout) -> list[Partition]:
    """All partitions of a topic, by number."""
    return [Partition(layout.name, layout.topic_id, number) for number in range(layout.partition_count)]
