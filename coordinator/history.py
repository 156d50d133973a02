"""This room words a group's turns for the journal: what people read, and how long a rebalance took."""

from collections.abc import Sequence

from coordinator.core.memory import GroupState
from groups.core.phases import Phase
from groups.core.records import (
    ErrorShown,
    GenerationOpened,
    GroupDeleted,
    GroupRecord,
    HandlerAsked,
    MemberAdded,
    MemberChanged,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRunning,
    PhaseEntered,
)
from muster.kernel.instants import Instant, elapsed_ms
from runtime.ports import Entry

CAUSE_LENGTH = 200
NAMES_MAX = 3


class History:
    """One group's open rebalance, as far as this owner saw it.

    A summary has `event`: joined, left, asked, opened, closed, settled, error or deleted. `closed` and
    `settled` tell the rebalance: cause, generation, members, moved (partitions that changed their
    owner), preparing_ms (from the first StopFetcher to the close); `settled` also completing_ms (from the
    close until every owner was heard to fetch) and length_ms, their sum. Durations are the owner's.
    """

    def __init__(self) -> None:
        self._cause = ""
        self._opened_at: Instant | None = None
        self._closed_at: Instant | None = None
        self._closed: dict[str, int | str] = {}

    def entry(self, records: Sequence[GroupRecord], after: GroupState, now: Instant) -> Entry:
        """The journal's words for one turn."""
        summary: dict[str, int | str] = {}
        causes: list[str] = []
        joined = [one.member_id for one in records if isinstance(one, MemberAdded)]
        if joined:
            summary = {"event": "joined", "joined": len(joined)}
            causes.append(f"{_names(joined)} joined")
        for record in records:
            match record:
                case MemberRemoved(member_id=member_id, why=why):
                    summary = {"event": "left"}
                    causes.append(f"{member_id}: {why}")
                case MemberChanged(member_id=member_id):
                    causes.append(f"{member_id} registered with other wishes")
                case HandlerAsked(cause=cause):
                    self._cause = cause
                    summary = summary or {"event": "asked"}
                    causes.append(f"a rebalance is asked for: {cause}")
                case ErrorShown(text=text) if text:
                    summary = {"event": "error"}
                    causes.append(text)
                case GroupDeleted():
                    summary = {"event": "deleted"}
                    causes.append("the group was deleted")
        rebalance = self._rebalance(records, after, now)
        if rebalance:
            summary = rebalance
            causes.insert(0, f"rebalance {rebalance['event']}: {rebalance['cause']}")
        if not causes:
            running = any(isinstance(one, PartitionsRunning) for one in records)
            causes.append("members began to fetch" if running else "rows were put in order")
        summary.setdefault("event", "other")
        summary.setdefault("members", len(after.rows.members))
        summary["generation"] = after.rows.generation
        summary["phase"] = after.rows.phase.value
        return Entry("; ".join(causes)[:CAUSE_LENGTH], summary)

    def _rebalance(
        self, records: Sequence[GroupRecord], after: GroupState, now: Instant
    ) -> dict[str, int | str]:
        summary: dict[str, int | str] = {}
        phases = [one.phase for one in records if isinstance(one, PhaseEntered)]
        if Phase.PREPARING_REBALANCE in phases:
            self._opened_at = now
            summary = {"event": "opened", "cause": self._cause}
        if any(isinstance(one, GenerationOpened) for one in records):
            opened_at = now if self._opened_at is None else self._opened_at
            self._opened_at, self._closed_at = None, now
            self._closed = {
                "cause": self._cause,
                "generation": after.rows.generation,
                "members": len(after.rows.members),
                "moved": _moved(records),
                "preparing_ms": elapsed_ms(opened_at, now),
            }
            summary = {"event": "closed", **self._closed}
        if Phase.STABLE in phases and self._closed_at is not None:
            completing_ms = elapsed_ms(self._closed_at, now)
            length_ms = completing_ms + int(self._closed["preparing_ms"])
            summary = {
                "event": "settled",
                **self._closed,
                "completing_ms": completing_ms,
                "length_ms": length_ms,
            }
            self._closed_at = None
        return summary


def _moved(records: Sequence[GroupRecord]) -> int:
    """Partitions that got another owner, or lost the one they had."""
    assigned = {
        (topic.topic_id, number)
        for one in records
        if isinstance(one, PartitionsAssigned)
        for topic in one.partitions
        for number in topic.partitions
    }
    released = {
        (topic.topic_id, number)
        for one in records
        if isinstance(one, PartitionsReleased)
        for topic in one.partitions
        for number in topic.partitions
    }
    return len(assigned | released)


def _names(members: Sequence[str]) -> str:
    if len(members) <= NAMES_MAX:
        return ", ".join(members)
    return f"{', '.join(members[:NAMES_MAX])} and {len(members) - NAMES_MAX} more"
