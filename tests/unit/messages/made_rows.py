"""This room words rows of partitions as alike partitions, one by one or gathered, for tests."""

from collections.abc import Iterable

from controller.core.proposing import StoredPartitions
from controller.core.records import PartitionsChanged
from muster.messages.link.rows import AlikePartitions, PartitionRow


def alone(row: PartitionRow) -> AlikePartitions:
    """A partition like no other."""
    return _alike([row])


def changed(row: PartitionRow, base_version: int) -> PartitionsChanged:
    """The record of one partition's change."""
    return PartitionsChanged(alone(row), row.version, (base_version,))


def stored(rows: Iterable[PartitionRow]) -> list[StoredPartitions]:
    """Rows as a worker reads them: alike ones together."""
    gathered: dict[object, list[PartitionRow]] = {}
    for row in rows:
        seats = row.assigned, row.leader, row.leader_epoch, row.isr, row.adding, row.removing
        kind = (row.topic_id, *seats, row.throttle, row.base_epoch, row.unproven)
        gathered.setdefault(kind, []).append(row)
    return [StoredPartitions(_alike(some), tuple(row.version for row in some)) for some in gathered.values()]


def _alike(rows: list[PartitionRow]) -> AlikePartitions:
    first = rows[0]
    numbers = tuple(row.partition for row in rows)
    return AlikePartitions(
        first.topic_id,
        first.assigned,
        first.leader,
        first.leader_epoch,
        first.isr,
        numbers,
        first.adding,
        first.removing,
        first.throttle,
        first.base_epoch,
        first.unproven,
    )
