"""This room computes leaders in bulk, for a worker: its proposals are adopted where they still fit.

The tasks are those of 002 A, B and D; a task reads rows, calls `propose` and writes the result into its
work item, nothing else (design chapter 4.1).
"""

from collections.abc import Callable, Container, Iterable
from enum import StrEnum
from typing import Final
from uuid import UUID

import msgspec

from controller.core.election import Choice, Policy, after_loss, first_leader, never_led
from muster.messages.link.rows import PartitionRow

PROPOSED_AT_MOST: Final = 1_000
"""Ways to stand of which a worker says what becomes of them: the owner's loop reads all of them at once."""


class Task(StrEnum):
    """Kinds of work items that propose leaders; what the key names is said with each."""

    BROKER_CHANGE = "on_broker_change"
    """Key: the id of a broker whose session is over."""
    TOPIC_CHANGE = "on_topic_change"
    """Key: the id of a new topic."""
    CONTROLLER_FAILOVER = "on_controller_failover"
    """No key: all partitions that never had a leader; also behind a request for many topics."""


class Seats(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How partitions of one topic stand, as far as an election looks at them; which they are it does not ask.

    A hundred thousand partitions share a few: what is chosen for one of them is chosen for all.
    """

    topic_id: UUID
    assigned: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()

    @classmethod
    def of(cls, row: PartitionRow) -> "Seats":
        """Those of one partition."""
        return cls(row.topic_id, row.assigned, row.leader, row.isr, row.adding)

    def row(self) -> PartitionRow:
        """Some partition that stands so."""
        return PartitionRow(self.topic_id, 0, self.assigned, self.leader, 0, self.isr, 0, self.adding)


class LeaderProposal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A leader and an ISR for every partition that stands so, and for no other."""

    seats: Seats
    leader: int
    isr: tuple[int, ...]


def propose(
    task: Task,
    key: str,
    found: Iterable[Seats],
    live: Container[int],
    policy_of: Callable[[UUID], Policy],
) -> tuple[LeaderProposal, ...]:
    """Proposals for all that was `found` and concerns `task`; what does not change is left out.

    An election with a possible loss is never proposed: it is decided in the turn that journals it. Nor is
    anything where there is more than PROPOSED_AT_MOST: the turns decide it as quickly as they would read it.
    """
    proposals: list[LeaderProposal] = []
    for seats in found:
        row = seats.row()
        choice: Choice | None
        if task is Task.BROKER_CHANGE:
            choice = after_loss(row, int(key), live, policy_of(seats.topic_id))
        else:
            choice = first_leader(row, live) if never_led(row) else None
        if choice is not None and not choice.possible_loss:
            proposals.append(LeaderProposal(seats, choice.leader, choice.isr))
            if len(proposals) > PROPOSED_AT_MOST:
                return ()
    return tuple(proposals)
