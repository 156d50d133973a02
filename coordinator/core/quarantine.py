"""This room keeps out whom an operator cut off, by name, until its time is over.

Rule of time: a quarantine is counted by the owner's clock from the turn that imposed it, and in full again
from each load, never by a time in a row. So takeovers may make it longer than was asked for, never shorter.
"""

from collections.abc import Mapping
from typing import Protocol

from groups.core.records import GroupRecord, MemberQuarantined, QuarantineEnded
from groups.core.rows import RowsBuilder
from groups.core.state import GroupRows
from muster.kernel.instants import Instant, after, elapsed_ms


class Drafted(Protocol):
    """What is needed of a draft of either world."""

    now: Instant
    rows: RowsBuilder
    quarantine_ends: Mapping[str, Instant]

    def record(self, record: GroupRecord) -> None: ...


def impose(draft: Drafted, name: str, length_ms: int, why: str) -> None:
    """Keep whoever comes as `name` out for so long; 0: until the session of who has it is over."""
    draft.record(MemberQuarantined(name, length_ms, why))
    draft.quarantine_ends = {**draft.quarantine_ends, name: after(draft.now, length_ms)}


def lift(draft: Drafted, name: str) -> None:
    """Let whoever has this name come again."""
    draft.record(QuarantineEnded(name))
    draft.quarantine_ends = {one: at for one, at in draft.quarantine_ends.items() if one != name}


def time_passed(draft: Drafted, sessions: Mapping[str, Instant]) -> None:
    """End what is over; that of a member not before the end of its session, which `sessions` says."""
    for name, ends_at in sorted(draft.quarantine_ends.items()):
        if ends_at > draft.now:
            continue
        if name in sessions:
            later = max(sessions[name], after(draft.now, 1))
            draft.quarantine_ends = {**draft.quarantine_ends, name: later}
        else:
            lift(draft, name)


def awakened(rows: GroupRows, now: Instant) -> Mapping[str, Instant]:
    """The ends of all quarantines after a load."""
    return {name: after(now, one.length_ms) for name, one in rows.quarantined.items()}


def keeps_out(draft: Drafted, name: str) -> bool:
    """May nobody come as `name` now?"""
    return name in draft.rows.quarantined


def refusal(draft: Drafted, name: str) -> str:
    """What whoever comes as `name` is told; empty if it may come."""
    quarantine = draft.rows.quarantined.get(name)
    if quarantine is None:
        return ""
    left_s = elapsed_ms(draft.now, draft.quarantine_ends[name]) // 1000 + 1
    return f"{quarantine.why}; refused for {left_s} s more"
