"""This room finds what groups committed and nobody needs any more; who owns the group decides about it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from coordinator.core.events import AgedOffset
from coordinator.statements import statement
from muster.messages.partitions import Partition
from runtime.postgres import LaneConnection


class Outlived(NamedTuple):
    """By group: offsets that are older than they are kept, ids of topics that are no more, and offsets of
    partitions that were removed.

    `empty_ms`: for how long those have been without members that have been so for the retention.
    """

    aged: Mapping[str, list[AgedOffset]]
    empty_ms: Mapping[str, int]
    topics: Mapping[str, frozenset[UUID]]
    removed: Mapping[str, list[tuple[Partition, int]]] = {}


def find(connection: LaneConnection, shard: int, retention_minutes: int) -> Outlived:
    """Of the groups of one shard."""
    values = {"shard": shard, "retention_minutes": retention_minutes}
    aged: dict[str, list[AgedOffset]] = defaultdict(list)
    for group, topic, topic_id, number, offset, age_ms, stamp_passed in connection.execute(
        statement("aged_offsets"), values
    ):
        aged[group].append(AgedOffset(Partition(topic, topic_id, number), offset, age_ms, stamp_passed))
    empty_ms = dict(connection.execute(statement("emptied_groups"), values).fetchall())
    topics: dict[str, set[UUID]] = defaultdict(set)
    for group, topic_id in connection.execute(statement("orphaned_offsets"), values):
        topics[group].add(topic_id)
    removed: dict[str, list[tuple[Partition, int]]] = defaultdict(list)
    for group, topic, topic_id, number, offset in connection.execute(statement("removed_offsets"), values):
        removed[group].append((Partition(topic, topic_id, number), offset))
    return Outlived(aged, empty_ms, {group: frozenset(ids) for group, ids in topics.items()}, removed)
