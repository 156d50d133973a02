"""This room says what groups know of topics, and what they tell of them: partitions, and what is unread."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from muster.kernel.ids import TopicId, TopicName


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """One topic as an assignor sees it; partitions are 0 to `partition_count` − 1.

    `racks` are those that hold a replica, by the partition's number; empty where nobody asked for them.
    `added_again` has the number of each partition that took that of a removed one, and the leader epoch that
    it begins above: another number there is another partition.
    """

    name: TopicName
    topic_id: TopicId
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    added_again: tuple[tuple[int, int], ...] = ()


Layouts = Mapping[TopicName, TopicLayout]


class Unread(NamedTuple):
    """A group that has not read `records` of a partition; −1: nobody knows how many."""

    group: str
    partition: int
    records: int
