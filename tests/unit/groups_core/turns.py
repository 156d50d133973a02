"""This room makes short turns of a group for tests of what its journal tells."""

from groups.core import records
from groups.core.phases import Phase
from groups.core.records import GroupRecord
from muster.messages.partitions import by_topic
from tests.unit.coordinator_core.group import orders

Turn = tuple[float, str, tuple[GroupRecord, ...]]


def turn(second: float, *became: GroupRecord, cause: str = "turn") -> Turn:
    """One turn, at this second."""
    return second * 1000, cause, became


def phase(name: str) -> records.PhaseEntered:
    return records.PhaseEntered(Phase(name))


def joined(name: str) -> records.MemberAdded:
    return records.MemberAdded(member_id=name, token_hash="0" * 64, topic_count=(), session_timeout_ms=10_000)


def released(name: str, *numbers: int) -> records.PartitionsReleased:
    return records.PartitionsReleased(name, by_topic(map(orders, numbers)))


def assigned(name: str, *numbers: int) -> records.PartitionsAssigned:
    return records.PartitionsAssigned(name, 1, by_topic(map(orders, numbers)))
