"""This room reads what a member is told: what it owns and stands by for, and what was not committed."""

from collections.abc import Iterable

from muster.kernel.error_codes import ErrorCode
from muster.messages.member import AssignedTopic, CommitOffsetsResponse, StartFetcherRequest
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


def refused(answer: CommitOffsetsResponse) -> dict[Partition, ErrorCode]:
    """Which partitions of a commit were refused, and why."""
    return {
        Partition(topic.topic, topic.topic_id, one.partition): ErrorCode(one.error_code)
        for topic in answer.refused
        for one in topic.partitions
    }


def why_refused(answer: CommitOffsetsResponse) -> str:
    """Of the last commit before a leave, in words; empty if nothing was refused."""
    errors = [ErrorCode(answer.error_code), *refused(answer).values()]
    names = sorted({one.name for one in errors if one is not ErrorCode.NONE})
    return f"its last commit was refused: {', '.join(names)}" if names else ""


def _each(topics: Iterable[AssignedTopic]) -> Iterable[tuple[Partition, int]]:
    for topic in topics:
        for one in topic.partitions:
            yield Partition(topic.topic, topic.topic_id, one.partition), one.offset
