"""This room creates topics: what is asked for is judged, rows first, leaders by a worker (002 B).

Names, counts, assignments and configs: conformance lines 199 to 204. The answer leaves when all partitions
lead, or at the request's timeout.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid5

import msgspec

from controller.core.draft import Draft
from controller.core.election import never_led
from controller.core.events import LinkId, RequestSeat, Say
from controller.core.placement import Place, place
from controller.core.proposing import Task
from controller.core.records import WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.state import ParkedAnswer
from muster.kernel import topic_configs
from muster.kernel.config_kinds import BadConfig
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import after
from muster.kernel.topic_names import WHAT_CAN_NAME_A_TOPIC, can_name_a_topic
from muster.messages.link.from_broker import CreateTopics, NewTopic
from muster.messages.link.rows import NO_LEADER, BrokerRow, PartitionRow, TopicRow
from muster.messages.link.to_broker import CreatedTopic, CreateTopicsAnswer, TopicResults

FIRST_NODE_ID: Final = 10_001
"""Nodes are numbered from here, brokers below; clients are told of both."""

METADATA_LOG: Final = "__cluster_metadata"

LED_ONE_BY_ONE_MAX: Final = 10
"""Of more topics in one request a worker finds the leaders together: an item of work costs some transactions,
and a thousand of them take half a minute where clients wait for as long."""

NOBODY_IS_LIVE: Final = "no broker is live that is not cordoned"
"""Why there is no place for a replica that could lead."""


class Refused(Exception):
    """One topic of a request is refused; the others go on."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error
        self.text = text


def check_version(what: str, version: int, expected_version: int | None) -> None:
    """Raise Refused unless the row is as whoever asks has looked at it; None: whatever it is."""
    if expected_version not in (None, version):
        text = f"{what} is at version {version} by now, and {expected_version} was looked at"
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, text)


def create(draft: Draft, link: LinkId, frame: CreateTopics, fresh: UUID) -> None:
    """Write the rows of every topic that can be created; the answer leaves when all of them lead.

    Nothing to wait for (all refused, or `validate_only`): the answer leaves with this turn. The topics' ids
    follow from `fresh`, which nobody else has.
    """
    named = Counter(one.name for one in frame.topics)
    led, where = preferred_leaders(draft), places(draft)
    results: list[CreatedTopic] = []
    room_left = draft.settings.max_partitions_per_request
    for place_in_request, wanted in enumerate(frame.topics):
        topic_id = uuid5(fresh, str(place_in_request))
        try:
            if named[wanted.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            topic, assignments = _plan(draft, wanted, topic_id, room_left, led, where)
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
    made = [one.topic_id for one in results if one.topic_id is not None]
    want_leaders(draft, made)
    answer = CreateTopicsAnswer(correlation_id=frame.correlation_id, topics=tuple(results))
    answer_when_led(draft, link, answer, frozenset(made), frame.timeout_ms)


def answer_when_led(
    draft: Draft,
    link: LinkId,
    answer: CreateTopicsAnswer | TopicResults,
    waiting_for: frozenset[UUID],
    timeout_ms: int,
) -> None:
    """Say `answer` when every partition of these topics has led, or at the timeout; to a seat at once.

    A row outlives this owner's memory: whoever asked by it looks at the partitions himself.
    """
    if isinstance(link, RequestSeat):
        draft.replies.append(Say(link, answer))
        return
    draft.memory.parked.append(ParkedAnswer(link, answer, waiting_for, after(draft.now, timeout_ms)))


def not_written(frame: CreateTopics, why: str) -> CreateTopicsAnswer:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nothing was created"
    topics = tuple(
        CreatedTopic(name=one.name, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text) for one in frame.topics
    )
    return CreateTopicsAnswer(correlation_id=frame.correlation_id, topics=topics)


def release_answers(draft: Draft) -> None:
    """Answer whoever's partitions all lead by the end of this turn, and whose time is over."""
    kept = []
    for parked in draft.memory.parked:
        late = {topic_id for topic_id in parked.waiting_for if not _all_lead(draft, topic_id)}
        if late and parked.due_at > draft.now:
            kept.append(parked)
        else:
            draft.replies.append(Say(parked.link, _with_late(parked.answer, late)))
    draft.memory.parked = kept


def _all_lead(draft: Draft, topic_id: UUID) -> bool:
    return not any(never_led(row) for row in draft.partitions_of_topic(topic_id))


def _with_late(
    answer: CreateTopicsAnswer | TopicResults, late: Container[UUID | None]
) -> CreateTopicsAnswer | TopicResults:
    text = "it is made, but not all of its partitions have leaders yet"
    topics = tuple(
        msgspec.structs.replace(one, error=ErrorCode.REQUEST_TIMED_OUT, text=text)
        if one.topic_id in late
        else one
        for one in answer.topics
    )
    return msgspec.structs.replace(answer, topics=topics)


def _plan(
    draft: Draft,
    wanted: NewTopic,
    topic_id: UUID,
    room_left: int,
    led: Counter[int],
    where: Sequence[Place],
) -> tuple[TopicRow, list[tuple[int, ...]]]:
    """The topic's row and the assignment of each partition; raises Refused."""
    check_name(wanted.name)
    if wanted.name == METADATA_LOG:
        text = f"Kafka's tools take {METADATA_LOG} for the log of its controllers; choose another name"
        raise Refused(ErrorCode.INVALID_REQUEST, text)
    like = draft.topic_named_like(wanted.name)
    if like is not None and like.name == wanted.name:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {wanted.name} exists")
    if like is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name collides with topic {like.name}")
    configs = check_configs(wanted.configs)
    if wanted.assignments:
        assignments = check_assignments(wanted, draft.all_brokers(), draft.live())
        partition_count, factor = len(assignments), len(assignments[0])
    else:
        partition_count, factor = counts(wanted, where, draft.settings)
    if partition_count > room_left:
        most = draft.settings.max_partitions_per_request
        raise Refused(ErrorCode.POLICY_VIOLATION, f"one request creates at most {most} partitions")
    if not wanted.assignments:
        assignments = place(where, partition_count, factor, led)
    return TopicRow(topic_id, wanted.name, partition_count, factor, configs), assignments


def places(draft: Draft) -> list[Place]:
    """Where replicas may go: the brokers that are not cordoned, and their racks."""
    live, troubled = draft.live(), _in_trouble(draft)
    return [
        Place(b, row.rack, b in troubled, b not in live)
        for b, row in draft.all_brokers().items()
        if not row.cordoned
    ]


def _in_trouble(draft: Draft) -> set[int]:
    """Brokers that said that their disk is full, or that logs which they are to hold cannot be used."""
    full = {broker_id for broker_id, one in draft.memory.sessions.items() if one.disk_is_full}
    failed = {
        broker_id
        for broker_id, keys in draft.memory.unusable.items()
        if any((row := draft.partition(key)) and broker_id in row.assigned for key in keys)
    }
    return full | failed


def preferred_leaders(draft: Draft) -> Counter[int]:
    """How many partitions each broker is to lead, with those that this turn has created so far."""
    stored = draft.rows.partitions.by_topic
    created = (
        row.assigned[0]
        for topic_id in draft.topics
        for number, row in draft.partitions.by_topic.get(topic_id, {}).items()
        if number not in stored.get(topic_id, {})
    )
    return draft.rows.preferred + Counter(created)


def _write(draft: Draft, topic: TopicRow, assignments: list[tuple[int, ...]]) -> None:
    draft.put_topic(topic)
    put_partitions(draft, topic, 0, assignments)


def put_partitions(draft: Draft, topic: TopicRow, first: int, assignments: Sequence[tuple[int, ...]]) -> None:
    """New partitions of a topic, numbered from `first`.

    Leader epochs go on above those of removed partitions (`epoch_begins_again`).
    """
    base = topic.removed_epoch
    for number, assigned in enumerate(assignments, start=first):
        draft.put_partition(
            PartitionRow(
                topic.topic_id, number, assigned, NO_LEADER, base, (), draft.version, base_epoch=base
            )
        )


def want_leaders(draft: Draft, topic_ids: Sequence[UUID]) -> None:
    """A worker proposes who leads the new partitions of these topics."""
    offered = [(Task.TOPIC_CHANGE, str(one)) for one in topic_ids]
    if len(offered) > LED_ONE_BY_ONE_MAX:
        # As after a takeover: all partitions that never had a leader.
        offered = [(Task.CONTROLLER_FAILOVER, "")]
    draft.other_records += [WorkOffered(str(task), key, draft.version) for task, key in offered]


def check_name(name: str) -> None:
    """Raise Refused unless `name` can name a topic."""
    if not can_name_a_topic(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, WHAT_CAN_NAME_A_TOPIC)


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configs as they are stored; raises Refused for one that Muster does not act on."""
    try:
        stored = {key: topic_configs.checked(key, value) for key, value in configs.items()}
        topic_configs.check_together(stored)
        return stored
    except BadConfig as bad:
        raise Refused(ErrorCode.INVALID_CONFIG, str(bad)) from bad


def counts(wanted: NewTopic, where: Sequence[Place], settings: ControllerSettings) -> tuple[int, int]:
    """Partition count and replication factor of an automatic placement; raises Refused."""
    partitions = settings.default_partition_count if wanted.partition_count == -1 else wanted.partition_count
    factor = (
        settings.default_replication_factor if wanted.replication_factor == -1 else wanted.replication_factor
    )
    if factor < 1:
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "a partition has at least one replica")
    if partitions < 1:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "a topic has at least one partition")
    require_places(factor, where)
    return partitions, factor


def require_places(factor: int, where: Sequence[Place]) -> None:
    """Raise Refused unless there are as many places as a partition has replicas, and one to lead it.

    Who is away follows when it is back: topics are made while brokers restart one after the other, too.
    """
    if factor > len(where):
        text = f"{factor} replicas need as many brokers that are not cordoned, and there are {len(where)}"
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if all(one.is_away for one in where):
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, NOBODY_IS_LIVE)


def check_assignments(
    wanted: NewTopic, registered: Mapping[int, BrokerRow], live: set[int]
) -> list[tuple[int, ...]]:
    """The explicit assignments in order of partition; raises Refused."""
    if wanted.partition_count != -1 or wanted.replication_factor != -1:
        raise Refused(ErrorCode.INVALID_REQUEST, "assignments exclude a partition count and a factor")
    if sorted(wanted.assignments) != list(range(len(wanted.assignments))):
        raise _bad_assignment("partitions are not numbered from 0 without a gap")
    assignments = [wanted.assignments[number] for number in range(len(wanted.assignments))]
    check_replicas(assignments, len(assignments[0]), registered, live)
    return assignments


def check_replicas(
    assignments: Sequence[tuple[int, ...]], factor: int, registered: Mapping[int, BrokerRow], live: set[int]
) -> None:
    """Raise Refused unless each has `factor` different registered brokers, one live and none cordoned."""
    for assigned in assignments:
        if not assigned or len(set(assigned)) != len(assigned) or len(assigned) != factor:
            raise _bad_assignment("each partition needs the same number of different brokers")
        if unknown := [broker_id for broker_id in assigned if broker_id not in registered]:
            raise _bad_assignment(why_unknown(unknown[0]))
        if cordoned := [broker_id for broker_id in assigned if registered[broker_id].cordoned]:
            raise _bad_assignment(f"broker {cordoned[0]} is cordoned: it gets no new replicas")
        if live.isdisjoint(assigned):
            raise _bad_assignment("all brokers of a partition are away")


def why_unknown(broker_id: int) -> str:
    """What is said to whoever takes an id for a broker's."""
    if broker_id >= FIRST_NODE_ID:
        return f"{broker_id} is a node, and nodes hold no replicas"
    return f"broker {broker_id} never registered"


def _bad_assignment(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
