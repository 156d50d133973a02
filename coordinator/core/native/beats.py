"""This room is the short way of what quiet members do all day: a ping goes out, its answer comes in.

Both change memory only: the clocks of these members, and what they fetch. So does what follows a stop of the
owner. Where anything else is due, or was said, nothing is answered here and the long way decides (`decide`,
`hear_at_once`); what is answered is what it would have decided, at a tenth of its cost.
"""

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from coordinator.core.draft import next_instant, session_length_ms, third_of
from coordinator.core.events import Heard, Say
from coordinator.core.memory import GroupState, Session
from coordinator.core.native.sessions import LOOKED_AFTER_MAX, asked, next_slot, ping_request
from coordinator.core.offsets import refusal
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core.layered import Layered
from groups.core.state import NATIVE, Tenure
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.member import PingResponse
from muster.messages.partitions import Partition, each_position

_NOTHING: Mapping[Partition, Tenure] = {}


class Pinged(NamedTuple):
    """The state after it, and what is to be said."""

    state: GroupState
    pings: tuple[Say, ...]


def ping(state: GroupState, now: Instant, surroundings: Surroundings) -> Pinged | None:
    """Ping whose slot has come. None: more than that may be due, or somebody's last ping is unanswered;
    and of a classic group, where what is due is never a ping.

    Must not be asked while the owner is frozen, as `decide`.
    """
    memory = state.memory
    if state.rows.protocol != NATIVE:
        return None
    if memory.wanted or memory.finished is not None or state.quarantine_ends:
        return None
    timers, sessions = list(memory.timers), Layered.fork(memory.sessions)
    members = state.rows.members
    pings: list[Say] = []
    while timers and timers[0][0] <= now and len(pings) < LOOKED_AFTER_MAX:
        armed_at, member_id = timers[0]
        session = sessions.get(member_id)
        if session is None or session.armed_at != armed_at:
            heapq.heappop(timers)
            continue
        if session.ping_unanswered or session.connection is None or not _only_its_slot_came(session, now):
            return None
        session = asked(session, next_slot(session, third_of(members[member_id]), now), now)
        due = next_instant(session)
        heapq.heapreplace(timers, (due, member_id))
        sessions[member_id] = replace(session, armed_at=due)
        request = ping_request(member_id, session, state.rows.generation, surroundings)
        pings.append(Say(session.connection, request))  # type: ignore[arg-type]
    memory = replace(memory, sessions=sessions, timers=tuple(timers))
    return Pinged(replace(state, memory=memory), tuple(pings))


def hasten(state: GroupState, by_ms: int) -> GroupState:
    """The state after the owner's time stood still for so long, and members' own clocks went on: pings that
    were, or would have been, due by then count as that much earlier.

    Nothing else moves, and nothing is decided by it: the next look finds what is due.
    """
    sessions: dict[str, Session] = {}
    timers: list[tuple[Instant, str]] = []
    for member_id, session in state.memory.sessions.items():
        slot_at = None if session.slot_at is None else Instant(session.slot_at - by_ms)
        session = replace(session, slot_at=slot_at, ping_sent_at=Instant(session.ping_sent_at - by_ms))
        due = next_instant(session)
        sessions[member_id] = replace(session, armed_at=due)
        timers.append((due, member_id))
    heapq.heapify(timers)
    return replace(state, memory=replace(state.memory, sessions=sessions, timers=tuple(timers)))


def answered(state: GroupState, event: Heard, now: Instant, settings: GroupSettings) -> GroupState | None:
    """The state after a ping was answered; the same for an answer that proves nothing.

    None: an attempt is open, the member fetches other than its rows, was not heard to fetch some, or the
    group has standbys.
    """
    memory, answer = state.memory, event.message
    member_id = memory.bound.get(event.connection)
    if not isinstance(answer, PingResponse) or member_id is None or memory.attempt is not None:
        return None
    if state.rows.standbys or answer.standby_info:
        return None
    if member_id != answer.consumer_id:
        return state
    session = memory.sessions[member_id]
    if not session.ping_unanswered or answer.number != session.ping_number:
        return state
    dirty = _noted(state, member_id, answer)
    ends_at = after(now, session_length_ms(state.rows.members[member_id], settings))
    if dirty is None or session.armed_at is None or ends_at < session.armed_at:
        return None
    sessions = Layered.fork(memory.sessions)
    sessions[member_id] = replace(session, ping_unanswered=False, ends_at=ends_at)
    return replace(state, memory=replace(memory, sessions=sessions, dirty=dirty))


def _only_its_slot_came(session: Session, now: Instant) -> bool:
    return (
        session.slot_at is not None
        and session.slot_at <= now < session.ends_at
        and (session.stop_due_at is None or now < session.stop_due_at)
        and (session.repair_due_at is None or now < session.repair_due_at)
    )


def _noted(state: GroupState, member_id: str, answer: PingResponse) -> Mapping[Partition, int] | None:
    """What is dirty after these positions; None unless the member fetches its rows, all of them running."""
    tenures = state.rows.owned.get(member_id, _NOTHING)
    dirty: Mapping[Partition, int] = state.memory.dirty
    changed: Layered[Partition, int] | None = None
    fetched: set[Partition] = set()
    for partition, position in each_position(answer.offset_info):
        tenure = tenures.get(partition)
        if tenure is None or not tenure.running:
            return None
        fetched.add(partition)
        if position.offset < 0 or dirty.get(partition) == position.offset:
            continue
        if refusal(tenure, position, state.rows.generation) is ErrorCode.NONE:
            if changed is None:
                dirty = changed = Layered.fork(dirty)
            changed[partition] = position.offset
    return dirty if len(fetched) == len(tenures) else None
