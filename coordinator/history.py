"""This room words a group's turns for the journal: what people read, and how long a rebalance took."""

from collections.abc import Sequence

from coordinator.core.memory import GroupState
from groups.core.classic import CLASSIC
from groups.core.rebalances import Fold, Step
from groups.core.records import (
    ClassicMemberAdded,
    ClassicMemberChanged,
    ErrorShown,
    GroupDeleted,
    GroupRecord,
    HandlerAsked,
    InstanceReplaced,
    MemberAdded,
    MemberChanged,
    MemberRemoved,
    OffsetsDeleted,
    PartitionsRunning,
    ProtocolChosen,
    ProtocolEntered,
    RequestDecided,
)
from groups.core.state import GroupRows
from muster.kernel.instants import Instant
from runtime.ports import Entry

CAUSE_LENGTH = 200
NAMES_MAX = 3


class History:
    """One group's open rebalance, as far as this owner saw it; `rows` are those before its first turn.

    A summary has `event`: joined, left, asked, opened, closed, settled, failed, error, deleted or request.
    Where an operator's request was answered it names request, principal, reason, verdict. `closed` and
    `settled` tell the rebalance: cause, generation, members, moved (partitions that came to another
    member), preparing_ms (from the first StopFetcher to the close); `settled` also completing_ms (from the
    close until every owner was heard to fetch) and length_ms, their sum. Durations are the owner's.
    Of a classic group preparing ends with the join phase, completing with the leader's assignment, and only
    then it is known what moved.
    """

    def __init__(self, rows: GroupRows) -> None:
        self._cause = ""
        self._fold = Fold(rows)

    def entry(self, records: Sequence[GroupRecord], after: GroupState, now: Instant) -> Entry:
        """The journal's words for one turn."""
        summary: dict[str, int | str] = {}
        causes: list[str] = _of_classic(records)
        asked: dict[str, int | str] = {}
        joined = [one.member_id for one in records if isinstance(one, MemberAdded)]
        joined += [one.member.member_id for one in records if isinstance(one, ClassicMemberAdded)]
        if joined:
            summary = {"event": "joined", "joined": len(joined)}
            causes.append(f"{_names(joined)} joined")
        for record in records:
            match record:
                case MemberRemoved(member_id=member_id, why=why):
                    summary = {"event": "left"}
                    causes.append(f"{member_id}: {why}")
                case MemberChanged(member_id=member_id, why=why):
                    causes.append(f"{member_id} {why or 'registered with other wishes'}")
                case HandlerAsked(cause=cause):
                    self._cause = cause
                    summary = summary or {"event": "asked"}
                    causes.append(f"a rebalance is asked for: {cause}")
                case ErrorShown(text=text) if text:
                    summary = {"event": "error"}
                    causes.append(text)
                case RequestDecided():
                    asked = _told(record)
                    causes.append(f"{record.principal}: {record.asked}, {record.answer.verdict}")
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
        summary.setdefault("event", "request" if asked else "other")
        summary |= asked
        summary.setdefault("members", _count_members(after.rows))
        summary["generation"] = after.rows.generation
        summary["phase"] = after.rows.phase.value
        return Entry("; ".join(causes)[:CAUSE_LENGTH], summary)

    def _rebalance(
        self, records: Sequence[GroupRecord], after: GroupState, now: Instant
    ) -> dict[str, int | str]:
        step = self._fold.take(now, self._cause, records)
        told = self._fold.last
        if step is None or told is None:
            return {}
        classic = after.rows.classic is not None
        cause = f"{told.cause} {_names(told.detail.split(', '))}".strip()
        summary: dict[str, int | str] = {"event": step.name.lower(), "cause": cause}
        if step is Step.CLOSED or step is Step.SETTLED:
            summary |= {
                "generation": after.rows.generation,
                "members": _count_members(after.rows),
                "preparing_ms": int(told.preparing_ms),
            }
            if step is Step.SETTLED or not classic:
                summary["moved"] = told.moved
        if step is Step.SETTLED:
            summary |= {"completing_ms": int(told.completing_ms), "length_ms": int(told.length_ms)}
        return summary


def _of_classic(records: Sequence[GroupRecord]) -> list[str]:
    """What only happens in classic groups, and to offsets."""
    causes: list[str] = []
    changed: dict[str, list[str]] = {}
    for one in records:
        if isinstance(one, ClassicMemberChanged):
            changed.setdefault(one.what, []).append(one.member.member_id)
    causes += [f"{_names(members)} joined with {what}" for what, members in changed.items()]
    for record in records:
        match record:
            case ProtocolEntered(protocol=protocol):
                whose = "Kafka clients" if protocol == CLASSIC else "native consumers"
                causes.append(f"from now on a group of {whose}")
            case InstanceReplaced(member=member):
                causes.append(f"static member {member.group_instance_id} came back as {member.member_id}")
            case ProtocolChosen(protocol_name=name, leader=leader) if name:
                causes.append(f"{leader} leads, {name}")
            case OffsetsDeleted(partitions=topics):
                deleted = sum(len(one.partitions) for one in topics)
                causes.append(f"{deleted} committed offsets were deleted")
    return causes


def _count_members(rows: GroupRows) -> int:
    return len(rows.members) + (len(rows.classic.members) if rows.classic else 0)


def _told(record: RequestDecided) -> dict[str, int | str]:
    return {
        "request": record.asked,
        "principal": record.principal,
        "reason": record.reason,
        "verdict": record.answer.verdict.value,
    }


def _names(members: Sequence[str]) -> str:
    if len(members) <= NAMES_MAX:
        return ", ".join(members)
    return f"{', '.join(members[:NAMES_MAX])} and {len(members) - NAMES_MAX} more"
