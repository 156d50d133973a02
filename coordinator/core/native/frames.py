"""This room words a turn for native members: answers, then commands (section 4).

Their order is StartFetcher with the whole ownership by thread; StopFetcher of an attempt that is still open;
pings; hang-ups.
"""

from collections.abc import Iterable
from functools import partial
from uuid import UUID

from coordinator.core.draft import Draft, Welcome
from coordinator.core.events import Say, Saying, SayLater
from coordinator.core.memory import GroupState
from coordinator.core.offsets import NO_OFFSET, Judgement
from coordinator.core.settings import Surroundings
from groups.core.state import Key, Member
from groups.core.subscriptions import wanted
from muster.messages.member import (
    AssignedPartition,
    AssignedTopic,
    CommitOffsetsResponse,
    PartitionError,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StopFetcherRequest,
    ThreadOwnership,
    TopicErrors,
)
from muster.messages.partitions import Partition, by_topic


def word(draft: Draft, state: GroupState) -> tuple[tuple[Saying, ...], tuple[Saying, ...]]:
    """The answers and the commands of a turn, from the state after it."""
    return tuple(_answer(answer, state.rows.key) for answer in draft.answers), tuple(_commands(draft, state))


def _answer(answer: Say | Welcome, key: Key) -> Say:
    if isinstance(answer, Say):
        return answer
    return Say(
        answer.connection,
        RegisterConsumerResponse(
            correlation_id=answer.correlation_id,
            known=answer.known,
            generation=key.generation,
            version=key.version,
        ),
    )


def _commands(draft: Draft, state: GroupState) -> Iterable[Saying]:
    key = state.rows.key
    for member_id in draft.starts:
        session = draft.sessions.get(member_id)
        if session is not None and session.connection is not None:
            yield SayLater(session.connection, partial(start_fetcher, state, member_id, draft.surroundings))
    if draft.attempt is not None:
        for member_id, partitions in draft.stops.items():
            connection = draft.sessions[member_id].connection
            if connection is not None:
                yield SayLater(connection, partial(stop_fetcher, key, member_id, partitions))
    for connection, ping in draft.pings:
        yield Say(connection, ping)
    yield from draft.hang_ups


def commit_answer(correlation_id: int, judgement: Judgement) -> CommitOffsetsResponse:
    """The answer to a CommitOffsets that was judged so."""
    if not judgement.refused:
        return CommitOffsetsResponse(correlation_id=correlation_id, error_code=judgement.error)
    refused: dict[tuple[str, UUID], list[PartitionError]] = {}
    last_name, last_id, errors = "", None, list[PartitionError]()
    for (name, topic_id, number), error in judgement.refused.items():
        if topic_id is not last_id or name != last_name:
            # Mostly it is the one before; of an id the hash is computed in Python, each time.
            last_name, last_id = name, topic_id
            errors = refused.setdefault((name, topic_id), [])
        errors.append(PartitionError(number, error))
    return CommitOffsetsResponse(
        correlation_id=correlation_id,
        error_code=judgement.error,
        refused=tuple(
            TopicErrors(name, topic_id, tuple(errors)) for (name, topic_id), errors in refused.items()
        ),
    )


def start_offset(state: GroupState, partition: Partition) -> int:
    """Where an owner starts: the dirty offset if there is one, else the committed one, else −1."""
    dirty = state.memory.dirty.get(partition)
    return state.rows.offsets.get(partition, NO_OFFSET) if dirty is None else dirty


def stop_fetcher(key: Key, member_id: str, partitions: Iterable[Partition]) -> StopFetcherRequest:
    """What a loser gives up, with the key of the turn that opened the attempt."""
    return StopFetcherRequest(
        consumer_id=member_id,
        generation=key.generation,
        version=key.version,
        partitions=by_topic(partitions),
    )


def start_fetcher(state: GroupState, member_id: str, surroundings: Surroundings) -> StartFetcherRequest:
    """All rows that name the member, dealt to its threads topic by topic; costs what the member owns."""
    member = state.rows.members[member_id]
    by_thread: dict[int, list[AssignedTopic]] = {}
    owned = sorted(state.rows.owned.get(member_id, ()))
    start = 0
    while start < len(owned):
        topic, topic_id, _ = owned[start]
        end = start
        while end < len(owned) and owned[end].topic_id == topic_id and owned[end].topic == topic:
            end += 1
        threads = threads_of(member, topic)
        for thread in range(min(threads, end - start)):
            mine = owned[start + thread : end : threads]
            parts = tuple(AssignedPartition(one.number, start_offset(state, one)) for one in mine)
            by_thread.setdefault(thread, []).append(AssignedTopic(topic, topic_id, parts))
        start = end
    return StartFetcherRequest(
        consumer_id=member_id,
        generation=state.rows.generation,
        version=state.rows.version,
        num_threads=len(by_thread),
        ownership_info=tuple(
            ThreadOwnership(f"{member_id}-{thread}", tuple(topics))
            for thread, topics in sorted(by_thread.items())
        ),
        standby_info=tuple(_stood_by(state, member_id)),
        nodes=surroundings.nodes,
        brokers_info=surroundings.brokers,
    )


def _stood_by(state: GroupState, member_id: str) -> Iterable[AssignedTopic]:
    for one in by_topic(state.rows.standbys.get(member_id, ())):
        places = (Partition(one.topic, one.topic_id, number) for number in one.partitions)
        told = tuple(AssignedPartition(place.number, start_offset(state, place)) for place in places)
        yield AssignedTopic(one.topic, one.topic_id, told)


def threads_of(member: Member, topic: str) -> int:
    """With how many streams the member reads the topic; a pattern's number where no entry names it."""
    asked = wanted(member.topic_count)
    return asked.threads.get(topic, asked.threads_by_pattern)
