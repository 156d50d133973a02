"""This room handles the native protocol's frames, one row of the table of section 2 each."""

import hashlib
import hmac
from collections.abc import Sequence

from msgspec.structs import replace

from coordinator.core import quarantine
from coordinator.core.draft import Draft, first_slot, session_length_ms, third_of
from coordinator.core.events import (
    ConnectionClosed,
    ConnectionId,
    GroupEvent,
    Heard,
    ItemFailed,
    ItemFinished,
    Join,
    Leave,
    OutsideOffsets,
    Sync,
    TokenNarrowed,
    TopicsChanged,
)
from coordinator.core.memory import Session
from coordinator.core.native import attempts, sessions
from coordinator.core.worlds import refuse_classic
from groups.core import records
from groups.core.state import NATIVE, Key, Member
from groups.core.subscriptions import wanted
from groups.core.wishes import MemberWishes
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import after
from muster.kernel.invariants import InvariantViolation
from muster.kernel.scopes import Scope
from muster.messages.member import (
    PATTERN_LENGTH_MAX,
    LeaveRequest,
    LeaveResponse,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherResponse,
    StopFetcherResponse,
    TopicCount,
)
from muster.messages.partitions import by_topic, each_partition, each_position


def happened(draft: Draft, event: GroupEvent) -> None:
    """One thing that happened."""
    match event:
        case Heard():
            _heard(draft, event)
        case ConnectionClosed():
            _connection_closed(draft, event.connection)
        case ItemFinished():
            draft.finished = event
        case ItemFailed():
            draft.record(records.ItemAdopted(event.item_id))
            draft.failures += 1
            draft.want(f"the handler failed: {event.text}", not_before=attempts.after_backoff(draft))
        case TopicsChanged():
            draft.want("topics changed")
        case TokenNarrowed():
            _token_narrowed(draft, event)
        case OutsideOffsets():
            if not draft.rows.members:
                draft.let_nobody_go_on()
        case Join() | Sync() | Leave():
            dying = draft.rows.ephemeral and not draft.rows.members
            draft.answers.append(refuse_classic(event, dying=dying))


def lives(draft: Draft, event: Heard, *, repair: bool) -> None:
    """A frame that says no more than that its member lives, and where it is."""
    message = event.message
    if not isinstance(message, PingResponse):
        raise InvariantViolation("only ping answers are heard outside of turns")
    if draft.bound.get(event.connection) == message.consumer_id:
        _ping_answered(draft, message.consumer_id, message, repair=repair)


def _heard(draft: Draft, event: Heard) -> None:
    message = event.message
    if isinstance(message, RegisterConsumerRequest):
        _register(draft, event.connection, message, event.client_host)
        return
    member_id = draft.bound.get(event.connection)
    if member_id is None or member_id != message.consumer_id:
        return
    match message:
        case PingResponse():
            _ping_answered(draft, member_id, message)
        case StopFetcherResponse():
            _stop_answered(draft, member_id, message)
        case StartFetcherResponse():
            _start_answered(draft, member_id, message)
        case LeaveRequest():
            draft.answer(event.connection, LeaveResponse(correlation_id=message.correlation_id))
            sessions.remove(draft, member_id, f"left: {message.reason}" if message.reason else "left")


def _register(
    draft: Draft, connection: ConnectionId, request: RegisterConsumerRequest, client_host: str
) -> None:
    member_id = request.consumer_id
    token_hash = hashlib.sha256(request.token.encode()).hexdigest()
    present = draft.rows.members.get(member_id)
    error, text = _why_refused(draft, connection, request, present, token_hash)
    if error is not ErrorCode.NONE:
        refusal = RegisterConsumerResponse(
            correlation_id=request.correlation_id, error_code=error, error_text=text
        )
        draft.answer(connection, refusal)
        return
    if present is None:
        _add(draft, request, token_hash, client_host)
        draft.want(f"{member_id} joined", in_rows=True)
    else:
        _change(draft, request, present, client_host)
    _connect(draft, member_id, connection)
    draft.welcome(connection, request.correlation_id, known=present is not None)
    draft.tell_ownership(member_id)
    attempts.fail_if_concerned(draft, member_id, f"{member_id} registered")


def _why_refused(
    draft: Draft,
    connection: ConnectionId,
    request: RegisterConsumerRequest,
    present: Member | None,
    token_hash: str,
) -> tuple[ErrorCode, str]:
    """The two checks of 000 chapter 7, and those that keep nonsense out of the rows."""
    settings = draft.settings
    least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not least <= request.session_timeout_ms <= most:
        return ErrorCode.INVALID_SESSION_TIMEOUT, f"the session timeout must be {least} to {most} ms"
    if text := _fault_of_subscription(request):
        return ErrorCode.INVALID_SUBSCRIPTION, text
    if draft.bound.get(connection, request.consumer_id) != request.consumer_id:
        return ErrorCode.INVALID_CONSUMER_ID, "another consumer is registered on this connection"
    if text := quarantine.refusal(draft, request.consumer_id):
        return ErrorCode.MEMBER_EXPELLED, text
    if present is None:
        if len(draft.rows.members) >= settings.group_max_size:
            return ErrorCode.GROUP_SIZE_EXCEEDED, f"the group has {settings.group_max_size} members"
        return ErrorCode.NONE, ""
    if not hmac.compare_digest(present.token_hash, token_hash):
        return ErrorCode.DUPLICATE_CONSUMER_ID, "another process uses this consumer id"
    if draft.sessions[request.consumer_id].expelled:
        return ErrorCode.DUPLICATE_CONSUMER_ID, "this consumer was cut off until its session is over"
    return ErrorCode.NONE, ""


def _fault_of_subscription(request: RegisterConsumerRequest) -> str:
    asked = wanted(request.topic_count)
    if len(asked.threads) + len({entry.topic for entry in asked.patterns}) != len(request.topic_count):
        return "a topic is named twice"
    if any(len(entry.topic) > PATTERN_LENGTH_MAX for entry in asked.patterns):
        return f"a pattern has at most {PATTERN_LENGTH_MAX} characters"
    return ""


def _wishes(request: RegisterConsumerRequest, client_host: str) -> MemberWishes:
    return MemberWishes(
        topic_count=request.topic_count,
        session_timeout_ms=request.session_timeout_ms,
        auto_commit=request.auto_commit,
        auto_offset_reset=request.auto_offset_reset,
        client_id=request.client_id,
        client_host=client_host,
        rack=request.rack,
        stands_by=request.stands_by,
    )


def _add(draft: Draft, request: RegisterConsumerRequest, token_hash: str, client_host: str) -> None:
    if draft.rows.protocol != NATIVE:
        draft.record(records.ProtocolEntered(NATIVE))
    if request.ephemeral and not draft.rows.members and not draft.rows.before.version:
        draft.record(records.GroupMarkedEphemeral())
    wishes = _wishes(request, client_host).by_name()
    draft.record(records.MemberAdded(member_id=request.consumer_id, token_hash=token_hash, **wishes))


def _change(draft: Draft, request: RegisterConsumerRequest, present: Member, client_host: str) -> None:
    wishes = _wishes(request, client_host).by_name()
    if wishes != present.by_name():
        draft.record(records.MemberChanged(member_id=request.consumer_id, **wishes))
    if request.topic_count != present.topic_count:
        draft.want(f"{request.consumer_id} changed its subscription", in_rows=True)
    elif (request.rack, request.stands_by) != (present.rack, present.stands_by):
        why = f"{request.consumer_id} came back with another rack, or as another kind of standby"
        draft.want(why, in_rows=True)


def may_subscribe(topics: Scope, wish: TopicCount) -> bool:
    """Whether a token that is good for these topics allows this wish; a pattern needs one that is for all."""
    return topics.is_everything if wish.is_pattern else topics.covers(wish.topic)


def _token_narrowed(draft: Draft, event: TokenNarrowed) -> None:
    """What the token names no more is given up by a rebalance; who is left with nothing at all leaves.

    First its partitions go, in order: it fetches until it has answered StopFetcher.
    """
    member_id = draft.bound.get(event.connection)
    if member_id is None:
        return
    member = draft.rows.members[member_id]
    beyond = [wish for wish in member.topic_count if not may_subscribe(event.topics, wish)]
    if beyond:
        why = f"lost {_named(beyond)}: its token is not good for that any more"
        kept = tuple(wish for wish in member.topic_count if wish not in beyond)
        wishes = {**member.by_name(), "topic_count": kept}
        draft.record(records.MemberChanged(member_id=member_id, why=why, **wishes))
        draft.want(f"{member_id} {why}", in_rows=True)
    elif not member.topic_count and not draft.rows.owned_by(member_id):
        sessions.remove(draft, member_id, "its token is good for none of its topics any more")


def _named(wishes: Sequence[TopicCount]) -> str:
    more = f" and {len(wishes) - 1} more" if len(wishes) > 1 else ""
    return f"{'pattern' if wishes[0].is_pattern else 'topic'} {wishes[0].topic}{more}"


def _connect(draft: Draft, member_id: str, connection: ConnectionId) -> None:
    """Bind the connection, close the old one, start the session again; misses are not forgiven."""
    member = draft.rows.members[member_id]
    before = draft.sessions.get(member_id)
    if before is not None and before.connection not in (None, connection):
        assert before.connection is not None
        draft.unbind(before.connection)
        draft.hang_up(before.connection, ErrorCode.NONE, "registered again on another connection")
    draft.bind(connection, member_id)
    draft.set_session(
        member_id,
        Session(
            ends_at=after(draft.now, session_length_ms(member, draft.settings)),
            connection=connection,
            slot_at=first_slot(member, len(draft.rows.members), draft.now),
            stop_due_at=before.stop_due_at if before else None,
            repair_due_at=before.repair_due_at if before else None,
            missed_stops=before.missed_stops if before else 0,
            missed_starts=before.missed_starts if before else 0,
            armed_at=before.armed_at if before else None,
            subscribed_at=before.subscribed_at if before else draft.key_of_turn.version,
        ),
    )


def _connection_closed(draft: Draft, connection: ConnectionId) -> None:
    member_id = draft.bound.get(connection)
    if member_id is None:
        return
    draft.unbind(connection)
    session = draft.sessions[member_id]
    draft.set_session(member_id, replace(session, connection=None, slot_at=None, ping_unanswered=False))
    attempts.fail_if_concerned(draft, member_id, f"the connection of {member_id} closed")


def _ping_answered(draft: Draft, member_id: str, answer: PingResponse, *, repair: bool = True) -> None:
    session = draft.sessions[member_id]
    if not session.ping_unanswered or answer.number != session.ping_number:
        return
    draft.set_session(member_id, replace(session, ping_unanswered=False))
    sessions.restart(draft, member_id)
    draft.note_offsets(member_id, answer.offset_info)
    if draft.attempt is None and repair:
        _repair(draft, member_id, answer)


def _repair(draft: Draft, member_id: str, answer: PingResponse) -> None:
    """The member fetches, or stands by for, other than its rows, or has not started: tell it its rows."""
    fetched = frozenset(one for one, _ in each_position(answer.offset_info))
    assigned = sessions.has_assigned(draft, member_id)
    as_told = fetched == draft.rows.owned_by(member_id).keys() and _stands_as_told(draft, member_id, answer)
    if not assigned and as_told:
        return
    draft.tell_ownership(member_id)
    session = draft.sessions[member_id]
    if assigned and session.repair_due_at is None:
        due = after(draft.now, 2 * third_of(draft.rows.members[member_id]))
        draft.set_session(member_id, replace(session, repair_due_at=due))


def _stands_as_told(draft: Draft, member_id: str, answer: PingResponse) -> bool:
    standbys = draft.rows.standbys
    if not standbys and not answer.standby_info:
        return True
    if not draft.rows.members[member_id].stands_by:
        # It may know nothing of standbys, and then it would be told for ever.
        return True
    return standbys.get(member_id, frozenset()) == frozenset(each_partition(answer.standby_info))


def _stop_answered(draft: Draft, member_id: str, answer: StopFetcherResponse) -> None:
    draft.note_offsets(member_id, answer.offset_info)
    key = Key(answer.generation, answer.version)
    if draft.attempt is None or member_id not in draft.waiting or key != draft.attempt.key:
        return
    draft.waiting.discard(member_id)
    session = draft.sessions[member_id]
    draft.set_session(member_id, replace(session, stop_due_at=None, missed_stops=0))
    if not draft.waiting:
        attempts.close(draft)


def _start_answered(draft: Draft, member_id: str, answer: StartFetcherResponse) -> None:
    if answer.generation > draft.rows.generation:
        return
    started = [
        partition
        for partition, tenure in draft.rows.owned_by(member_id).items()
        if not tenure.running and tenure.since_generation <= answer.generation
    ]
    if started:
        draft.record(records.PartitionsRunning(member_id, by_topic(started)))
    session = replace(draft.sessions[member_id], missed_starts=0)
    if not sessions.has_assigned(draft, member_id):
        session = replace(session, repair_due_at=None)
    draft.set_session(member_id, session)
