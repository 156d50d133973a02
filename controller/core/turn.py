"""This room decides every controller turn (002 A, B, D; replication.md section 2).

Duties of the caller, who runs one turn at a time: `decide` on the state; if there are records, write them
under the lease's epoch, conditional on the metadata version and on each row's version; after the commit take
the decision's state for what is true, then send the replies, then the commands, each in order. A failed turn
is forgotten: load the rows again, keep the memory, decide the same events again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from controller.core import brokers, deletion, growing, leaders, partitions, reassignment, topics
from controller.core.dispatch import frames_for
from controller.core.draft import ClusterDecision, Draft
from controller.core.events import (
    Event,
    HangUp,
    Heard,
    Hello,
    LinkClosed,
    LinkId,
    ProposalsReady,
    Say,
    Saying,
    TimePassed,
    TookOver,
)
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState, Memory, after_records
from muster.kernel.instants import Instant, after
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    BrokerHello,
    BrokerPing,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ListReassignments,
    UnusableLogs,
)


def decide(
    state: ClusterState, events: Sequence[Event], now: Instant, settings: ControllerSettings
) -> ClusterDecision:
    """One turn for all `events`, and for every session that is over. Pure: `state` stays as it is."""
    draft = Draft(state, now, settings)
    # A hello that came since may have made it needless.
    unfinished, draft.memory.adopting = draft.memory.adopting, []
    returning, draft.memory.returning = draft.memory.returning, {}
    giving_away, draft.memory.giving_away = draft.memory.giving_away, {}
    for event in events:
        _happened(draft, event)
    for adopting in unfinished:
        leaders.adopt(draft, adopting)
    for broker_id, keys in giving_away.items():
        leaders.give_away(draft, broker_id, keys)
    # A hello of this turn knows better than one before it.
    returning.update(draft.memory.returning)
    draft.memory.returning = {}
    for broker_id, lost in returning.items():
        brokers.go_on_returning(draft, broker_id, lost)
    brokers.end_overdue_sessions(draft)
    return _finish(draft)


def _happened(draft: Draft, event: Event) -> None:
    match event:
        case TookOver():
            brokers.take_over(draft, event)
            leaders.want_first_leaders(draft)
        case Hello():
            brokers.greet(draft, event)
        case Heard():
            if draft.memory.broker_of(event.link) is not None:
                _heard(draft, event)
        case LinkClosed():
            brokers.close_link(draft, event.link)
        case ProposalsReady():
            leaders.adopt(draft, leaders.begin_adopting(event))
        case TimePassed():
            pass


def _heard(draft: Draft, event: Heard) -> None:
    """What the broker of a bound link says; what an unbound one says is never read."""
    match event.frame:
        case AlterPartition():
            partitions.judge_proposals(draft, event.link, event.frame)
        case UnusableLogs():
            brokers.state_unusable(draft, event.link, event.frame)
        case CreateTopics():
            topics.create(draft, event.link, event.frame, event.fresh)
        case DeleteTopics():
            deletion.delete(draft, event.link, event.frame)
        case CreatePartitions():
            growing.grow(draft, event.link, event.frame)
        case AlterReassignments():
            reassignment.alter(draft, event.link, event.frame, event.fresh)
        case ListReassignments():
            reassignment.answer_list(draft, event.link, event.frame)
        case AllocateProducerIds():
            brokers.give_producer_ids(draft, event.link, event.frame)
        case BrokerHello():
            draft.hang_ups.append(HangUp(event.link, "a second hello"))
        case BrokerPing():
            # A sign of life takes no turn (`heard`).
            pass
        case _:
            assert_never(event.frame)


def _finish(draft: Draft) -> ClusterDecision:
    reassignment.go_on(draft)
    changes = draft.partition_changes()
    records = draft.records(changes)
    topics.release_answers(draft)
    partitions.answer_proposals(draft)
    welcomed = brokers.welcome(draft, draft.version if records else draft.rows.metadata_version)
    commands: list[Saying] = list(draft.hang_ups)
    if records:
        turn = draft.turn_changes(changes)
        for broker_id, session in draft.memory.sessions.items():
            if session.link is not None and session.link not in welcomed:
                commands += [Say(session.link, frame) for frame in frames_for(broker_id, turn)]
    return ClusterDecision(
        records=records,
        replies=tuple(draft.replies),
        commands=tuple(commands),
        look_again_at=draft.now if draft.memory.is_unfinished else brokers.next_deadline(draft),
        state=ClusterState(after_records(draft.rows, records), draft.memory),
    )


def not_written(event: Event) -> Saying | None:
    """What is said of an event whose turn could not be written; None: nothing."""
    match event:
        case Heard(frame=CreateTopics() as frame):
            # What the database finds too large it finds so again: hanging up would help nobody.
            return Say(event.link, topics.not_written(frame))
        case Heard(frame=DeleteTopics() as frame):
            return Say(event.link, deletion.not_written(frame))
        case Heard(frame=CreatePartitions() as frame):
            return Say(event.link, growing.not_written(frame))
        case Heard(frame=AlterReassignments() as frame):
            return Say(event.link, reassignment.not_written(frame))
        case Hello() | Heard() | LinkClosed():
            return HangUp(event.link, "our own mistake")
        case _:
            return None


def heard(memory: Memory, link: LinkId, now: Instant, settings: ControllerSettings) -> bool:
    """A ping keeps the session, without a turn. False: the link is not the bound one, ignore it."""
    broker_id = memory.broker_of(link)
    if broker_id is None:
        return False
    memory.sessions[broker_id].deadline = after(now, settings.broker_session_timeout_ms)
    return True


def postpone(memory: Memory, by_ms: int) -> None:
    """The owner stood still for `by_ms`: that time is nobody's silence (design chapter 4.4).

    Without a turn, like `heard`, and at once: a turn that was under way decides again as soon as time
    goes on, before any event of now.
    """
    for session in memory.sessions.values():
        session.deadline = after(session.deadline, by_ms)
    memory.parked = [replace(one, due_at=after(one.due_at, by_ms)) for one in memory.parked]
