"""This room reads how far reassignments are for people: bytes that came, how fast, and when it may end.

Leaders say how large their logs are, and brokers to which a replica comes how much of it they hold. What
nobody has said is unknown, never zero; nothing is decided on any of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection

SILENT_AFTER_S: Final = 15
"""A broker says with each ping what comes to it; of one that was silent for longer no rate is known."""

STALLED_AFTER: Final = timedelta(seconds=5)
"""How long nothing must have come of a copy that stands still, and of a throttled one `patience_s` more."""

LARGEST_BATCH_BYTES: Final = 1_048_576
"""A batch goes whole (`max.message.bytes`): below its own rate a throttle makes all others wait meanwhile."""

PATIENCE: Final = f"""
    (CASE WHEN held.throttle > 0 THEN {LARGEST_BATCH_BYTES} / held.throttle::float8
        * (SELECT count(*) FROM reassignment AS other WHERE other.phase = 'InProgress') ELSE 0 END)"""
"""For how many seconds a throttle lets nothing come to the partition `held`: others have their turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """How far the new replicas of one move are, or of several that are under way.

    `to_copy`: what leaders hold, once for each new replica; `copied`: of that, what has come. None: nobody
    said. `silent`: new replicas of which their brokers have said nothing; `unsized`: those whose leader has
    not said how large it is. `rate`: bytes a second in the last seconds; `produced`: those that producers
    write, once for each new replica that is not in sync. `said_at`: when a broker spoke last.
    `patience_s`: for how long nothing may come though all is well, as it is throttled.
    """

    replicas: int = 0
    in_sync: int = 0
    silent: int = 0
    unsized: int = 0
    to_copy: int | None = None
    copied: int | None = None
    rate: float | None = None
    produced: float | None = None
    grew_at: datetime | None = None
    said_at: datetime | None = None
    patience_s: float | None = None

    @property
    def left(self) -> int | None:
        """Bytes that are still to come."""
        if self.to_copy is None or self.copied is None:
            return None
        return max(0, self.to_copy - self.copied)

    @property
    def percent(self) -> int | None:
        """How much of it has come; 100 only when all has."""
        if self.to_copy is None or self.copied is None:
            return None
        return 100 if self.copied >= self.to_copy else self.copied * 100 // self.to_copy

    @property
    def has_all(self) -> bool:
        """Every byte is there; that the replicas are in sync is still to be seen."""
        return self.left == 0 and not self.silent and self.in_sync < self.replicas

    @property
    def stalled_since(self) -> datetime | None:
        """When the last byte came, if none has come for a while though some are missing.

        A copy that has just begun, and one whose throttle lets the next fetch wait, stand still for a moment.
        """
        if self.rate != 0 or self.has_all or self.grew_at is None:
            return None
        quiet = None if self.said_at is None else self.said_at - self.grew_at
        bound = STALLED_AFTER + timedelta(seconds=self.patience_s or 0)
        return None if quiet is not None and quiet < bound else self.grew_at

    @property
    def falls_behind(self) -> bool:
        """Producers write at least as much as comes."""
        return bool(self.rate) and (self.produced or 0) >= (self.rate or 0) and not self.has_all

    def ends_at(self, now: datetime, behind: int = 0) -> datetime | None:
        """When it ends at the present rate, with so many bytes more behind it; None: never, or nobody knows.

        What producers write meanwhile is to be copied, too.
        """
        if not self.rate or self.left is None or self.silent:
            return None
        gained = self.rate - (self.produced or 0)
        return now + timedelta(seconds=(self.left + behind) / gained) if gained > 0 else None


NOTHING: Final = Copying()

PRODUCED: Final = """
    (SELECT CASE WHEN progress.at < now() - interval '15 seconds' THEN 0
                 WHEN base.at < now() - interval '2 seconds' AND base.held IS NOT NULL
                 THEN GREATEST(0, progress.size_bytes - base.held) / extract(epoch FROM now() - base.at) END
     FROM (SELECT progress.recent_at AS at, progress.recent_size_bytes AS held
           WHERE progress.earlier_at IS NULL OR progress.recent_at < now() - interval '10 seconds'
           UNION ALL SELECT progress.earlier_at, progress.earlier_size_bytes LIMIT 1) AS base)"""
"""Bytes a second by which the log of a row of partition_progress has grown in the last minute or so.

A leader speaks when records come: what was silent for a while gets none. What retention deletes meanwhile is
taken for less written, never for more.
"""

# One row for each new replica of a move under way. `since`: an older word of the same broker.
_REPLICAS: Final = f"""
    SELECT move.id AS move_id, move.plan_step, new.broker_id = ANY (held.isr) AS in_sync, progress.size_bytes,
           {PRODUCED} AS produced, {PATIENCE} AS patience_s, arrival.held_bytes, arrival.grew_at,
           arrival.at AS said_at,
           CASE WHEN arrival.at < now() - interval '{SILENT_AFTER_S} seconds' THEN NULL
                WHEN arrival.at > since.at THEN GREATEST(0, arrival.held_bytes - since.bytes)
                    / extract(epoch FROM arrival.at - since.at) END AS rate
    FROM reassignment AS move
    JOIN partition AS held ON held.topic_id = move.topic_id AND held.partition = move.partition
    CROSS JOIN LATERAL unnest(held.adding) AS new(broker_id)
    LEFT JOIN partition_progress AS progress ON progress.partition_id = held.id
    LEFT JOIN arrival ON arrival.move_id = move.id AND arrival.broker_id = new.broker_id
    CROSS JOIN LATERAL (SELECT COALESCE(arrival.earlier_at, arrival.recent_at) AS at,
                               COALESCE(arrival.earlier_bytes, arrival.recent_bytes) AS bytes) AS since
    WHERE move.phase = 'InProgress'"""
_SUMS: Final = """
    count(*)::int AS replicas, count(*) FILTER (WHERE in_sync)::int AS in_sync,
    count(*) FILTER (WHERE NOT in_sync AND held_bytes IS NULL)::int AS silent,
    count(*) FILTER (WHERE size_bytes IS NULL)::int AS unsized,
    sum(size_bytes)::bigint AS to_copy,
    sum(CASE WHEN in_sync THEN size_bytes
             WHEN held_bytes IS NOT NULL THEN LEAST(held_bytes, size_bytes) END)::bigint AS copied,
    (sum(rate) FILTER (WHERE NOT in_sync))::float AS rate,
    (sum(produced) FILTER (WHERE NOT in_sync))::float AS produced,
    max(patience_s) FILTER (WHERE NOT in_sync) AS patience_s,
    max(grew_at) FILTER (WHERE NOT in_sync) AS grew_at, max(said_at) AS said_at"""


def of_moves(move_ids: Sequence[UUID]) -> dict[UUID, Copying]:
    """How far each of these moves is that is under way and has new replicas."""
    if not move_ids:
        return {}
    statement = f"""SELECT move_id, {_SUMS} FROM ({_REPLICAS} AND move.id = ANY (%(ids)s)) AS replicas
                    GROUP BY move_id"""
    return {row.pop("move_id"): Copying(**row) for row in _read(statement, {"ids": list(move_ids)})}


def of_plan(plan_id: UUID) -> Copying:
    """How far the moves of a plan are that are under way."""
    statement = f"SELECT {_SUMS} FROM ({_REPLICAS} AND move.plan_id = %(plan)s) AS replicas"
    return Copying(**_read(statement, {"plan": plan_id})[0])


def of_all() -> Copying:
    """How far everything is that is under way."""
    return Copying(**_read(f"SELECT {_SUMS} FROM ({_REPLICAS}) AS replicas", {})[0])


def waiting_bytes() -> int:
    """What the moves will copy that have not begun, as far as leaders have said."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT COALESCE(sum(progress.size_bytes * (
                SELECT count(*) FROM unnest(move.target) AS new WHERE new <> ALL (move.origin))), 0)::bigint
            FROM reassignment AS move
            JOIN partition AS held ON held.topic_id = move.topic_id AND held.partition = move.partition
            JOIN partition_progress AS progress ON progress.partition_id = held.id
            WHERE move.phase = 'Init'""")
        (found,) = cursor.fetchone()
    return int(found)


def produced(partition_id: int) -> float | None:
    """Bytes a second that producers write to a partition; None: nobody has said for long enough."""
    statement = (
        f"SELECT {PRODUCED}::float AS rate FROM partition_progress AS progress WHERE partition_id = %(id)s"
    )
    found = _read(statement, {"id": partition_id})
    rate: float | None = found[0]["rate"] if found else None
    return rate


def version_of(said_at: datetime | None) -> int:
    """The part of an ETag that changes whenever a broker says more."""
    return int(said_at.timestamp() * 1000) if said_at is not None else 0


def told(copying: Copying | None, now: datetime) -> dict[str, Any] | None:
    """As REST tells it; None: nothing of it is being copied."""
    if copying is None or not copying.replicas:
        return None
    return {
        "replicas": copying.replicas,
        "in_sync": copying.in_sync,
        "silent": copying.silent,
        "to_copy_bytes": copying.to_copy,
        "copied_bytes": copying.copied,
        "rate": None if copying.rate is None else int(copying.rate),
        "produced_rate": None if copying.produced is None else int(copying.produced),
        "stalled_since": copying.stalled_since,
        "said_at": copying.said_at,
        "ends_at": copying.ends_at(now),
    }


def _read(statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
