"""This room keeps the brokers: hello, silence, closed links, and what each does to the partitions."""

from controller.core import leaders
from controller.core.draft import Draft
from controller.core.events import HangUp, Hello, LinkId, TookOver
from controller.core.proposing import Task
from controller.core.records import WorkOffered
from controller.core.state import Session
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.link.from_broker import BrokerHello
from muster.messages.link.rows import BrokerRow
from muster.messages.link.to_broker import HelloRefused


def take_over(draft: Draft, event: TookOver, now: Instant) -> None:
    """All registered brokers count as just heard; nobody is told anything before its hello (line 165)."""
    deadline = after(now, draft.settings.broker_session_timeout_ms)
    draft.memory.controller_epoch = event.controller_epoch
    draft.memory.sessions = {
        broker_id: Session(None, deadline) for broker_id, row in draft.rows.brokers.items() if row.incarnation
    }
    draft.memory.parked = []
    draft.memory.adopting = []


def refusal(draft: Draft, frame: BrokerHello) -> HelloRefused | None:
    """Why a hello is refused, or None. The cluster id is "" in a broker's first hello of all."""
    if frame.cluster_id and frame.cluster_id != draft.rows.cluster_id:
        return HelloRefused(
            error=ErrorCode.INCONSISTENT_CLUSTER_ID,
            text=f"this is cluster {draft.rows.cluster_id}, the broker's data is of {frame.cluster_id}",
        )
    return None


def hello(draft: Draft, event: Hello, now: Instant) -> list[HangUp]:
    """Bind the link; a new incarnation is a death first, all in one turn.

    Returns what hangs up the broker's older link: what is left in its buffer is never read.
    """
    frame, broker_id = event.frame, event.frame.broker_id
    session = draft.memory.sessions.get(broker_id)
    known = draft.broker(broker_id)
    is_new = known is None or known.incarnation != frame.incarnation
    if is_new:
        draft.memory.sessions.pop(broker_id, None)
        leaders.remove(draft, broker_id, frame.lost_tail)
    row = BrokerRow(
        broker_id=broker_id,
        broker_epoch=(known.broker_epoch if known else 0) + is_new,
        incarnation=frame.incarnation,
        endpoints=frame.endpoints,
        rack=frame.rack,
        live=True,
    )
    if row != known:
        draft.brokers[broker_id] = row
    draft.memory.sessions[broker_id] = Session(
        event.link, after(now, draft.settings.broker_session_timeout_ms)
    )
    leaders.elect_leaderless(draft, broker_id, frame.lost_tail and is_new)
    if session is None or session.link is None:
        return []
    return [HangUp(session.link, "the broker opened another link")]


def close_link(draft: Draft, link: LinkId, now: Instant) -> None:
    """A closed link proves nothing: the session goes on, but not for long; answers to it are dropped."""
    draft.memory.parked = [one for one in draft.memory.parked if one.link != link]
    broker_id = draft.memory.broker_of(link)
    if broker_id is not None:
        deadline = min(
            draft.memory.sessions[broker_id].deadline, after(now, draft.settings.closed_link_timeout_ms)
        )
        draft.memory.sessions[broker_id] = Session(None, deadline)


def end_overdue_sessions(draft: Draft, now: Instant) -> list[HangUp]:
    """Remove every broker whose deadline has passed; many partitions are computed by a worker."""
    memory = draft.memory
    hang_ups = []
    for broker_id in [b for b, one in memory.sessions.items() if one.deadline <= now]:
        session = memory.sessions.pop(broker_id)
        if session.link is not None:
            hang_ups.append(HangUp(session.link, "the broker was not heard within its session"))
        row = draft.broker(broker_id)
        if row is not None and row.live:
            draft.brokers[broker_id] = _fenced(row)
        if leaders.touches_more(draft, broker_id, draft.settings.max_elections_in_the_turn):
            draft.other_records.append(WorkOffered(str(Task.BROKER_CHANGE), str(broker_id), draft.version))
        else:
            leaders.remove(draft, broker_id, lost_tail=False)
    return hang_ups


def next_deadline(draft: Draft) -> Instant | None:
    """When the next session or parked answer is over."""
    memory = draft.memory
    deadlines = [one.deadline for one in memory.sessions.values()] + [one.due_at for one in memory.parked]
    return min(deadlines, default=None)


def _fenced(row: BrokerRow) -> BrokerRow:
    return BrokerRow(
        broker_id=row.broker_id,
        broker_epoch=row.broker_epoch,
        incarnation=row.incarnation,
        endpoints=row.endpoints,
        rack=row.rack,
        live=False,
    )
