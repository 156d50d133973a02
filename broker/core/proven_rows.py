"""This room says which row a replica obeyed last before a database was set back, if it can tell."""

from muster.messages.link.from_broker import IsrProposal
from muster.messages.link.rows import PartitionRow


def proven_before(
    before: PartitionRow | None, row: PartitionRow, pending: IsrProposal | None, known: int
) -> int:
    """The version of the last row that was not unproven, as `row` comes behind `before`; 0: nobody can tell.

    `known`: what it was so far. A proposal without an answer may have been accepted, and who came into the
    ISR by it have led since (`open_proposal_is_forgotten`). So may somebody have between two lifts
    (`other_lift_is_forgotten`).
    """
    if not row.is_unproven or before is None:
        return 0
    if before.is_unproven:
        return known if before.leader_epoch == row.leader_epoch else 0
    return 0 if pending is not None else before.version
