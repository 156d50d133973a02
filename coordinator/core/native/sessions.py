"""This room runs the owner's clocks: pings, ends of sessions, watchers, expulsion (sections 2 and 5)."""

from msgspec.structs import replace

from coordinator.core.draft import Draft, session_length_ms, third_of
from coordinator.core.memory import Session
from coordinator.core.native import attempts
from coordinator.core.settings import Surroundings
from groups.core import records
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after, elapsed_ms
from muster.messages.member import PingRequest

SESSION_OVER = "session over"

LOOKED_AFTER_MAX = 500
"""Members in one turn: thousands whose pings are due together would stop the loop for a tenth of a second."""


def time_passed(draft: Draft) -> None:
    """Do what is due by `now`; each member costs once, others nothing. What is left is due at once again."""
    for _ in range(LOOKED_AFTER_MAX):
        member_id = draft.pop_due()
        if member_id is None:
            return
        _look_after(draft, member_id)


def _look_after(draft: Draft, member_id: str) -> None:
    session = draft.sessions[member_id]
    if session.ends_at <= draft.now:
        removed = draft.rows.quarantined.get(member_id)
        remove(draft, member_id, SESSION_OVER if removed is None else removed.why)
        return
    if session.stop_due_at is not None and session.stop_due_at <= draft.now:
        draft.set_session(member_id, replace(session, stop_due_at=None))
        _stop_unanswered(draft, member_id)
    session = draft.sessions[member_id]
    if session.repair_due_at is not None and session.repair_due_at <= draft.now:
        draft.set_session(member_id, replace(session, repair_due_at=None))
        if has_assigned(draft, member_id):
            session = draft.sessions[member_id]
            draft.set_session(member_id, replace(session, missed_starts=session.missed_starts + 1))
            _expel_the_mute(draft, member_id, "StartFetcher")
    session = draft.sessions[member_id]
    if session.slot_at is not None and session.slot_at <= draft.now:
        session = _ping(draft, member_id, session)
    draft.set_session(member_id, session)


def _ping(draft: Draft, member_id: str, session: Session) -> Session:
    """The slot has come: ping, unless one is unanswered and may not be repeated yet."""
    third, now = third_of(draft.rows.members[member_id]), draft.now
    slot_at = next_slot(session, third, now)
    if not session.ping_unanswered:
        session = asked(session, slot_at, now)
    elif (
        session.ping_retries < draft.settings.ping_max_retries
        and elapsed_ms(session.ping_sent_at, now) >= 2 * third
    ):
        session = replace(session, slot_at=slot_at, ping_retries=session.ping_retries + 1, ping_sent_at=now)
    else:
        return replace(session, slot_at=slot_at)
    assert session.connection is not None
    request = ping_request(member_id, session, draft.rows.generation, draft.surroundings)
    draft.pings.append((session.connection, request))
    return session


def next_slot(session: Session, third: int, now: Instant) -> Instant:
    """The slot after the one that has come; slots that were slept through are not made up."""
    assert session.slot_at is not None
    behind = elapsed_ms(session.slot_at, now) // third
    return after(session.slot_at, (behind + 1) * third)


def asked(session: Session, slot_at: Instant, now: Instant) -> Session:
    """The next ping goes out; the slot after it comes at `slot_at`."""
    return replace(
        session,
        slot_at=slot_at,
        ping_number=session.ping_number + 1,
        ping_retries=0,
        ping_unanswered=True,
        ping_sent_at=now,
    )


def ping_request(
    member_id: str, session: Session, generation: int, surroundings: Surroundings
) -> PingRequest:
    """The ping that is unanswered."""
    return PingRequest(
        consumer_id=member_id,
        number=session.ping_number,
        num_retries=session.ping_retries,
        generation=generation,
        nodes=surroundings.nodes,
    )


def _stop_unanswered(draft: Draft, member_id: str) -> None:
    if draft.attempt is not None and member_id in draft.waiting:
        attempts.fail(draft, f"{member_id} did not answer StopFetcher")
        session = draft.sessions[member_id]
        draft.set_session(member_id, replace(session, missed_stops=session.missed_stops + 1))
        _expel_the_mute(draft, member_id, "StopFetcher")


def _expel_the_mute(draft: Draft, member_id: str, unanswered: str) -> None:
    session = draft.sessions[member_id]
    missed = max(session.missed_stops, session.missed_starts)
    limit = draft.settings.rebalance_max_retries
    if missed > limit and draft.settings.on_exhausted == "expel" and not session.expelled:
        _expel(draft, member_id, unanswered)


def _expel(draft: Draft, member_id: str, unanswered: str) -> None:
    """Cut the member off; its rows are freed when its session is over, because it fetches until then."""
    draft.record(
        records.ErrorShown(
            f"{member_id} answers pings but not {unanswered}; it was cut off until its session ends"
        )
    )
    cut_off(draft, member_id, f"{unanswered} stayed unanswered")


def cut_off(draft: Draft, member_id: str, why: str) -> None:
    """Hang up and hear no more; whatever the member owns stays its own until its session is over."""
    session = draft.sessions[member_id]
    if session.connection is not None:
        draft.unbind(session.connection)
        draft.hang_up(session.connection, ErrorCode.MEMBER_EXPELLED, why)
    draft.set_session(
        member_id,
        replace(session, connection=None, slot_at=None, repair_due_at=None, expelled=True),
    )
    attempts.fail_if_concerned(draft, member_id, f"{member_id} was expelled")


def has_assigned(draft: Draft, member_id: str) -> bool:
    """Is a partition given to this member that it was not yet heard to fetch?"""
    return any(not tenure.running for tenure in draft.rows.owned_by(member_id).values())


def remove(draft: Draft, member_id: str, why: str) -> None:
    """The member left or its session is over: offsets first, then its rows are free."""
    draft.flush()
    draft.record(records.MemberRemoved(member_id, why))
    connection = draft.sessions[member_id].connection
    draft.forget(member_id)
    if connection is not None:
        draft.unbind(connection)
        error = ErrorCode.UNKNOWN_MEMBER_ID if why == SESSION_OVER else ErrorCode.NONE
        draft.hang_up(connection, error, why)
    draft.want(f"{member_id}: {why}", in_rows=True)
    attempts.fail_if_concerned(draft, member_id, f"{member_id}: {why}")


def restart(draft: Draft, member_id: str) -> None:
    """An answer of the member was received: its session starts again."""
    session, member = draft.sessions[member_id], draft.rows.members[member_id]
    ends_at = after(draft.now, session_length_ms(member, draft.settings))
    draft.set_session(member_id, replace(session, ends_at=ends_at))
