"""This room says how far a plan is: what has moved, how fast it moves now, and when it may be over."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller import copying, move_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a plan is, by steps and by bytes.

    `to_copy` is what its steps have copied, copy and have still to copy, `copied` what of it has come.
    `rate`: bytes a second now, None: nobody said; `average`: since it began, None: nothing has come yet.
    `falls_behind`, `silent`: see Copying. `seconds`: how long it ran, None: it never began; `planned_s`:
    what its busiest broker needs at its rate.
    """

    over: int
    of: int
    copied: int
    to_copy: int
    rate: float | None
    average: float | None
    stalled_since: datetime | None
    ends_at: datetime | None
    falls_behind: bool
    silent: int
    said_at: datetime | None
    seconds: float | None
    planned_s: float | None

    @property
    def percent(self) -> int:
        """Of the bytes; where there are none, of the steps. 100 only when all is over."""
        if self.over >= self.of:
            return 100
        done, of = (self.copied, self.to_copy) if self.to_copy else (self.over, self.of)
        return min(99, done * 100 // max(1, of))


def read(row: move_queries.PlanRow, counts: move_queries.StepCounts, now: datetime) -> Progress:
    """How far a plan is by its steps and by what brokers say of its moves."""
    return progress_of(row, counts, copying.of_plan(row.id) if counts.asked else copying.NOTHING, now)


def progress_of(
    row: move_queries.PlanRow, counts: move_queries.StepCounts, under_way: copying.Copying, now: datetime
) -> Progress:
    """How far it is. When it ends is a guess: what is left, at the present rate or else the average."""
    copied = counts.bytes_done + (under_way.copied or 0)
    to_copy = counts.bytes_done + (under_way.to_copy or 0) + counts.bytes_waiting
    seconds, average = None, None
    if row.started_at is not None:
        seconds = max(1.0, ((row.ended_at or now) - row.started_at).total_seconds())
        average = copied / seconds if copied else None
    rate = None if row.is_over else under_way.rate
    stalled = None if row.is_over else under_way.stalled_since
    # What producers write meanwhile is to be copied, too.
    pace = rate - (under_way.produced or 0) if rate else average if stalled is None else None
    ends_at = None
    if pace and pace > 0 and row.phase == "Running" and not under_way.silent:
        ends_at = now + timedelta(seconds=max(0, to_copy - copied) / pace)
    busiest = row.cost.get("busiest_bytes", 0)
    return Progress(
        over=counts.done + counts.skipped + counts.cancelled + counts.failed,
        of=row.step_count,
        copied=copied,
        to_copy=to_copy,
        rate=rate,
        average=average,
        stalled_since=stalled,
        ends_at=ends_at,
        falls_behind=under_way.falls_behind,
        silent=under_way.silent,
        said_at=under_way.said_at,
        seconds=seconds,
        planned_s=busiest / row.throttle if row.throttle and busiest else None,
    )


def told(progress: Progress) -> dict[str, Any]:
    """As REST tells it."""
    return {
        "percent": progress.percent,
        "copied_bytes": progress.copied,
        "to_copy_bytes": progress.to_copy,
        "rate": None if progress.rate is None else int(progress.rate),
        "average_rate": None if progress.average is None else int(progress.average),
        "stalled_since": progress.stalled_since,
        "silent": progress.silent,
        "ends_at": progress.ends_at,
    }
