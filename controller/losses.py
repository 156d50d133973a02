"""This room reads elections that may have lost records: what they lost, as far as anybody has told."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from django.db import connection
from django.db.models import Q, QuerySet

from access.scoped_rows import within
from controller.models import ElectionLoss
from muster.kernel.scopes import EVERYTHING, Scope


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """What one replica held when it came to follow the new leader, and to where it was cut."""

    broker_id: int
    end_offset: int
    """-1: not known: the log could not be read, and went."""
    cut_to: int
    """-1: not known: the new leader had deleted by then what both may have held, or the log went before."""
    high_watermark: int = -1
    size_bytes: int = -1

    @property
    def records(self) -> int | None:
        """How many offsets it gave up; of a compacted log fewer records. None: not known."""
        return max(0, self.end_offset - self.cut_to) if self.cut_to >= 0 else None


@dataclass(frozen=True)
class LossRow:
    """One election, and what is known of its loss."""

    row: ElectionLoss

    @property
    def name(self) -> str:
        """`flights-5`."""
        return f"{self.row.topic_name}-{self.row.partition}"

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        return msgspec.convert(self.row.cuts, tuple[Cut, ...])

    @property
    def committed(self) -> int | None:
        """Up to where records were committed, at least; None: nobody has said."""
        said = [one.high_watermark for one in self.cuts if one.high_watermark >= 0]
        known = [*said, *([] if self.row.committed is None else [self.row.committed])]
        return max(known, default=None)

    @property
    def gone_from(self) -> int | None:
        """From where on the new leader has nothing of what was committed, at most; None: nobody has said.

        Where its log ended, or before that: it may have ended in records that never were committed, and who
        held those that were was cut to where both parted.
        """
        parted = [one.cut_to for one in self.cuts if 0 <= one.cut_to < one.high_watermark]
        known = [*parted, *([] if self.row.start_offset is None else [self.row.start_offset])]
        return min(known, default=None)

    @property
    def lost(self) -> int | None:
        """How many committed records are lost, at least; None: nobody can tell yet, or any more."""
        if self.gone_from is None or self.committed is None:
            return None
        return max(0, self.committed - self.gone_from)

    @property
    def waits_for(self) -> list[int]:
        """Who was in sync and has not told."""
        told = {one.broker_id for one in self.cuts} | ({self.row.leader} if self.row.told_at else set())
        return [broker for broker in self.row.isr if broker not in told]

    @property
    def forgot(self) -> bool:
        """The new leader has said that it does not know where it began."""
        return self.row.told_at is not None and self.row.start_offset is None

    @property
    def is_open(self) -> bool:
        """Nobody has acknowledged it, and its partition is still there."""
        return self.row.acknowledged_at is None and not self.row.closed


@dataclass(frozen=True, slots=True)
class Open:
    """Those that nobody has acknowledged: how many, the first few, and the committed records they lost."""

    number: int
    rows: Sequence[LossRow]

    @property
    def lost(self) -> int:
        """As far as those shown have told."""
        return sum(one.lost or 0 for one in self.rows)


def listed(
    *,
    topic: str | None = None,
    partition: int | None = None,
    state: str | None = None,
    scope: Scope = EVERYTHING,
    before: int | None = None,
    limit: int,
) -> list[LossRow]:
    """Newest first; `state`: `open` or `acknowledged`."""
    rows = ElectionLoss.objects.filter(within(scope, "topic_name")).order_by("-id")
    if topic is not None:
        rows = rows.filter(topic_name=topic)
    if partition is not None:
        rows = rows.filter(partition=partition)
    if state is not None:
        rows = rows.filter(_STATES[state])
    if before is not None:
        rows = rows.filter(id__lt=before)
    return [LossRow(row) for row in rows[:limit]]


def one(loss_id: int) -> LossRow | None:
    """The election of this row."""
    row = ElectionLoss.objects.filter(id=loss_id).first()
    return None if row is None else LossRow(row)


def unacknowledged(most: int, topic_id: Any = None) -> Open:
    """Of all topics, or of one."""
    rows: QuerySet[ElectionLoss] = ElectionLoss.objects.filter(_STATES["open"]).order_by("-id")
    if topic_id is not None:
        rows = rows.filter(topic_id=topic_id)
    shown = [LossRow(row) for row in rows[:most]]
    return Open(rows.count() if len(shown) == most else len(shown), shown)


def changed_first(most: int) -> list[LossRow]:
    """Those that nobody has acknowledged and that changed longest ago: whole turns, as many as fit in `most`.

    Whoever has seen them up to a version has seen all that are of that version or before it.
    """
    rows = list(ElectionLoss.objects.filter(_STATES["open"]).order_by("version", "id")[: most + 1])
    if len(rows) > most:
        rows = [row for row in rows if row.version < rows[most].version] or rows[:most]
    return [LossRow(row) for row in rows]


_WAITED_FOR = """
    SELECT DISTINCT broker FROM election_loss AS loss, unnest(loss.isr) AS broker
    WHERE loss.acknowledged_at IS NULL AND NOT loss.closed
        AND (%(topic)s::uuid IS NULL OR loss.topic_id = %(topic)s)
        AND NOT (broker = loss.leader AND loss.told_at IS NOT NULL)
        AND NOT EXISTS (SELECT FROM jsonb_array_elements(loss.cuts) AS cut WHERE (cut->>0)::int = broker)
    ORDER BY broker"""


def waited_for(topic_id: Any = None) -> list[int]:
    """Who held all that open elections lost, and is cut when it comes back: LossRow.waits_for of each."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITED_FOR, {"topic": topic_id})
        return [broker for (broker,) in cursor.fetchall()]


_STATES = {
    "open": Q(acknowledged_at=None, closed=False),
    "acknowledged": Q(acknowledged_at__isnull=False),
}
