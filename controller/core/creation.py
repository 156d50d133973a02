"""This room creates topics: rows first, leaders by a worker's proposal, the answer when they lead (002 B)."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from controller.core.draft import Draft
from controller.core.events import Say, TopicsWanted
from controller.core.placement import Place, place
from controller.core.proposing import Task
from controller.core.records import WorkOffered
from controller.core.state import ParkedAnswer
from controller.core.topics import Refused, check_assignments, check_configs, check_name, counts
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.link.from_broker import NewTopic
from muster.messages.link.rows import NO_LEADER, PartitionRow, TopicRow
from muster.messages.link.to_broker import CreatedTopic, CreateTopicsAnswer


def create_topics(draft: Draft, event: TopicsWanted, now: Instant) -> list[Say]:
    """Write the rows of every topic that can be created; the answer leaves when all of them lead.

    Nothing to wait for (all refused, or `validate_only`): the answer leaves with this turn.
    """
    frame = event.frame
    named = Counter(one.name for one in frame.topics)
    led = _preferred_leaders(draft)
    results: list[CreatedTopic] = []
    room_left = draft.settings.max_partitions_per_request
    for wanted, topic_id in zip(frame.topics, event.topic_ids, strict=True):
        try:
            if named[wanted.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            topic, assignments = _plan(draft, wanted, topic_id, room_left, led)
        except Refused as refused:
            results.append(CreatedTopic(name=wanted.name, error=refused.error, text=refused.text))
            continue
        room_left -= topic.partition_count
        led.update(assigned[0] for assigned in assignments)
        if not frame.validate_only:
            _write(draft, topic, assignments)
        results.append(
            CreatedTopic(
                name=topic.name,
                topic_id=None if frame.validate_only else topic.topic_id,
                partition_count=topic.partition_count,
                replication_factor=topic.replication_factor,
            )
        )
    waiting_for = frozenset(one.topic_id for one in results if one.topic_id is not None)
    answer = ParkedAnswer(
        event.link, frame.correlation_id, tuple(results), waiting_for, after(now, frame.timeout_ms)
    )
    if not waiting_for:
        return [_answer(answer, {})]
    draft.memory.parked.append(answer)
    return []


def not_written(event: TopicsWanted) -> Say:
    """The answer to a request whose turn could not be written."""
    text = "the database did not take it in time; nothing was created"
    topics = tuple(
        CreatedTopic(name=one.name, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text)
        for one in event.frame.topics
    )
    answer = CreateTopicsAnswer(correlation_id=event.frame.correlation_id, topics=topics)
    return Say(event.link, answer)


def release_answers(draft: Draft, now: Instant) -> list[Say]:
    """Answer whoever's partitions all lead by the end of this turn, and whose time is over."""
    said = []
    kept = []
    for parked in draft.memory.parked:
        late = {topic_id for topic_id in parked.waiting_for if not _all_lead(draft, topic_id)}
        if late and parked.due_at > now:
            kept.append(parked)
        else:
            text = "created, but not all of its partitions have leaders yet"
            said.append(_answer(parked, dict.fromkeys(late, text)))
    draft.memory.parked = kept
    return said


def _all_lead(draft: Draft, topic_id: UUID) -> bool:
    return all(row.leader != NO_LEADER for row in draft.partitions_of_topic(topic_id))


def _answer(parked: ParkedAnswer, late: Mapping[UUID, str]) -> Say:
    topics = tuple(
        CreatedTopic(
            name=one.name,
            error=ErrorCode.REQUEST_TIMED_OUT,
            text=late[one.topic_id],
            topic_id=one.topic_id,
            partition_count=one.partition_count,
            replication_factor=one.replication_factor,
        )
        if one.topic_id is not None and one.topic_id in late
        else one
        for one in parked.topics
    )
    return Say(parked.link, CreateTopicsAnswer(correlation_id=parked.correlation_id, topics=topics))


def _plan(
    draft: Draft, wanted: NewTopic, topic_id: UUID, room_left: int, led: Counter[int]
) -> tuple[TopicRow, list[tuple[int, ...]]]:
    """The topic's row and the assignment of each partition; raises Refused."""
    check_name(wanted.name)
    like = draft.topic_named_like(wanted.name)
    if like is not None and like.name == wanted.name:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {wanted.name} exists")
    if like is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name collides with topic {like.name}")
    configs = check_configs(wanted.configs)
    live = draft.live()
    if wanted.assignments:
        assignments = check_assignments(wanted, draft.all_brokers(), live)
        partition_count, factor = len(assignments), len(assignments[0])
    else:
        partition_count, factor = counts(wanted, len(live), draft.settings)
    if partition_count > room_left:
        most = draft.settings.max_partitions_per_request
        raise Refused(ErrorCode.POLICY_VIOLATION, f"one request creates at most {most} partitions")
    if not wanted.assignments:
        assignments = place(_places(draft, live), partition_count, factor, led)
    return TopicRow(topic_id, wanted.name, partition_count, factor, configs), assignments


def _places(draft: Draft, live: set[int]) -> list[Place]:
    return [Place(b, row.rack) for b, row in draft.all_brokers().items() if b in live]


def _preferred_leaders(draft: Draft) -> Counter[int]:
    """How many partitions each broker is to lead; counted once a request, however many topics it names."""
    return Counter(row.assigned[0] for row in draft.all_partitions())


def _write(draft: Draft, topic: TopicRow, assignments: list[tuple[int, ...]]) -> None:
    draft.put_topic(topic)
    for number, assigned in enumerate(assignments):
        draft.put_partition(PartitionRow(topic.topic_id, number, assigned, NO_LEADER, 0, (), draft.version))
    draft.other_records.append(WorkOffered(str(Task.TOPIC_CHANGE), str(topic.topic_id), draft.version))
