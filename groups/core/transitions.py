"""This room holds which phase may follow which in one turn, and what must have become true for it."""

from collections.abc import Mapping, Sequence

from groups.core.phases import Phase
from groups.core.records import (
    GenerationOpened,
    GroupRecord,
    ItemAdopted,
    MemberAdded,
    MemberRemoved,
    PartitionsRunning,
    PhaseEntered,
)

_NONE: tuple[type[GroupRecord], ...] = ()

NATIVE: Mapping[tuple[Phase, Phase], tuple[type[GroupRecord], ...]] = {
    (Phase.EMPTY, Phase.STABLE): (MemberAdded,),
    # A handler's result may be waiting for members that left and came back: it is adopted at once, and in
    # eager mode even those who own nothing are told to stop.
    (Phase.EMPTY, Phase.COMPLETING_REBALANCE): (GenerationOpened,),
    (Phase.EMPTY, Phase.PREPARING_REBALANCE): (ItemAdopted,),
    (Phase.STABLE, Phase.PREPARING_REBALANCE): (ItemAdopted,),
    (Phase.STABLE, Phase.COMPLETING_REBALANCE): (GenerationOpened,),
    (Phase.STABLE, Phase.EMPTY): (MemberRemoved,),
    (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE): _NONE,
    (Phase.PREPARING_REBALANCE, Phase.STABLE): _NONE,
    (Phase.PREPARING_REBALANCE, Phase.EMPTY): (MemberRemoved,),
    (Phase.COMPLETING_REBALANCE, Phase.STABLE): (PartitionsRunning, MemberRemoved),
    (Phase.COMPLETING_REBALANCE, Phase.PREPARING_REBALANCE): (ItemAdopted,),
    (Phase.COMPLETING_REBALANCE, Phase.EMPTY): (MemberRemoved,),
}
"""From, to: one of these records must be in the turn; none of them where an attempt may just have failed.

The native protocol's rules (native-protocol.md sections 1 and 2), of which phases are a consequence.
"""


CLASSIC = frozenset(
    {
        (Phase.PREPARING_REBALANCE, Phase.EMPTY),
        (Phase.STABLE, Phase.PREPARING_REBALANCE),
        (Phase.COMPLETING_REBALANCE, Phase.PREPARING_REBALANCE),
        (Phase.EMPTY, Phase.PREPARING_REBALANCE),
        (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE),
        (Phase.COMPLETING_REBALANCE, Phase.STABLE),
    }
)
"""From, to (conformance 13). A turn may go several such ways; it records each phase that it enters."""


def each_allowed(before: Phase, turn: Sequence[GroupRecord]) -> bool:
    """Whether a classic group may enter, one after the other, the phases that these records name."""
    for record in turn:
        if isinstance(record, PhaseEntered):
            if (before, record.phase) not in CLASSIC:
                return False
            before = record.phase
    return True


def allowed(before: Phase, after: Phase, turn: Sequence[GroupRecord]) -> bool:
    """Whether a turn of these records may have brought a native group from one phase to another."""
    if before is after:
        return True
    causes = NATIVE.get((before, after))
    return causes is not None and (not causes or any(isinstance(record, causes) for record in turn))
