"""This room keeps rows of partitions by topic, so that copies of all of them share what nobody changes."""

from collections.abc import Iterator
from itertools import chain
from uuid import UUID

from muster.messages.link.rows import PartitionKey, PartitionRow


class PartitionTable:
    """Rows of partitions by topic, then by number.

    In two steps because the hash of a UUID is computed in Python: who goes through the ten thousand
    partitions of a topic pays for it once.
    """

    def __init__(self) -> None:
        self.by_topic: dict[UUID, dict[int, PartitionRow]] = {}
        self._shared = False
        self._own: set[UUID] = set()

    def copy(self) -> "PartitionTable":
        """Another table with the same rows; each copies a topic before it changes one of its rows."""
        other = PartitionTable()
        other.by_topic = dict(self.by_topic)
        self._shared = other._shared = True
        self._own.clear()
        return other

    def __getitem__(self, key: PartitionKey) -> PartitionRow:
        return self.by_topic[key[0]][key[1]]

    def get(self, key: PartitionKey) -> PartitionRow | None:
        return self.by_topic.get(key[0], {}).get(key[1])

    def values(self) -> Iterator[PartitionRow]:
        return chain.from_iterable(rows.values() for rows in self.by_topic.values())

    def of_topic(self, topic_id: UUID) -> dict[int, PartitionRow]:
        """The rows of one topic by number, to be changed in place."""
        if self._shared and topic_id not in self._own:
            self._own.add(topic_id)
            self.by_topic[topic_id] = dict(self.by_topic.get(topic_id, {}))
        return self.by_topic.setdefault(topic_id, {})

    def versions(self, topic_id: UUID, first: int = 0) -> tuple[int, ...]:
        """Of the partitions of a topic from `first` on, by number."""
        rows = self.by_topic.get(topic_id, {})
        return tuple(rows[number].version for number in sorted(rows) if number >= first)

    def put(self, row: PartitionRow) -> None:
        self.of_topic(row.topic_id)[row.partition] = row

    def drop_topic(self, topic_id: UUID) -> dict[int, PartitionRow]:
        """Forget the rows of one topic; returns them."""
        return self.by_topic.pop(topic_id, {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionTable) and self.by_topic == other.by_topic

    __hash__ = None  # type: ignore[assignment]
