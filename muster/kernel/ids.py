"""This room names the things of the field: brokers, topics, partitions."""

from dataclasses import dataclass
from typing import NewType
from uuid import UUID

BrokerId = NewType("BrokerId", int)
"""1 to 9,999."""

TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", UUID)
"""Given once, never again: a topic that is created anew under an old name is another topic."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic, by the topic's name."""

    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
