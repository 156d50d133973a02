"""This room writes StartFetcher: a member's whole ownership by thread, with where to start (section 4)."""

from coordinator.core.offsets import NO_OFFSET
from coordinator.core.settings import Surroundings
from coordinator.core.state import GroupState, Member
from muster.messages.member import AssignedPartition, AssignedTopic, StartFetcherRequest, ThreadOwnership
from muster.messages.partitions import Partition


def start_offset(state: GroupState, partition: Partition) -> int:
    """Where an owner starts: the dirty offset if there is one, else the committed one, else −1."""
    dirty = state.memory.dirty.get(partition)
    return state.rows.offsets.get(partition, NO_OFFSET) if dirty is None else dirty


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
        nodes=surroundings.nodes,
        brokers_info=surroundings.brokers,
    )


def threads_of(member: Member, topic: str) -> int:
    """With how many streams the member reads the topic; a pattern's number where no entry names it."""
    by_pattern = 1
    for entry in member.topic_count:
        if entry.topic == topic and not entry.is_pattern:
            return entry.threads
        if entry.is_pattern:
            by_pattern = max(by_pattern, entry.threads)
    return by_pattern
