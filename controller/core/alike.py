"""This room gathers what a turn made of partitions: those that became alike are told and stored once."""

from collections.abc import Mapping
from typing import TypeAlias
from uuid import UUID

from controller.core.dispatch import AlikeChange, differs
from muster.messages.link.rows import AlikePartitions, PartitionRow

_Replicas: TypeAlias = tuple[int, ...]
_Alike: TypeAlias = tuple[
    _Replicas | None, _Replicas, int, int, _Replicas, _Replicas, _Replicas, int, int, int
]
"""Replicas before the turn (None: new), then what the row has from its replicas on, its version left out."""


def alike_changes(
    by_topic: Mapping[UUID, dict[int, PartitionRow]], stored_by_topic: Mapping[UUID, dict[int, PartitionRow]]
) -> list[AlikeChange]:
    """What became of the touched partitions; a row that is again what it was is dropped from `by_topic`."""
    changes = []
    for topic_id, drafted in by_topic.items():
        stored = stored_by_topic.get(topic_id, {})
        gathered: dict[_Alike, tuple[list[int], list[int]]] = {}
        for number, row in tuple(drafted.items()):
            before = stored.get(number)
            if before is not None and not differs(before, row):
                del drafted[number]
                continue
            alike = (
                before.assigned if before is not None else None,
                row.assigned,
                row.leader,
                row.leader_epoch,
                row.isr,
                row.adding,
                row.removing,
                row.throttle,
                row.base_epoch,
                row.unproven,
            )
            numbers, bases = gathered.get(alike) or gathered.setdefault(alike, ([], []))
            numbers.append(number)
            bases.append(before.version if before is not None else 0)
        for alike, (numbers, bases) in gathered.items():
            assigned_before, assigned, leader, epoch, isr, adding, removing, rate, base, unproven = alike
            places = tuple(numbers)
            partitions = AlikePartitions(
                topic_id, assigned, leader, epoch, isr, places, adding, removing, rate, base, unproven
            )
            changes.append(AlikeChange(assigned_before, partitions, tuple(bases)))
    return changes
