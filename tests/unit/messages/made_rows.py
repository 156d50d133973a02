"""This room words rows of partitions as alike partitions, one by one or gathered, for tests."""

from collections.abc import Iterable

from controller.core.proposing import Seats
from controller.core.records import PartitionsChanged
from muster.messages.link.rows import AlikePartitions, PartitionRow


def alone(row: PartitionRow) -> AlikePartitions:
    """A partition like no other."""
    return _alike([row])


def changed(row: PartitionRow, base_version: int) -> PartitionsChanged:
    """The record of one partition's change."""
    return PartitionsChanged(alone(row), row.version, (base_version,))


def seats(rows: Iterable[PartitionRow]) -> list[Seats]:
    """How partitions stand, as a worker reads it: each way once."""
    return list(dict.fromkeys(map(Seats.of, rows)))


def gathered(rows: Iterable[PartitionRow]) -> list[AlikePartitions]:
    """Rows as they are told and stored: alike ones together."""
    found: dict[object, list[PartitionRow]] = {}
    for row in rows:
        kind = row.leader_epoch, row.removing, row.throttle, row.base_epoch, row.unproven
        found.setdefault((Seats.of(row), *kind), []).append(row)
    return [_alike(some) for some in found.values()]


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
