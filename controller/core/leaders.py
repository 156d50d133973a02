"""This room changes leaders and ISRs in bulk: deaths, returns, first leaders, adopted proposals."""

from collections.abc import Iterable
from uuid import UUID

from controller.core.draft import Draft
from controller.core.election import Choice, Policy, after_loss, after_return, first_leader, never_led
from controller.core.events import ProposalsReady
from controller.core.in_sync import fewest
from controller.core.proposing import LeaderProposal, Task
from controller.core.records import WorkAdopted, WorkOffered
from muster.messages.cluster import NO_LEADER, PartitionRow


def remove(draft: Draft, broker_id: int, lost_tail: bool) -> None:
    """`broker_id`, which has no session any more, gives up what it leads and, if it may, its seats."""
    live = draft.live()
    for row in draft.partitions_of(broker_id):
        choice = after_loss(row, broker_id, live, draft.policy(row.topic_id), lost_tail)
        if choice is not None:
            draft.choose(row, choice)


def count_touched(draft: Draft, broker_id: int) -> int:
    """Partitions that the death of `broker_id` may change."""
    return sum(1 for row in draft.partitions_of(broker_id) if row.leader == broker_id or broker_id in row.isr)


def elect_leaderless(draft: Draft, broker_id: int, lost_tail: bool) -> None:
    """`broker_id` is live: it leads what has no leader and keeps it in the ISR, or never had a leader."""
    live = draft.live()
    leaderless = [key for key in draft.rows.leaderless if key not in draft.partitions]
    leaderless += [key for key, row in draft.partitions.items() if row.leader == NO_LEADER]
    for key in leaderless:
        row = draft.partition(key)
        if row is None or broker_id not in row.assigned:
            continue
        choice = after_return(row, live, draft.policy(row.topic_id))
        if choice is None:
            continue
        draft.choose(row, choice)
        if lost_tail and choice.leader == broker_id and not never_led(row) and not choice.possible_loss:
            draft.note_possible_loss(row, broker_id, "the last member of the ISR may have lost its tail")


def change_isr(draft: Draft, row: PartitionRow, isr: tuple[int, ...]) -> None:
    """A leader's accepted proposal, in the order of assignment."""
    draft.choose(row, Choice(row.leader, tuple(b for b in row.assigned if b in isr)))


def want_first_leaders(draft: Draft) -> None:
    """After a takeover: partitions that never had a leader get one (002 D.6), by a worker."""
    if any(never_led(draft.rows.partitions[key]) for key in draft.rows.leaderless):
        draft.other_records.append(WorkOffered(str(Task.CONTROLLER_FAILOVER), "", draft.version))


def adopt(draft: Draft, event: ProposalsReady) -> None:
    """Take over each proposal that still fits; what the task was for and no longer fits is decided here."""
    draft.other_records.append(WorkAdopted(event.item_id))
    live = draft.live()
    proposed = {(one.topic_id, one.partition): one for one in event.proposals}
    fitting: dict[tuple[object, ...], bool] = {}
    for row in list(_concerned(draft, event.task, event.key)):
        proposal = proposed.get(row.key)
        if proposal is not None and proposal.base_version == row.version:
            policy = draft.policy(row.topic_id)
            # Ten thousand partitions share a few sets of replicas: what is alike is judged once.
            alike = (proposal.leader, proposal.isr, row.leader, row.isr, row.assigned, never_led(row), policy)
            fits = fitting.get(alike)
            if fits is None:
                fits = fitting[alike] = _fits(row, proposal, live, event, policy)
            if fits:
                draft.choose(row, Choice(proposal.leader, proposal.isr))
                continue
        choice: Choice | None
        if event.task is Task.BROKER_CHANGE:
            choice = after_loss(row, int(event.key), live, draft.policy(row.topic_id))
        else:
            choice = first_leader(row, live) if never_led(row) else None
        if choice is not None:
            draft.choose(row, choice)


def _concerned(draft: Draft, task: Task, key: str) -> Iterable[PartitionRow]:
    """The rows that a task is about, as they now are; none if its reason is gone."""
    if task is Task.BROKER_CHANGE:
        return [] if int(key) in draft.memory.sessions else draft.partitions_of(int(key))
    if task is Task.TOPIC_CHANGE:
        return draft.partitions_of_topic(UUID(key))
    return [row for key in draft.rows.leaderless if (row := draft.partition(key)) is not None]


def _fits(
    row: PartitionRow, proposal: LeaderProposal, live: set[int], event: ProposalsReady, policy: Policy
) -> bool:
    """True if the turn could have decided the same: nobody died since. The proposal is based on this row."""
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
    if isr != set(row.isr) and len(isr) < fewest(policy.min_insync_replicas, row):
        return False
    if row.leader != gone:
        return proposal.leader == row.leader
    if proposal.leader == NO_LEADER:
        return live.isdisjoint(isr)
    return proposal.leader in live and proposal.leader in isr
