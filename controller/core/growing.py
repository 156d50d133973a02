"""This room adds partitions to topics: the new ones are placed, and led, as those of a new topic (002 B)."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from controller.core.draft import Draft
from controller.core.events import LinkId
from controller.core.placement import Place, place
from controller.core.topics import (
    Refused,
    answer_when_led,
    check_replicas,
    check_version,
    places,
    preferred_leaders,
    put_partitions,
    require_places,
    want_leaders,
)
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import CreatePartitions, GrownTopic
from muster.messages.link.rows import TopicRow
from muster.messages.link.to_broker import TopicResult, TopicResults


def grow(draft: Draft, link: LinkId, frame: CreatePartitions) -> None:
    """Add what can be added; the answer leaves when all partitions of the topics lead (conformance 207)."""
    named = Counter(one.name for one in frame.topics)
    led, where = preferred_leaders(draft), places(draft)
    results = []
    room_left = draft.settings.max_partitions_per_request
    for wanted in frame.topics:
        try:
            if named[wanted.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            topic, assignments = _plan(draft, wanted, room_left, led, where)
        except Refused as refused:
            results.append(TopicResult(name=wanted.name, error=refused.error, text=refused.text))
            continue
        room_left -= len(assignments)
        led.update(assigned[0] for assigned in assignments)
        if not frame.validate_only:
            draft.change_topic(msgspec.structs.replace(topic, partition_count=wanted.partition_count))
            put_partitions(draft, topic, topic.partition_count, assignments)
        topic_id = None if frame.validate_only else topic.topic_id
        results.append(TopicResult(name=topic.name, topic_id=topic_id))
    grown = [one.topic_id for one in results if one.topic_id is not None]
    want_leaders(draft, grown)
    answer = TopicResults(correlation_id=frame.correlation_id, topics=tuple(results))
    answer_when_led(draft, link, answer, frozenset(grown), frame.timeout_ms)


def _plan(
    draft: Draft, wanted: GrownTopic, room_left: int, led: Counter[int], where: Sequence[Place]
) -> tuple[TopicRow, list[tuple[int, ...]]]:
    """The topic as it is, and the replicas of each new partition; raises Refused."""
    topic = draft.topic_named_like(wanted.name)
    if topic is None or topic.name != wanted.name:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name}")
    check_version(f"topic {topic.name}", topic.version, wanted.expected_version)
    if topic.topic_id in draft.removed:
        text = "partitions of it are removed in this very moment: look at it again"
        raise Refused(ErrorCode.OPERATION_NOT_ATTEMPTED, text)
    added = wanted.partition_count - topic.partition_count
    if added < 1:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name} has {topic.partition_count} partitions already; for fewer remove some",
        )
    if added > room_left:
        most = draft.settings.max_partitions_per_request
        raise Refused(ErrorCode.POLICY_VIOLATION, f"one request creates at most {most} partitions")
    factor = topic.replication_factor
    if wanted.assignments is not None:
        if len(wanted.assignments) != added:
            text = f"{added} partitions are new, and {len(wanted.assignments)} assignments are given"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        assignments = list(wanted.assignments)
        check_replicas(assignments, factor, draft.all_brokers(), draft.live())
        return topic, assignments
    require_places(factor, where)
    return topic, place(where, added, factor, led)


def not_written(frame: CreatePartitions, why: str) -> TopicResults:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nothing was created"
    return TopicResults(
        correlation_id=frame.correlation_id,
        topics=tuple(
            TopicResult(name=one.name, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text)
            for one in frame.topics
        ),
    )
