"""This room decides every controller turn (002 A, B, D; replication.md section 2).

Duties of the caller, who runs one turn at a time: `decide` on the state; if there are records, write them
under the lease's epoch, conditional on the metadata version and on each row's version; after the commit
`settle`, then send the replies, then the commands, each in order. A failed turn is forgotten: load the
rows again, keep the memory, decide the same events again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from controller.core import brokers, creation, leaders
from controller.core.dispatch import frames_for, snapshot
from controller.core.draft import Draft
from controller.core.events import (
    Event,
    HangUp,
    Hello,
    LinkClosed,
    LinkId,
    ProducerIdsWanted,
    ProposalsReady,
    Proposed,
    Say,
    Saying,
    TimePassed,
    TookOver,
    TopicsWanted,
)
from controller.core.in_sync import judge
from controller.core.records import ClusterRecord, ProducerIdsGiven
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState, Memory, apply
from muster.kernel.decision import Decision
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.link.from_broker import AlterPartition
from muster.messages.link.to_broker import AlterPartitionAnswer, HelloAccepted, IsrAnswer, ProducerIds


@dataclass(frozen=True, slots=True)
class ClusterDecision(Decision[ClusterRecord, Saying]):
    """A decision, and what the owner remembers once it is committed."""

    memory: Memory = field(default_factory=Memory)


class _Turn:
    """The draft of one turn and what must be said at its end."""

    def __init__(self, state: ClusterState, now: Instant, settings: ControllerSettings) -> None:
        self.draft = Draft(state, settings)
        self.now = now
        self.settings = settings
        self.hellos: list[tuple[LinkId, int]] = []
        self.proposals: list[tuple[LinkId, AlterPartition, list[ErrorCode]]] = []
        self.replies: list[Saying] = []
        self.hang_ups: list[HangUp] = []

    def unfinished(self) -> list[ProposalsReady]:
        """What the last turn left to this one."""
        left, self.draft.memory.adopting = self.draft.memory.adopting, []
        return left

    def take(self, event: Event) -> None:
        draft, now = self.draft, self.now
        match event:
            case TookOver():
                brokers.take_over(draft, event, now)
                leaders.want_first_leaders(draft)
            case Hello():
                self._hello(event)
            case LinkClosed():
                brokers.close_link(draft, event.link, now)
            case Proposed():
                self._judge_proposals(event)
            case TopicsWanted():
                if draft.memory.broker_of(event.link) is not None:
                    self.replies += creation.create_topics(draft, event, now)
            case ProducerIdsWanted():
                self._give_producer_ids(event)
            case ProposalsReady():
                leaders.adopt(draft, event)
            case TimePassed():
                pass

    def _hello(self, event: Hello) -> None:
        refusal = brokers.refusal(self.draft, event.frame)
        if refusal is not None:
            self.replies += [Say(event.link, refusal), HangUp(event.link, refusal.text)]
            return
        self.hang_ups += brokers.hello(self.draft, event, self.now)
        # Until the turn ends a newer link of the same broker may have taken this one's place.
        self.hellos.append((event.link, event.frame.broker_id))

    def _judge_proposals(self, event: Proposed) -> None:
        """Accept or refuse each proposal; the answers are the rows at the end of the turn."""
        draft = self.draft
        sender = draft.memory.broker_of(event.link)
        if sender is None:
            return
        live, registered = draft.live(), draft.all_brokers()
        errors = []
        for proposal in event.frame.proposals:
            row = draft.partition((proposal.topic_id, proposal.partition))
            if row is None:
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            error = judge(row, proposal, sender, live, registered)
            if error is ErrorCode.NONE and set(proposal.isr) != set(row.isr):
                leaders.change_isr(draft, row, proposal.isr)
            errors.append(error)
        self.proposals.append((event.link, event.frame, errors))

    def _give_producer_ids(self, event: ProducerIdsWanted) -> None:
        draft = self.draft
        if draft.memory.broker_of(event.link) is None:
            return
        first, count = draft.next_producer_id, self.settings.producer_ids_per_block
        draft.next_producer_id += count
        draft.other_records.append(ProducerIdsGiven(first, count))
        self.replies.append(
            Say(
                event.link,
                ProducerIds(correlation_id=event.frame.correlation_id, first=first, count=count),
            )
        )

    # ------------------------------------------------------------------------------ the end

    def close(self) -> ClusterDecision:
        draft = self.draft
        self.hang_ups += brokers.end_overdue_sessions(draft, self.now)
        changes = draft.partition_changes()
        records = draft.records(changes)
        self.replies += creation.release_answers(draft, self.now)
        self._answer_proposals()
        self._welcome(draft.version if records else draft.rows.metadata_version)
        commands: list[Saying] = list(self.hang_ups)
        if records:
            turn = draft.turn_changes(changes)
            welcomed = {link for link, _ in self.hellos}
            for broker_id, session in draft.memory.sessions.items():
                if session.link is not None and session.link not in welcomed:
                    commands += [Say(session.link, frame) for frame in frames_for(broker_id, turn)]
        return ClusterDecision(
            records=records,
            replies=tuple(self.replies),
            commands=tuple(commands),
            look_again_at=self.now if draft.memory.adopting else brokers.next_deadline(draft),
            memory=draft.memory,
        )

    def _answer_proposals(self) -> None:
        """Each proposal gets the row as it now is: one frame for consent and refusal (section 7.7)."""
        for link, frame, errors in self.proposals:
            answers = tuple(
                IsrAnswer(
                    topic_id=proposal.topic_id,
                    partition=proposal.partition,
                    base_version=proposal.base_version,
                    row=self.draft.partition((proposal.topic_id, proposal.partition)),
                    error=error,
                )
                for proposal, error in zip(frame.proposals, errors, strict=True)
            )
            self.replies.append(Say(link, AlterPartitionAnswer(answers=answers)))

    def _welcome(self, version: int) -> None:
        """The snapshot comes last in the turn of a hello: it holds whatever the turn changed."""
        draft = self.draft
        self.hellos = [
            (link, broker_id) for link, broker_id in self.hellos if draft.memory.broker_of(link) == broker_id
        ]
        if not self.hellos:
            return
        registered = draft.all_brokers()
        chunks = snapshot(
            version,
            registered.values(),
            {**draft.rows.topics, **draft.topics}.values(),
            draft.all_partitions(),
        )
        for link, broker_id in self.hellos:
            accepted = HelloAccepted(
                cluster_id=draft.rows.cluster_id,
                broker_epoch=registered[broker_id].broker_epoch,
                session_timeout_ms=self.settings.broker_session_timeout_ms,
            )
            self.replies.append(Say(link, accepted))
            self.replies += [Say(link, chunk) for chunk in chunks]


def decide(
    state: ClusterState, events: Sequence[Event], now: Instant, settings: ControllerSettings
) -> ClusterDecision:
    """One turn for all `events`, and for every session that is over; changes nothing of `state`."""
    turn = _Turn(state, now, settings)
    # A hello that came since may have made it needless.
    unfinished = turn.unfinished()
    for event in (*events, *unfinished):
        turn.take(event)
    return turn.close()


def settle(state: ClusterState, decision: ClusterDecision) -> None:
    """After the commit, before anything is said: the decision is now what is true."""
    for record in decision.records:
        apply(state.rows, record)
    state.memory = decision.memory


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
