"""This room holds the four phases of a group; a group's phase follows from its rows and an open attempt."""

from enum import StrEnum


class Phase(StrEnum):
    """Kafka's names, for both protocols (design chapter 6.1)."""

    EMPTY = "Empty"
    """No member."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """An attempt is open: those who must give something up were told to stop."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """Some partition is assigned to a member that has not yet answered StartFetcher."""

    STABLE = "Stable"
    """Every owner was heard to have started."""


def phase_of(*, members: int, attempt_open: bool, assigned: int) -> Phase:
    """The phase by native-protocol section 1; `assigned` counts the rows that are not yet running."""
    if members == 0:
        return Phase.EMPTY
    if attempt_open:
        return Phase.PREPARING_REBALANCE
    if assigned:
        return Phase.COMPLETING_REBALANCE
    return Phase.STABLE
