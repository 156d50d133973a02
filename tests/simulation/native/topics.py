"""This room names the topics of the tests' cast, with the types that the cores ask for."""

from uuid import UUID

from muster.kernel.ids import TopicId, TopicName
from muster.kernel.topology import TopicLayout


def layout(name: str, topic: int, partitions: int) -> TopicLayout:
    """A topic with the id of this number."""
    return TopicLayout(TopicName(name), TopicId(UUID(int=topic)), partitions)


def layouts(*topics: TopicLayout) -> dict[TopicName, TopicLayout]:
    """The topics by their names."""
    return {topic.name: topic for topic in topics}
