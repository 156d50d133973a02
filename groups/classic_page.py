"""This room gathers what only the page of a classic group shows: its strategy, its leader, its timers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from groups.core.consumer_protocol import CONSUMER
from groups.models import ClassicMember, ConsumerGroup, Phase

_OPEN_PHASES = (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)


@dataclass(frozen=True, slots=True)
class ClassicFacts:
    """What its members agreed on, as its rows say. Who has joined an open rebalance, its owner alone knows.

    `ends_by` is when the owner goes on without whoever has not come, at the latest; None while none is open.
    """

    kind: str
    strategy: str | None
    leader: str | None
    offered: Sequence[str]
    members: int
    statics: int
    rebalance_least_ms: int
    rebalance_most_ms: int
    ends_by: datetime | None

    @property
    def simple(self) -> bool:
        """Nobody ever joined: somebody commits offsets under this name, and assigns partitions by itself."""
        return not self.kind and not self.members

    @property
    def of_consumers(self) -> bool:
        """Whether partitions are what its members share; Connect's workers share connectors and tasks."""
        return self.kind in ("", CONSUMER)


def facts_of(group: ConsumerGroup, members: Sequence[ClassicMember]) -> ClassicFacts:
    """What the rows of a classic group and of its members say."""
    timeouts = [member.rebalance_timeout_ms for member in members] or [0]
    names = [set(member.protocol_names) for member in members]
    # In the order of the first member, which all members share who mean the same.
    offered = members[0].protocol_names if members else []
    longest = timedelta(milliseconds=max(timeouts))
    return ClassicFacts(
        kind=group.protocol_type,
        strategy=group.protocol_name,
        leader=group.leader,
        offered=[name for name in offered if all(name in one for one in names)],
        members=len(members),
        statics=sum(1 for member in members if member.group_instance_id is not None),
        rebalance_least_ms=min(timeouts),
        rebalance_most_ms=max(timeouts),
        ends_by=group.phase_entered_at + longest if members and group.phase in _OPEN_PHASES else None,
    )
