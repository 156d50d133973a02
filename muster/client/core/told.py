"""This room reads what a StartFetcher tells a member: what it owns, and what it stands by for."""

from collections.abc import Iterable

from muster.messages.member import AssignedTopic, StartFetcherRequest
from muster.messages.partitions import Partition


def whole_ownership(request: StartFetcherRequest) -> dict[Partition, int]:
    """Everything that the member owns, with what is committed."""
    return {one: at for thread in request.ownership_info for one, at in _each(thread.assigned_parts)}


def threads(request: StartFetcherRequest) -> dict[Partition, str]:
    """To which consumer thread each of them was dealt."""
    return {
        one: thread.consumer_thread_id
        for thread in request.ownership_info
        for one, _ in _each(thread.assigned_parts)
    }


def standbys(request: StartFetcherRequest) -> dict[Partition, int]:
    """Everything that it stands by for, with what is committed."""
    return dict(_each(request.standby_info))


def _each(topics: Iterable[AssignedTopic]) -> Iterable[tuple[Partition, int]]:
    for topic in topics:
        for one in topic.partitions:
            yield Partition(topic.topic, topic.topic_id, one.partition), one.offset
