"""This room turns what a turn changed into frames: one per broker, a snapshot in chunks (002 A.4, D.4)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster.messages.cluster import (
    MAX_ROWS_PER_CHANGES,
    MAX_ROWS_PER_FRAME,
    BrokerRow,
    Changes,
    PartitionRow,
    SnapshotChunk,
    TopicRow,
)


class RowChange(NamedTuple):
    """A partition's row before the turn (None: new) and after it."""

    before: PartitionRow | None
    row: PartitionRow


class TurnChanges(NamedTuple):
    """Everything a turn changed, as all brokers must hear it."""

    metadata_version: int
    controller_epoch: int
    partitions: Sequence[RowChange]
    brokers: Sequence[BrokerRow]
    topics: Sequence[TopicRow]


def frames_for(broker_id: int, turn: TurnChanges) -> list[Changes]:
    """What one broker is told: rows of its replicas as LeaderAndIsr or StopReplica, the others as metadata.

    One frame, also where nothing concerns the broker: it states the version of the turn in its pings.
    """
    parts = [
        turn.partitions[at : at + MAX_ROWS_PER_CHANGES]
        for at in range(0, len(turn.partitions), MAX_ROWS_PER_CHANGES)
    ] or [()]
    return [
        _frame(broker_id, turn, part, number == 0, number == len(parts) - 1)
        for number, part in enumerate(parts)
    ]


def _frame(
    broker_id: int, turn: TurnChanges, part: Sequence[RowChange], first: bool, complete: bool
) -> Changes:
    leader_and_isr: list[PartitionRow] = []
    stop_replica: list[PartitionRow] = []
    partitions: list[PartitionRow] = []
    for before, row in part:
        if broker_id in row.assigned:
            leader_and_isr.append(row)
        elif before is not None and broker_id in before.assigned:
            stop_replica.append(row)
        else:
            partitions.append(row)
    return Changes(
        metadata_version=turn.metadata_version,
        controller_epoch=turn.controller_epoch,
        complete=complete,
        leader_and_isr=tuple(leader_and_isr),
        stop_replica=tuple(stop_replica),
        partitions=tuple(partitions),
        brokers=tuple(turn.brokers) if first else (),
        topics=tuple(turn.topics) if first else (),
    )


def snapshot(
    metadata_version: int,
    brokers: Iterable[BrokerRow],
    topics: Iterable[TopicRow],
    partitions: Iterable[PartitionRow],
) -> list[SnapshotChunk]:
    """Everything, in numbered chunks of at most MAX_ROWS_PER_FRAME partitions."""
    rows = tuple(partitions)
    parts = [rows[at : at + MAX_ROWS_PER_FRAME] for at in range(0, len(rows), MAX_ROWS_PER_FRAME)] or [()]
    return [
        SnapshotChunk(
            metadata_version=metadata_version,
            number=number,
            last=number == len(parts) - 1,
            brokers=tuple(brokers) if number == 0 else (),
            topics=tuple(topics) if number == 0 else (),
            partitions=part,
        )
        for number, part in enumerate(parts)
    ]
