"""This room changes leaders and ISRs in bulk: deaths, returns, first leaders, adopted proposals."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from controller.core.draft import Draft
from controller.core.election import (
    Choice,
    Policy,
    after_leaving,
    after_loss,
    after_return,
    first_leader,
    never_led,
)
from controller.core.events import ProposalsReady
from controller.core.proposing import LeaderProposal, Seats, Task
from controller.core.records import WorkAdopted, WorkOffered
from controller.core.state import NOTHING_LOST, Adopting, LostTail
from muster.kernel.topic_configs import floor
from muster.messages.link.rows import NO_LEADER, PartitionKey, PartitionRow

_Judged: TypeAlias = dict[tuple[object, ...], Choice | None]
"""What becomes of partitions that stand alike under the same policy."""


def remove(draft: Draft, broker_id: int, lost: LostTail) -> bool:
    """`broker_id`, which has no session any more, gives up what it leads and, if it may, its seats.

    Where its log lost its tail it gives them up whatever the floor says (`lost_kept`, `damage_kept`). False:
    the turn is full, and the rest is still to be done.
    """

    def judge(row: PartitionRow, usable: set[int], lost_here: bool) -> Choice | None:
        return after_loss(row, broker_id, usable, draft.policy_for(row), lost_here)

    return _sweep(draft, broker_id, judge, lost)


def leave(draft: Draft, broker_id: int) -> bool:
    """`broker_id` is about to stop: others lead what they can; it gives up seats that the floor can spare.

    False: the turn is full, and the rest is still to be done.
    """

    def judge(row: PartitionRow, usable: set[int], _: bool) -> Choice | None:
        return after_leaving(row, broker_id, usable, draft.policy(row.topic_id))

    return _sweep(draft, broker_id, judge, NOTHING_LOST)


def _sweep(
    draft: Draft,
    broker_id: int,
    judge: Callable[[PartitionRow, set[int], bool], Choice | None],
    lost: LostTail,
) -> bool:
    """`judge` each partition that `broker_id` leads or is in sync with; False: the turn is full."""
    live = draft.live()
    # Ten thousand partitions share a few sets of replicas: what is alike is judged once.
    judged: _Judged = {}

    def choices(topic_id: UUID) -> Iterator[tuple[PartitionRow, Choice]]:
        policy = None
        for row in tuple(draft.partitions_of_topic(topic_id)):
            if row.leader != broker_id and broker_id not in row.isr:
                continue
            # Of ten thousand topics a broker may hold few, and to find the policies of all takes longest.
            policy = policy or draft.policy(topic_id)
            usable = draft.usable(live, row)
            lost_here = lost.covers(row)
            seats = row.leader, row.isr, row.assigned, row.adding, row.unproven
            alike = (policy, usable is live or frozenset(usable), lost_here, *seats)
            if alike not in judged:
                judged[alike] = judge(row, usable, lost_here)
            choice = judged[alike]
            if choice is not None:
                yield row, choice

    return all(draft.choose_all_if_room(topic_id, choices(topic_id)) for topic_id in draft.topic_ids())


def state_unusable(
    draft: Draft, broker_id: int, failed: Iterable[PartitionKey], usable: Iterable[PartitionKey]
) -> None:
    """Logs of a live broker cannot be used any more, or can again: it counts as dead for the first alone.

    What is usable again and has no leader is led again, as if the broker came back for it.
    """
    before = draft.memory.unusable.pop(broker_id, frozenset())
    now = before.difference(usable).union(failed)
    if now:
        draft.memory.unusable[broker_id] = now
    draft.memory.shown.forget_logs(broker_id, now - before)
    give_away(draft, broker_id, sorted(now - before))
    for key in before - now:
        row = draft.partition(key)
        if row is not None and broker_id in row.assigned:
            draft.memory.returning.setdefault(broker_id, NOTHING_LOST)
            draft.memory.shown.unjudged[key] = None


def give_away(draft: Draft, broker_id: int, keys: Sequence[PartitionKey]) -> None:
    """What `broker_id` leads or is in sync with and cannot use; what is too much is left to the next turn."""
    live, cannot_use = draft.live(), draft.memory.unusable.get(broker_id, frozenset())
    for number, key in enumerate(keys):
        row = draft.partition(key)
        if row is None or key not in cannot_use or broker_id not in row.assigned:
            continue
        usable = draft.usable(live, row) - {broker_id}
        choice = after_loss(row, broker_id, usable, draft.policy_for(row))
        if choice is not None and not draft.choose_if_room(row, choice):
            left = draft.memory.giving_away.get(broker_id, ())
            draft.memory.giving_away[broker_id] = (*left, *keys[number:])
            return


def elect_leaderless(draft: Draft, broker_id: int) -> bool:
    """`broker_id` is live: it leads what has no leader and keeps it in the ISR, or never had a leader.

    False: what is too much for this turn is left to the next.
    """
    live = draft.live()
    for row in tuple(draft.leaderless()):
        if broker_id not in row.assigned:
            continue
        choice = after_return(row, draft.usable(live, row), draft.policy_for(row))
        if choice is None:
            continue
        if not draft.choose_if_room(row, choice):
            draft.memory.returning[broker_id] = draft.losses.returned.get(broker_id, NOTHING_LOST)
            return False
    return True


def change_isr(draft: Draft, row: PartitionRow, isr: tuple[int, ...]) -> None:
    """A leader's accepted proposal, in the order of assignment; one that leaves gives way to who came in."""
    draft.choose(row, Choice(row.leader, tuple(b for b in row.assigned if b in isr)))
    if row.leader in draft.memory.leaving:
        grown = draft.partition(row.key)
        assert grown is not None
        usable = draft.usable(draft.live(), grown)
        choice = after_leaving(grown, row.leader, usable, draft.policy(row.topic_id))
        if choice is not None:
            draft.choose(grown, choice)


def want_first_leaders(draft: Draft) -> None:
    """After a takeover: partitions that never had a leader get one (002 D.6), by a worker."""
    if any(map(never_led, draft.leaderless())):
        draft.other_records.append(WorkOffered(str(Task.CONTROLLER_FAILOVER), "", draft.version))


def adopt(draft: Draft, adopting: Adopting) -> None:
    """Take over each proposal that still fits; what the task was for and no longer fits is decided here.

    What is too much for one turn is left to the next, and the work counts as adopted with the last of it: a
    new owner begins again, and what was adopted by then stands otherwise and stays as it is.
    """
    event = adopting.event
    is_back = event.task is Task.BROKER_CHANGE and int(event.key) in draft.memory.sessions
    # Whoever is back said hello, and that turn decided what becomes of its partitions.
    left = None if is_back else _adopt_what_fits(draft, adopting)
    if left is None:
        draft.other_records.append(WorkAdopted(event.item_id))
    else:
        draft.memory.adopting.append(left)


def begin_adopting(event: ProposalsReady) -> Adopting:
    """A worker's proposals, none of which is adopted yet."""
    return Adopting(event, {one.seats: one for one in event.proposals})


def _adopt_what_fits(draft: Draft, adopting: Adopting) -> Adopting | None:
    """What is left when the turn is full; None: nothing."""
    event = adopting.event
    topic_ids = adopting.left
    if topic_ids is None:
        topic_ids = _topics_of(draft, event)
    # Ten thousand partitions share a few sets of replicas: what is alike is judged once.
    judged: _Judged = {}
    for number, topic_id in enumerate(topic_ids):
        if adopting.proposed:
            # Each proposal is for one topic.
            judged.clear()
        if not draft.choose_all_if_room(topic_id, _choices(draft, adopting, topic_id, judged)):
            return replace(adopting, left=topic_ids[number:])
    return None


def _topics_of(draft: Draft, event: ProposalsReady) -> Sequence[UUID]:
    """Where partitions may be that the task concerns."""
    match event.task:
        case Task.TOPIC_CHANGE:
            return [UUID(event.key)]
        case Task.CONTROLLER_FAILOVER:
            return list(dict.fromkeys(row.topic_id for row in draft.leaderless()))
        case Task.BROKER_CHANGE:
            return draft.topic_ids()


def _choices(
    draft: Draft, adopting: Adopting, topic_id: UUID, judged: _Judged
) -> Iterator[tuple[PartitionRow, Choice]]:
    """What becomes of the partitions of one topic that the task concerns and that change."""
    event, live, policy = adopting.event, draft.live(), None
    gone = int(event.key) if event.task is Task.BROKER_CHANGE else None
    for row in tuple(draft.partitions_of_topic(topic_id)):
        if gone is not None and row.leader != gone and gone not in row.isr:
            # As it is where a turn before this one has adopted it.
            continue
        policy = policy or draft.policy(topic_id)
        usable = draft.usable(live, row)
        alike = (
            policy,
            usable is live or frozenset(usable),
            row.leader,
            row.isr,
            row.assigned,
            row.adding,
            row.unproven,
        )
        if alike not in judged:
            proposal = adopting.proposed.get(Seats.of(row)) if adopting.proposed else None
            judged[alike] = _judged(row, proposal, usable, event, draft.policy_for(row))
        choice = judged[alike]
        if choice is not None:
            yield row, choice


def _judged(
    row: PartitionRow, proposal: LeaderProposal | None, live: set[int], event: ProposalsReady, policy: Policy
) -> Choice | None:
    """The proposal for what stands as this row if it fits, or what this turn decides; None: no change."""
    if row.is_unproven:
        return None
    if proposal is not None and _fits(row, proposal, live, event, policy):
        return Choice(proposal.leader, proposal.isr)
    if event.task is Task.BROKER_CHANGE:
        return after_loss(row, int(event.key), live, policy)
    return first_leader(row, live) if never_led(row) else None


def _fits(
    row: PartitionRow, proposal: LeaderProposal, live: set[int], event: ProposalsReady, policy: Policy
) -> bool:
    """True if the turn could have decided the same: nobody died since. It is for what stands as this row."""
    if never_led(row):
        return (
            event.task is not Task.BROKER_CHANGE
            and proposal.leader in proposal.isr
            and live.issuperset(proposal.isr)
            and set(proposal.isr) <= set(row.assigned)
        )
    if event.task is not Task.BROKER_CHANGE:
        return False
    gone, isr = int(event.key), set(proposal.isr)
    if not isr <= set(row.isr) or not set(row.isr) - isr <= {gone}:
        return False
    if isr != set(row.isr) and len(isr) < floor(policy.min_insync_replicas, row.settled_count):
        return False
    if row.leader != gone:
        return proposal.leader == row.leader
    if proposal.leader == NO_LEADER:
        return live.isdisjoint(isr)
    return proposal.leader in live and proposal.leader in isr
