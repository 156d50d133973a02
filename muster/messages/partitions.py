"""This room turns partitions by topic, as they travel, into single ones, as they are counted, and back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from muster.messages.member import PartitionOffset, TopicOffsets, TopicPartitions


class Partition(NamedTuple):
    """One partition: the topic's name for people, its id for truth, its number."""

    topic: str
    topic_id: UUID
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Position(NamedTuple):
    """The next offset to consume, and the generation under which the partition is fetched."""

    offset: int
    generation: int


def by_topic(partitions: Iterable[Partition]) -> tuple[TopicPartitions, ...]:
    """Grouped by topic, sorted by topic and number."""
    groups: dict[tuple[str, UUID], list[int]] = {}
    for topic, topic_id, number in partitions:
        groups.setdefault((topic, topic_id), []).append(number)
    return tuple(
        TopicPartitions(topic, topic_id, tuple(sorted(numbers)))
        for (topic, topic_id), numbers in sorted(groups.items())
    )


def each_partition(topics: Iterable[TopicPartitions]) -> Iterator[Partition]:
    """The single partitions, in the order in which they travelled."""
    for topic in topics:
        for number in topic.partitions:
            yield Partition(topic.topic, topic.topic_id, number)


def positions_by_topic(positions: Mapping[Partition, Position]) -> tuple[TopicOffsets, ...]:
    """The offset_info of a frame, sorted by topic and number."""
    groups: dict[tuple[str, UUID], list[PartitionOffset]] = {}
    for (topic, topic_id, number), (offset, generation) in sorted(positions.items()):
        groups.setdefault((topic, topic_id), []).append(PartitionOffset(number, offset, generation))
    return tuple(
        TopicOffsets(topic, topic_id, tuple(entries)) for (topic, topic_id), entries in groups.items()
    )


def each_position(topics: Iterable[TopicOffsets]) -> Iterator[tuple[Partition, Position]]:
    """The single positions of an offset_info."""
    for topic in topics:
        for entry in topic.partitions:
            yield (
                Partition(topic.topic, topic.topic_id, entry.partition),
                Position(entry.offset, entry.generation),
            )
