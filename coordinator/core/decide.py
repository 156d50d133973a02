"""This room decides for a whole group: what happened and the time in, a Decision out; and the load."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import structs

from coordinator.core import deletions, expiry, quarantine, requests
from coordinator.core.classic import handle as classic
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.classic.loading import load as load_classic
from coordinator.core.draft import Draft, GroupDecision, first_slot, look_again_at, session_length_ms
from coordinator.core.events import (
    ConnectionId,
    GroupEvent,
    Heard,
    Join,
    OffsetsOrphaned,
    OffsetsTakenBack,
    PartitionsRemoved,
    Swept,
    Sync,
    ToolRequest,
    TopicsDeleted,
)
from coordinator.core.memory import NEVER_SEEN, ClassicMemory, GroupState, Memory, Session
from coordinator.core.native import attempts, frames, handle, sessions
from coordinator.core.settings import GroupSettings, Surroundings
from coordinator.core.worlds import goes_over
from groups.core.requests import GroupRequest
from groups.core.rows import count_assigned
from groups.core.state import NATIVE, GroupRows
from groups.core.transitions import allowed, each_allowed
from muster.kernel.instants import Instant, after
from muster.kernel.invariants import invariant

LOADED = "the group was loaded"

Asked = GroupRequest | ToolRequest
MOST_OF_ALL = frozenset((Join, Sync))
"""Of a classic group's events: none of them leads a group out of that world. Asked by type: to find out that
a Struct is not one of another class takes as long as to make it.
"""

LookedAt = TopicsDeleted | PartitionsRemoved | OffsetsOrphaned | Swept
"""Made once: to make a union costs as much as to look at an event, of which thousands come together."""


def decide(
    state: GroupState,
    events: Iterable[GroupEvent],
    now: Instant,
    settings: GroupSettings,
    surroundings: Surroundings,
) -> GroupDecision:
    """All events of one turn, in their order; then what is due by `now`. Pure: `state` stays as it is.

    Must not be asked while the owner is frozen: a ping is decided only under a fresh lease.
    """
    native = state.rows.protocol == NATIVE
    draft = _drafted(state, now, settings, surroundings, native=native)
    done: GroupDecision | None = None
    asked: list[Asked] = []
    swept: list[LookedAt] = []
    for event in events:
        if type(event) in MOST_OF_ALL and isinstance(draft, ClassicDraft):
            classic.happened(draft, event)
            continue
        if isinstance(event, Asked):
            asked.append(event)
            continue
        if goes_over(draft.rows, event, native=native):
            done = _together(state, done, _finished(draft))
            # Both parts are one turn, which raises the version once.
            as_before = replace(done.state.rows, version=state.rows.version)
            so_far = structs.replace(done.state, rows=as_before)
            native = not native
            draft = _drafted(so_far, now, settings, surroundings, native=native)
        if isinstance(event, OffsetsOrphaned):
            # Before all that is asked: who sets the same offset anew sets it for what is there now.
            expiry.happened(draft, event, first=done is None)
        elif isinstance(event, OffsetsTakenBack):
            deletions.take_back(draft, event)
        elif isinstance(event, LookedAt):
            swept.append(event)
        elif isinstance(draft, Draft):
            handle.happened(draft, event)
        else:
            classic.happened(draft, event)
    for request in asked:
        # Last: who deletes a group, or sets its offsets, must know whom this very turn lets in.
        if isinstance(request, GroupRequest):
            requests.decide(draft, request, first=done is None)
        else:
            deletions.decide(draft, request)
    for event in swept:
        # Last: nothing of a group goes that somebody enters in this very turn.
        expiry.happened(draft, event, first=done is None)
    last = _finished(draft)
    return last if done is None else _in_one_world(_together(state, done, last))


def _drafted(
    state: GroupState, now: Instant, settings: GroupSettings, surroundings: Surroundings, *, native: bool
) -> Draft | ClassicDraft:
    return Draft(state, now, settings, surroundings) if native else ClassicDraft(state, now, settings)


def _finished(draft: Draft | ClassicDraft) -> GroupDecision:
    """The end of a turn: what is due by now, what follows from all that happened, and whether it may be."""
    was = draft.before.rows.phase
    if isinstance(draft, ClassicDraft):
        classic.settle(draft)
        quarantine.time_passed(draft, {})
        invariant(each_allowed(was, draft.records), f"a classic group was {was} and does not go these ways")
        return draft.finish()
    sessions.time_passed(draft)
    if draft.quarantine_ends:
        quarantine.time_passed(draft, {one: session.ends_at for one, session in draft.sessions.items()})
    attempts.settle(draft)
    decision = draft.finish(frames.word)
    became = decision.state.rows.phase
    invariant(allowed(was, became, decision.records), f"{was} does not become {became} by this")
    return decision


def _together(state: GroupState, first: GroupDecision | None, second: GroupDecision) -> GroupDecision:
    """One decision of two that were taken one after the other in one turn of `state`."""
    if first is None:
        return second
    # All that is written may be answers, which change no rows.
    was = state.rows.version
    changed = first.state.rows.version != was or second.state.rows.version != was
    rows = replace(second.state.rows, version=was + 1) if changed else state.rows
    return GroupDecision(
        records=(*first.records, *second.records),
        replies=(*first.replies, *second.replies),
        commands=(*first.commands, *second.commands),
        look_again_at=second.look_again_at,
        state=structs.replace(second.state, rows=rows),
    )


def _in_one_world(decision: GroupDecision) -> GroupDecision:
    """What the owner remembered of the world that the group is not in any more is forgotten."""
    state = decision.state
    if state.rows.protocol == NATIVE:
        state = structs.replace(state, classic=ClassicMemory())
    else:
        state = structs.replace(state, memory=Memory())
    return replace(decision, state=state, look_again_at=look_again_at(state))


def load(
    rows: GroupRows,
    now: Instant,
    settings: GroupSettings,
    surroundings: Surroundings,
    bound: Mapping[str, ConnectionId] | None = None,
) -> GroupDecision:
    """Memory anew from the rows, at a takeover and after each dropped cache (section 2, load).

    An open attempt is dropped, a rebalance is wanted, every session is full and `lease_ttl_ms` longer;
    nothing is sent but pings. `bound` names the members whose connections this very process still
    holds open, when it dropped a cache; a new owner has none.
    """
    if rows.protocol != NATIVE:
        return load_classic(rows, now, settings)
    draft = _awakened(rows, now, settings, surroundings, bound or {})
    attempts.settle(draft)
    return draft.finish(frames.word)


def preload(
    rows: GroupRows, now: Instant, settings: GroupSettings, surroundings: Surroundings, *, settled: bool
) -> GroupState | None:
    """As `load`, of many groups at once: what is to be asked for is left to the group's first turn.

    `settled`: the owner saw that a handler would find nothing to do. None if the rows must be put in order
    first, which a load does in a turn of its own.
    """
    if rows.protocol == NATIVE:
        draft = _awakened(rows, now, settings, surroundings, {}, settled=settled)
        decision = draft.finish(frames.word)
    else:
        decision = load_classic(rows, now, settings)
    return None if decision.records else decision.state


def hear_at_once(
    state: GroupState,
    event: Heard,
    now: Instant,
    settings: GroupSettings,
    surroundings: Surroundings,
    *,
    repair: bool = True,
) -> GroupDecision:
    """A sign of life, outside of a turn: it changes memory only, and asks for no earlier look than before.

    `repair` is false where the member may fetch other than its rows because an answer of it still waits.
    """
    draft = Draft(state, now, settings, surroundings)
    handle.lives(draft, event, repair=repair)
    decision = draft.finish(frames.word)
    invariant(not decision.records, "a sign of life writes nothing")
    return decision


def _awakened(
    rows: GroupRows,
    now: Instant,
    settings: GroupSettings,
    surroundings: Surroundings,
    bound: Mapping[str, ConnectionId],
    *,
    settled: bool = False,
) -> Draft:
    known = rows.members.keys() - rows.quarantined.keys()
    bound = {member: connection for member, connection in bound.items() if member in known}
    state = GroupState(
        rows,
        Memory(
            bound={connection: member_id for member_id, connection in bound.items()},
            wanted=LOADED if rows.members and not settled else "",
            wanted_at=NEVER_SEEN,
            assigned=count_assigned(rows),
            members_changed_at=rows.version,
        ),
        quarantine_ends=quarantine.awakened(rows, now),
    )
    draft = Draft(state, now, settings, surroundings)
    for member_id, member in rows.members.items():
        connection = bound.get(member_id)
        session = Session(
            ends_at=after(now, session_length_ms(member, settings) + settings.lease_ttl_ms),
            connection=connection,
            slot_at=None if connection is None else first_slot(member, len(rows.members), now),
            expelled=member_id in rows.quarantined,
            subscribed_at=rows.version,
        )
        draft.set_session(member_id, session)
    return draft
