"""This room says what a coordinator may know of topics: their ids and how many partitions they have."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.kernel.ids import TopicId, TopicName


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """One topic as an assignor sees it; partitions are 0 to `partition_count` − 1.

    `racks` are those that hold a replica, by the partition's number; empty where nobody asked for them.
    """

    name: TopicName
    topic_id: TopicId
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()


Layouts = Mapping[TopicName, TopicLayout]
