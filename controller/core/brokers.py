"""This room keeps the brokers: hello, silence, closed links, and what each does to the partitions."""

from dataclasses import replace

import msgspec

from controller.core import leaders, leaving, recount
from controller.core.dispatch import snapshot, unusable_news
from controller.core.draft import Draft
from controller.core.events import BrokerGone, HangUp, Hello, LinkId, Say, TookOver
from controller.core.proposing import Task
from controller.core.records import ProducerIdsGiven, SetBackProven, WorkOffered
from controller.core.state import NOTHING_LOST, Leaver, LostTail, Session
from muster.kernel import config_levels
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.kernel.topic_configs import MIN_INSYNC_REPLICAS
from muster.messages.limits import LONGEST_RACK
from muster.messages.link.from_broker import AllocateProducerIds, BrokerHello, UnusableLogs
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.rows import BrokerRow
from muster.messages.link.to_broker import HelloAccepted, HelloRefused, ProducerIds


def take_over(draft: Draft, event: TookOver) -> None:
    """Who was live counts as just heard; nobody is told anything before its hello (line 165).

    Whoever was fenced says hello or stays away: with a session, a broker that has been dead for a day could
    be elected, and a death that is being computed would count as over.
    """
    deadline = after(draft.now, draft.settings.broker_session_timeout_ms)
    draft.memory.controller_epoch = event.controller_epoch
    draft.memory.sessions = {
        broker_id: Session(None, deadline) for broker_id, row in draft.rows.brokers.items() if row.live
    }
    draft.memory.parked = []
    draft.memory.adopting = []


def refusal(draft: Draft, frame: BrokerHello) -> HelloRefused | None:
    """Why a hello is refused, or None. The cluster id is "" in a broker's first hello of all.

    Another process under the same id waits until the link of the one before it is closed, which the end of
    a process does at once; one whose log may lack records waits until that session is over (conformance 156).
    Two processes that share an id would else take the seat from each other in turn, the empty one too.
    """
    if frame.cluster_id and frame.cluster_id != draft.rows.cluster_id:
        return HelloRefused(
            error=ErrorCode.INCONSISTENT_CLUSTER_ID,
            text=f"this is cluster {draft.rows.cluster_id}, the broker's data is of {frame.cluster_id}",
        )
    if len(frame.rack) > LONGEST_RACK or "\0" in frame.rack:
        text = f"its rack's name cannot be stored: {LONGEST_RACK} characters at most, none of them U+0000"
        return HelloRefused(error=ErrorCode.INVALID_REQUEST, text=text)
    if frame.broker_id in draft.unregistered:
        text = f"broker {frame.broker_id} was unregistered: enroll it again"
        return HelloRefused(error=ErrorCode.BROKER_ID_NOT_REGISTERED, text=text)
    why = _proves_a_set_back(draft, frame)
    if why:
        return HelloRefused(
            error=ErrorCode.DATABASE_SET_BACK,
            text=f"the database was set back: {why}; stop what runs on another copy, then adopt_restore",
        )
    if _says_a_loss_in_vain(frame):
        text = f"broker {frame.broker_id} is about to stop: what it lost is heard when it has come to stay"
        return HelloRefused(error=ErrorCode.BROKER_NOT_AVAILABLE, text=text)
    session, known = draft.memory.sessions.get(frame.broker_id), draft.broker(frame.broker_id)
    if session is None or known is None or known.incarnation == frame.incarnation:
        return None
    if session.link is not None or frame.lost_tail:
        return HelloRefused(
            error=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            text=f"another process is broker {frame.broker_id}; its session is not over",
        )
    return None


def _says_a_loss_in_vain(frame: BrokerHello) -> bool:
    """Who is about to stop is not elected, and its next process would not say any more what it lost."""
    return frame.leaving and (frame.lost_tail or bool(frame.damaged_logs))


def _proves_a_set_back(draft: Draft, frame: BrokerHello) -> str:
    """How this hello shows that the database lacks what was committed once (design 4.5); "": it does not.

    Nothing is told to a broker before it is committed, and versions and broker epochs never fall. Leader
    epochs prove nothing: the topic that had them may be deleted. It is recorded once; the broker stays
    refused until this controller ends, as turns let the version rise above what was stated.
    """
    before = draft.memory.set_back.get(frame.broker_id, "")
    if before:
        return before
    stated, version = max(frame.metadata_version, frame.highest_metadata_version), draft.rows.metadata_version
    known = draft.broker(frame.broker_id)
    # Of an id that is not registered any more nobody knows the epoch, but none was above the version.
    epoch = known.broker_epoch if known else version
    if stated > version:
        why = f"broker {frame.broker_id} has applied version {stated}, and this is {version}"
    elif frame.highest_broker_epoch > epoch:
        why = f"broker {frame.broker_id} was given epoch {frame.highest_broker_epoch}, and this is {epoch}"
    else:
        return ""
    lacking = max(stated - version, frame.highest_broker_epoch - epoch)
    draft.memory.set_back[frame.broker_id] = why
    draft.other_records.append(SetBackProven(frame.broker_id, stated, why, lacking))
    return why


def greet(draft: Draft, event: Hello) -> None:
    """Answer a hello: refuse it, or bind the link."""
    refused = refusal(draft, event.frame)
    if refused is not None:
        draft.replies += [Say(event.link, refused), HangUp(event.link, refused.text)]
        return
    if not hello(draft, event):
        text = "its partitions are being given to others, which takes more than a turn"
        again = HelloRefused(error=ErrorCode.BROKER_NOT_AVAILABLE, text=text)
        draft.replies += [Say(event.link, again), HangUp(event.link, text)]
        return
    # Until the turn ends a newer link of the same broker may have taken this one's place.
    if not is_kept_waiting(draft, event.frame.broker_id):
        draft.hellos.append((event.link, event.frame.broker_id))


def hello(draft: Draft, event: Hello) -> bool:
    """Bind the link; a new incarnation is a death first, all in one turn.

    The broker's older link is hung up: what is left in its buffer is never read. False: the death takes more
    than this turn; the broker is fenced, and says hello again until what is left fits into one.
    """
    frame, broker_id = event.frame, event.frame.broker_id
    session = draft.memory.sessions.get(broker_id)
    known = draft.broker(broker_id)
    is_new = known is None or known.incarnation != frame.incarnation
    lost = LostTail(frame.lost_tail, frozenset(frame.damaged_logs))
    if is_new:
        draft.memory.sessions.pop(broker_id, None)
        draft.memory.leaving.pop(broker_id, None)
        draft.memory.shown.forget(broker_id)
        if not (leaders.remove(draft, broker_id, lost) and recount.doubt(draft, broker_id, lost)):
            if known is not None and known.live:
                draft.put_broker(_fenced(known))
                # It may die before it says hello again, and without a session nobody would miss it.
                _offer_its_change(draft, broker_id)
            return False
    row = BrokerRow(
        broker_id=broker_id,
        # An id may have been unregistered: its next epoch is one that nobody had, as this version is new.
        broker_epoch=known.broker_epoch + is_new if known else draft.version,
        incarnation=frame.incarnation,
        endpoints=frame.endpoints,
        rack=frame.rack,
        live=True,
        leaving=frame.leaving,
        cordoned=known is not None and known.cordoned,
        static_configs=frame.static_configs,
        version=known.version if known else 0,
    )
    if row != known:
        draft.put_broker(row)
    draft.memory.sessions[broker_id] = Session(
        event.link,
        after(draft.now, draft.settings.broker_session_timeout_ms),
        protocol=frame.protocol,
        # Till the first ping of this link says how it is.
        disk_is_full=session is not None and not is_new and session.disk_is_full,
        since=draft.now if is_new or session is None or session.since is None else session.since,
    )
    recount.said_hello(draft)
    before = draft.memory.unusable.get(broker_id, frozenset())
    leaders.state_unusable(draft, broker_id, frame.unusable_logs, before.difference(frame.unusable_logs))
    draft.losses.returned[broker_id] = lost
    if leaders.elect_leaderless(draft, broker_id):
        del draft.losses.returned[broker_id]
    leaving.look_again(draft)
    if frame.leaving:
        draft.memory.leaving[broker_id] = Leaver()
    if session is not None and session.link is not None:
        draft.hang_ups.append(HangUp(session.link, "the broker opened another link"))
    return True


def go_on_returning(draft: Draft, broker_id: int) -> None:
    """What a hello left to the next turn, or a log that is whole again: lead what nobody leads."""
    session = draft.memory.sessions.get(broker_id)
    if session is None or not leaders.elect_leaderless(draft, broker_id):
        return
    was_kept_waiting = draft.losses.returned.pop(broker_id, NOTHING_LOST) != NOTHING_LOST
    if was_kept_waiting and session.link is not None:
        draft.hellos.append((session.link, broker_id))


def is_kept_waiting(draft: Draft, broker_id: int) -> bool:
    """True for who said hello with a lost tail, and is told that it was heard when all elections are over.

    Till then it says what it lost with each hello, and so to the next owner, too (`greeted_at_once`).
    """
    return draft.memory.returning.get(broker_id, NOTHING_LOST) != NOTHING_LOST


def close_link(draft: Draft, link: LinkId) -> None:
    """A closed link proves nothing: the session goes on, but not for long; answers to it are dropped.

    Of a broker that was let go it is the end.
    """
    draft.memory.parked = [one for one in draft.memory.parked if one.link != link]
    broker_id = draft.memory.broker_of(link)
    if broker_id is not None:
        leaver = draft.memory.leaving.get(broker_id)
        patience_ms = 0 if leaver is not None and leaver.told else draft.settings.closed_link_timeout_ms
        session = draft.memory.sessions[broker_id]
        deadline = min(session.deadline, after(draft.now, patience_ms))
        draft.memory.sessions[broker_id] = _unbound(session, deadline)


def miss(draft: Draft, event: BrokerGone) -> None:
    """Wait no longer for a broker whose process has ended, unless it or another one said hello since."""
    session, row = draft.memory.sessions.get(event.broker_id), draft.broker(event.broker_id)
    if session is None or session.link is not None or row is None or row.broker_epoch != event.broker_epoch:
        return
    deadline = min(session.deadline, draft.now)
    draft.memory.sessions[event.broker_id] = _unbound(session, deadline)


def end_overdue_sessions(draft: Draft) -> None:
    """Remove every broker whose deadline has passed; what this turn has no room for a worker computes."""
    memory = draft.memory
    overdue = [b for b, one in memory.sessions.items() if one.deadline <= draft.now]
    # All of them first: who dies together with others is elected in place of none of them.
    for broker_id in overdue:
        session = memory.sessions.pop(broker_id)
        memory.leaving.pop(broker_id, None)
        memory.shown.forget(broker_id)
        if session.link is not None:
            draft.hang_ups.append(HangUp(session.link, "the broker was not heard within its session"))
        row = draft.broker(broker_id)
        if row is not None and row.live:
            draft.put_broker(_fenced(row))
    for broker_id in overdue:
        if not leaders.remove(draft, broker_id, NOTHING_LOST):
            _offer_its_change(draft, broker_id)


def state_unusable(draft: Draft, link: LinkId, frame: UnusableLogs) -> None:
    """A broker says which of its logs it can neither read nor write."""
    broker_id = draft.memory.broker_of(link)
    assert broker_id is not None
    leaders.state_unusable(draft, broker_id, frame.failed, frame.usable)
    if frame.usable:
        leaving.look_again(draft)


def give_producer_ids(draft: Draft, link: LinkId, frame: AllocateProducerIds) -> None:
    """Another block of producer ids, which nobody else is ever given."""
    first, count = draft.next_producer_id, draft.settings.producer_ids_per_block
    draft.next_producer_id += count
    draft.other_records.append(ProducerIdsGiven(first, count))
    draft.replies.append(
        Say(link, ProducerIds(correlation_id=frame.correlation_id, first=first, count=count))
    )


def welcome(draft: Draft, version: int) -> frozenset[LinkId]:
    """Send a snapshot to every link that is bound now, and say which these are.

    It comes last in the turn of a hello, as it holds whatever the turn changed.
    """
    bound = [(link, b) for link, b in draft.hellos if draft.memory.broker_of(link) == b]
    if not bound:
        return frozenset()
    registered = draft.all_brokers()
    chunks = snapshot(
        version,
        registered.values(),
        draft.all_topics().values(),
        draft.all_partitions(),
        {**draft.rows.configs, **draft.configs}.values(),
        draft.all_quotas(),
        draft.losses.whole(draft.partition),
        unusable_news({}, draft.memory.unusable),
    )
    least = config_levels.number(MIN_INSYNC_REPLICAS, {}, draft.levels())
    for link, broker_id in bound:
        accepted = HelloAccepted(
            cluster_id=draft.rows.cluster_id,
            broker_epoch=registered[broker_id].broker_epoch,
            session_timeout_ms=draft.settings.broker_session_timeout_ms,
            replication_key=draft.settings.replication_key,
            min_insync_replicas=least,
            static_configs=draft.settings.static_configs,
            protocol=LINK_PROTOCOL,
        )
        draft.replies.append(Say(link, accepted))
        draft.replies += [Say(link, chunk) for chunk in chunks]
    return frozenset(link for link, _ in bound)


def next_deadline(draft: Draft) -> Instant | None:
    """When the next session or parked answer is over, or all partitions are looked at."""
    memory = draft.memory
    deadlines = [one.deadline for one in memory.sessions.values()] + [one.due_at for one in memory.parked]
    deadlines += [at for at in (memory.balance_at, memory.shown.look_at) if at is not None]
    return min(deadlines, default=None)


def _unbound(session: Session, deadline: Instant) -> Session:
    """The same broker between two links: its disk is as it was."""
    return replace(session, link=None, deadline=deadline, applied=0)


def _fenced(row: BrokerRow) -> BrokerRow:
    return msgspec.structs.replace(row, live=False, leaving=False)


def _offer_its_change(draft: Draft, broker_id: int) -> None:
    """Have a worker compute what becomes of the partitions of a broker that is gone."""
    draft.other_records.append(WorkOffered(str(Task.BROKER_CHANGE), str(broker_id), draft.version))
