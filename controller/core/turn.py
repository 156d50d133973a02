"""This room decides every controller turn (002 A, B, D; replication.md section 2).

Duties of the caller, who runs one turn at a time: `decide` on the state; if there are records, write them
under the lease's epoch, conditional on the metadata version and on each row's version; after the commit take
the decision's state for what is true, then send the replies, then the commands, each in order. A failed turn
is forgotten: load the rows again, keep the memory, decide the same events again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from controller.core import (
    brokers,
    configs,
    deletion,
    growing,
    leaders,
    leaving,
    losses,
    partitions,
    plans,
    preferred,
    quotas,
    reassignment,
    recount,
    requests,
    retiring,
    shrinking,
    topics,
)
from controller.core.dispatch import frames_for, unusable_news
from controller.core.draft import ClusterDecision, Draft
from controller.core.events import (
    BrokerGone,
    Event,
    HangUp,
    Heard,
    Hello,
    LinkClosed,
    LinkId,
    PlanComputed,
    ProposalsReady,
    RequestSeat,
    Say,
    Saying,
    TimePassed,
    TookOver,
)
from controller.core.settings import ControllerSettings
from controller.core.state import AddingSteps, ClusterState, Memory
from muster.kernel.instants import Instant, after
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.condition import Condition
from muster.messages.link.configs import AlterConfigs
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    BrokerHello,
    BrokerPing,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Leaving,
    ListReassignments,
    LookForCaller,
    RemovePartitions,
    UnusableLogs,
)
from muster.messages.link.log_ends import LogEnds
from muster.messages.link.losses import AcknowledgeLosses
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from muster.messages.link.quotas import AlterClientQuotas, DescribeClientQuotas
from muster.messages.link.rows import UnusableAt

LOOKS_AT_ALL: Final = 1_000
"""The weight of what looks at every partition: few of these are one turn."""


def decide(
    state: ClusterState,
    events: Sequence[Event],
    now: Instant,
    settings: ControllerSettings,
    *,
    moves_rest: bool = False,
) -> ClusterDecision:
    """One turn for all `events`, and for every session that is over. Pure: `state` stays as it is.

    `moves_rest`: of plans and reassignments nothing is gone on with, for they may be what spoils turns.
    """
    draft = Draft(state, now, settings)
    # A hello that came since may have made it needless.
    unfinished, draft.memory.adopting = draft.memory.adopting, []
    returning, draft.memory.returning = draft.memory.returning, {}
    giving_away, draft.memory.giving_away = draft.memory.giving_away, {}
    adding_steps, draft.memory.adding_steps = draft.memory.adding_steps, []
    # Before what was asked for later.
    reassignment.go_on_altering(draft)
    for event in events:
        _happened(draft, event)
    for adopting in unfinished:
        leaders.adopt(draft, adopting)
    for adding in adding_steps:
        plans.add_steps(draft, adding)
    for broker_id, keys in giving_away.items():
        leaders.give_away(draft, broker_id, keys)
    returning.update(draft.memory.returning)
    draft.memory.returning = {}
    for broker_id in returning:
        brokers.go_on_returning(draft, broker_id)
    brokers.end_overdue_sessions(draft)
    recount.go_on(draft)
    preferred.balance_if_due(draft)
    return _finish(draft, unusable_news(state.memory.unusable, draft.memory.unusable), moves_rest)


def _happened(draft: Draft, event: Event) -> None:
    match event:
        case TookOver():
            brokers.take_over(draft, event)
            leaders.want_first_leaders(draft)
            preferred.begin(draft)
        case Hello():
            brokers.greet(draft, event)
        case Heard():
            if isinstance(event.link, RequestSeat) or draft.memory.broker_of(event.link) is not None:
                _heard(draft, event)
        case LinkClosed():
            brokers.close_link(draft, event.link)
        case BrokerGone():
            brokers.miss(draft, event)
        case ProposalsReady():
            leaders.adopt(draft, leaders.begin_adopting(event))
        case PlanComputed():
            plans.add_steps(draft, AddingSteps(event))
        case TimePassed():
            pass


def _heard(draft: Draft, event: Heard) -> None:
    """What the broker of a bound link says, or is asked by a row; what an unbound link says is never read."""
    match event.frame:
        case AlterPartition():
            partitions.judge_proposals(draft, event.link, event.frame)
        case UnusableLogs():
            brokers.state_unusable(draft, event.link, event.frame)
        case LogEnds():
            recount.hear(draft, event.link, event.frame.ends)
        case Leaving():
            leaving.ask(draft, event.link)
        case CreateTopics():
            topics.create(draft, event.link, event.frame, event.fresh)
        case DeleteTopics():
            deletion.delete(draft, event.link, event.frame)
        case CreatePartitions():
            growing.grow(draft, event.link, event.frame)
        case RemovePartitions():
            shrinking.remove(draft, event.link, event.frame, event.unread)
        case AlterReassignments():
            reassignment.alter(draft, event)
        case ListReassignments():
            reassignment.answer_list(draft, event.link, event.frame)
        case ElectLeaders():
            preferred.elect(draft, event.link, event.frame)
        case AlterConfigs():
            configs.alter(draft, event.link, event.frame)
        case ProposePlan():
            plans.propose(draft, event.link, event.frame, event.fresh)
        case ApprovePlan() | RunPlan() | PausePlan() | CancelPlan() | ThrottlePlan():
            plans.change(draft, event.link, event.frame)
        case AlterClientQuotas():
            quotas.alter(draft, event.link, event.frame)
        case DescribeClientQuotas():
            quotas.describe(draft, event.link, event.frame)
        case CordonBroker():
            retiring.cordon(draft, event.link, event.frame)
        case UnregisterBroker():
            retiring.unregister(draft, event.link, event.frame)
        case AllocateProducerIds():
            brokers.give_producer_ids(draft, event.link, event.frame)
        case BrokerHello():
            draft.hang_ups.append(HangUp(event.link, "a second hello"))
        case BrokerPing():
            # A sign of life takes no turn (`heard`); what an election lost does.
            losses.hear(draft, event.link, event.frame.losses)
        case AcknowledgeLosses():
            losses.acknowledge(draft, event.link, event.frame)
        case LookForCaller():
            # Nothing of the cluster is asked: the service answers it without a turn.
            pass
        case _:
            assert_never(event.frame)


def _finish(draft: Draft, unusable: tuple[UnusableAt, ...], moves_rest: bool) -> ClusterDecision:
    leaving.go_on(draft)
    if not moves_rest:
        plans.ask_next(draft)
        reassignment.go_on(draft)
    plans.hear_ends(draft)
    if moves_rest:
        reassignment.put_off(draft)
    changes = draft.partition_changes()
    records = draft.records(changes)
    topics.release_answers(draft)
    partitions.answer_proposals(draft)
    version = draft.version if records else draft.rows.metadata_version
    welcomed = brokers.welcome(draft, version)
    leaving.release(draft, version)
    # To state an answer changes nothing that a broker knows: it has no version of its own.
    answers, replies = requests.answered(draft.replies)
    commands: list[Saying] = list(draft.hang_ups)
    if records or unusable:
        turn = draft.turn_changes(changes)._replace(metadata_version=version, unusable=unusable)
        links = {
            broker_id: session.link
            for broker_id, session in draft.memory.sessions.items()
            if session.link is not None
            and session.link not in welcomed
            and not brokers.is_kept_waiting(draft, broker_id)
        }
        for broker_id, frames in frames_for(links, turn).items():
            commands += [Say(links[broker_id], frame) for frame in frames]
    return ClusterDecision(
        records=(*records, *answers, *draft.begun),
        replies=replies,
        commands=tuple(commands),
        look_again_at=draft.now if draft.memory.is_unfinished else brokers.next_deadline(draft),
        rows=draft.rows,
        memory=draft.memory,
    )


def weight(event: Event) -> int:
    """How much is written for this event, in common events: so many of them one turn takes in (lanes).

    What a worker proposes is bounded where it is adopted; what is asked for, one by one, by its door.
    """
    match event:
        case Heard(frame=CreateTopics() as frame):
            return max(1, sum(max(len(one.assignments), one.partition_count, 1) for one in frame.topics))
        case Heard(frame=CreatePartitions() as frame):
            return max(1, sum(max(1, one.partition_count) for one in frame.topics))
        case Heard(frame=AlterReassignments() as frame):
            return max(1, len(frame.partitions))
        case Heard(frame=AlterConfigs() as frame):
            return max(1, len(frame.resources))
        case Heard(frame=AlterClientQuotas() as frame):
            return max(1, len(frame.alterations))
        case Heard(frame=DeleteTopics() as frame):
            return max(1, len(frame.topics))
        case Heard(frame=AcknowledgeLosses() as frame):
            return max(1, len(frame.losses))
        case Heard(frame=BrokerPing() as frame):
            return max(1, len(frame.losses))
        case Heard(frame=LogEnds() as frame):
            return max(1, len(frame.ends))
        case Heard(frame=ElectLeaders() as frame):
            return LOOKS_AT_ALL if frame.partitions is None else max(1, len(frame.partitions))
        case _:
            return 1


def not_written(event: Event, why: str) -> Saying | None:
    """What is said of an event whose turn could not be written; None: nothing."""
    match event:
        case Heard(frame=CreateTopics() as frame):
            # What the database finds too large it finds so again: hanging up would help nobody.
            return Say(event.link, topics.not_written(frame, why))
        case Heard(frame=DeleteTopics() as frame):
            return Say(event.link, deletion.not_written(frame, why))
        case Heard(frame=CreatePartitions() as frame):
            return Say(event.link, growing.not_written(frame, why))
        case Heard(frame=RemovePartitions() as frame):
            return Say(event.link, shrinking.not_written(frame, why))
        case Heard(frame=AlterReassignments() as frame):
            return Say(event.link, reassignment.not_written(frame, why, event.begun))
        case Heard(frame=ElectLeaders() as frame):
            return Say(event.link, preferred.not_written(frame, why))
        case Heard(frame=AlterConfigs() as frame):
            return Say(event.link, configs.not_written(frame, why))
        case Heard(
            frame=ProposePlan()
            | ApprovePlan()
            | RunPlan()
            | PausePlan()
            | CancelPlan()
            | ThrottlePlan() as frame
        ):
            return Say(event.link, plans.not_written(frame, why))
        case Heard(frame=AlterClientQuotas() as frame):
            return Say(event.link, quotas.not_written(frame, why))
        case Heard(frame=CordonBroker() | UnregisterBroker() as frame):
            return Say(event.link, retiring.not_written(frame, why))
        case Heard(frame=AcknowledgeLosses() as frame):
            return Say(event.link, losses.not_written(frame, why))
        case Heard(frame=BrokerPing()):
            # The next ping says it again.
            return None
        case Hello() | Heard() | LinkClosed():
            return HangUp(event.link, "our own mistake")
        case _:
            return None


def heard(
    memory: Memory,
    link: LinkId,
    applied: int,
    now: Instant | None,
    settings: ControllerSettings,
    condition: Condition | None = None,
) -> bool:
    """A ping keeps the session, without a turn. False: the link is not the bound one, ignore it.

    `applied` is the metadata version that it states, `condition` what it says of its disk, if anything.
    `now`: None while this node is frozen: then nobody's session goes on.
    """
    broker_id = memory.broker_of(link)
    if broker_id is None:
        return False
    session = memory.sessions[broker_id]
    session.applied = applied
    if now is not None:
        session.deadline = after(now, settings.broker_session_timeout_ms)
    if condition is not None:
        session.disk_is_full = condition.disk is not None and condition.disk.is_full
    return True


def postpone(memory: Memory, by_ms: int) -> None:
    """The owner stood still for `by_ms`: that time is nobody's silence (design chapter 4.4).

    Without a turn, like `heard`, and at once: a turn that was under way decides again as soon as time
    goes on, before any event of now.
    """
    for session in memory.sessions.values():
        session.deadline = after(session.deadline, by_ms)
        session.since = None if session.since is None else after(session.since, by_ms)
    memory.parked = [replace(one, due_at=after(one.due_at, by_ms)) for one in memory.parked]
    if memory.balance_at is not None:
        memory.balance_at = after(memory.balance_at, by_ms)
    if memory.shown.look_at is not None:
        memory.shown.look_at = after(memory.shown.look_at, by_ms)
