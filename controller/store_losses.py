"""This room loads and saves elections that may have lost records, inside the turn's transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from psycopg import Cursor

from controller import statements_losses as statements
from controller.core import records as facts
from controller.core.loss_rows import Cut, Loss
from controller.statements import arrays, numbers, uuids
from controller.store_moves import as_json, require


def load(cursor: Cursor[Any]) -> list[Loss]:
    """Those of which somebody may still tell, or is to be told."""
    return [_loss(*row) for row in cursor.execute(statements.READ_LOSSES).fetchall()]


def close(cursor: Cursor[Any], topic_ids: Iterable[UUID], first: int = 0) -> None:
    """The partitions of these topics from `first` on are no more."""
    cursor.execute(statements.CLOSE_LOSSES, {"topic_id": uuids(topic_ids), "first": first})


def change(cursor: Cursor[Any], kinds: Mapping[type, Sequence[Any]]) -> None:
    """Write what a turn did to stored ones, before it takes their partitions away, which closes them.

    Raises VersionConflict if it fits the rows no more.
    """
    if changed := [record.row for record in kinds.get(facts.LossChanged, ())]:
        cursor.execute(
            statements.CHANGE_LOSSES,
            {
                "topic_id": uuids(row.topic_id for row in changed),
                "partition": numbers(row.partition for row in changed),
                "leader_epoch": numbers(row.leader_epoch for row in changed),
                "start_offset": [row.start_offset for row in changed],
                "cuts": [as_json(row.cuts) for row in changed],
                "acknowledged": [row.acknowledged for row in changed],
                "acknowledged_by": [row.acknowledged_by for row in changed],
                "acknowledged_why": [row.acknowledged_why for row in changed],
                "closed": [row.is_over for row in changed],
                "version": numbers(row.version for row in changed),
            },
        )
        require(cursor, len(changed), "election_loss")


def add(cursor: Cursor[Any], kinds: Mapping[type, Sequence[Any]], version: int) -> None:
    """Write those of this turn, once its partitions are what they are from now on."""
    if noted := [record for record in kinds.get(facts.PossibleLoss, ()) if record.leader_epoch]:
        cursor.execute(
            statements.ADD_LOSSES,
            {
                "topic_id": uuids(record.topic_id for record in noted),
                "partition": numbers(record.partition for record in noted),
                "leader_epoch": numbers(record.leader_epoch for record in noted),
                "leader": numbers(record.leader for record in noted),
                "isr": arrays(record.isr for record in noted),
                "reason": [record.reason for record in noted],
                "version": version,
            },
        )


def _loss(
    topic_id: UUID,
    topic: str,
    partition: int,
    leader_epoch: int,
    leader: int,
    isr: list[int],
    reason: str,
    start_offset: int | None,
    cuts: Any,
    *rest: Any,
) -> Loss:
    return Loss(
        UUID(str(topic_id)),
        topic,
        partition,
        leader_epoch,
        leader,
        tuple(isr),
        reason,
        start_offset,
        msgspec.convert(cuts, tuple[Cut, ...]),
        *rest,
    )
