"""This room turns partitions by topic, as they travel, into single ones, as they are counted, and back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from muster.kernel.tuples import made
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
    # By the id's number: of the id itself the hash is computed in Python, each time.
    groups: dict[tuple[str, int], tuple[UUID, list[int]]] = {}
    last_topic, last_id, numbers = "", None, list[int]()
    for topic, topic_id, number in partitions:
        if topic_id is not last_id or topic != last_topic:
            last_topic, last_id = topic, topic_id
            _, numbers = groups.setdefault((topic, topic_id.int), (topic_id, []))
        numbers.append(number)
    topics = sorted(groups.items()) if len(groups) > 1 else groups.items()
    found = [
        TopicPartitions(topic, topic_id, tuple(sorted(numbers) if len(numbers) > 1 else numbers))
        for (topic, _), (topic_id, numbers) in topics
    ]
    return tuple(found)


def each_partition(topics: Iterable[TopicPartitions]) -> Iterator[Partition]:
    """The single partitions, in the order in which they travelled."""
    for topic in topics:
        name, topic_id = topic.topic, topic.topic_id
        for number in topic.partitions:
            yield made(Partition, (name, topic_id, number))


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
        name, topic_id = topic.topic, topic.topic_id
        for entry in topic.partitions:
            yield (
                made(Partition, (name, topic_id, entry.partition)),
                made(Position, (entry.offset, entry.generation)),
            )
