"""This room judges in-sync replicas: who may leave, and which proposal of a leader is accepted."""

from collections.abc import Container, Mapping

from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import IsrProposal
from muster.messages.link.rows import BrokerRow, PartitionRow


def fewest(min_insync_replicas: int, row: PartitionRow) -> int:
    """The floor: no death takes a member out of the ISR when fewer would remain (section 1)."""
    return min(min_insync_replicas, len(row.assigned))


def without(row: PartitionRow, broker_id: int, floor: int, lost_tail: bool) -> tuple[int, ...]:
    """The ISR after the loss of `broker_id`.

    A log that lost its tail leaves whatever remains, as its seat would make it leader without its
    records (section 7.2); the last member is always kept.
    """
    if broker_id not in row.isr:
        return row.isr
    rest = tuple(b for b in row.isr if b != broker_id)
    return rest if len(rest) >= (1 if lost_tail else floor) else row.isr


def judge(
    row: PartitionRow,
    proposal: IsrProposal,
    sender: int,
    live: Container[int],
    brokers: Mapping[int, BrokerRow],
) -> ErrorCode:
    """Why an AlterPartition is refused, or NONE (conformance lines 179 to 184, in this order)."""
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
    return ErrorCode.NONE
