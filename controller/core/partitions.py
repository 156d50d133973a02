"""This room judges what leaders ask of single partitions: another ISR (replication.md section 2)."""

from collections.abc import Container, Mapping

from controller.core import leaders
from controller.core.draft import Draft
from controller.core.events import LinkId, Say
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_configs import floor
from muster.messages.link.from_broker import AlterPartition, IsrProposal
from muster.messages.link.rows import BrokerRow, PartitionRow
from muster.messages.link.to_broker import AlterPartitionAnswer, IsrAnswer


def judge_proposals(draft: Draft, link: LinkId, frame: AlterPartition) -> None:
    """Accept or refuse each proposal; the answers are the rows at the end of the turn."""
    sender = draft.memory.broker_of(link)
    assert sender is not None
    live, registered = draft.live(), draft.all_brokers()
    errors = []
    for proposal in frame.proposals:
        row = draft.partition((proposal.topic_id, proposal.partition))
        if row is None:
            errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        fewest = floor(draft.policy(row.topic_id).min_insync_replicas, row.settled_count)
        error = judge(row, proposal, sender, draft.usable(live, row), registered, fewest)
        if error is ErrorCode.NONE and set(proposal.isr) != set(row.isr):
            leaders.change_isr(draft, row, proposal.isr)
        errors.append(error)
    draft.proposals.append((link, frame, errors))


def judge(
    row: PartitionRow,
    proposal: IsrProposal,
    sender: int,
    live: Container[int],
    brokers: Mapping[int, BrokerRow],
    fewest: int,
) -> ErrorCode:
    """Why an AlterPartition is refused, or NONE (conformance lines 179 to 184, in this order).

    `fewest` is the floor: whoever shrinks below it knows another min.insync.replicas than the cluster.
    """
    if proposal.base_version > row.version:
        return ErrorCode.NOT_CONTROLLER
    if proposal.base_version < row.version:
        return ErrorCode.INVALID_UPDATE_VERSION
    if row.leader != sender:
        return ErrorCode.INVALID_REQUEST
    wanted = set(proposal.isr)
    if len(wanted) != len(proposal.isr) or sender not in wanted or not wanted <= set(row.assigned):
        return ErrorCode.INVALID_REQUEST
    for broker_id in wanted.difference(row.isr):
        registered = brokers.get(broker_id)
        if registered is None or broker_id not in live:
            return ErrorCode.INELIGIBLE_REPLICA
        if proposal.broker_epochs.get(broker_id) != registered.broker_epoch:
            return ErrorCode.INELIGIBLE_REPLICA
    if len(wanted) < fewest and not wanted >= set(row.isr):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def answer_proposals(draft: Draft) -> None:
    """Each proposal gets the row as it now is: one frame for consent and refusal (section 7.7)."""
    for link, frame, errors in draft.proposals:
        answers = tuple(
            IsrAnswer(
                topic_id=proposal.topic_id,
                partition=proposal.partition,
                base_version=proposal.base_version,
                row=draft.partition((proposal.topic_id, proposal.partition)),
                error=error,
            )
            for proposal, error in zip(frame.proposals, errors, strict=True)
        )
        draft.replies.append(Say(link, AlterPartitionAnswer(answers=answers)))
