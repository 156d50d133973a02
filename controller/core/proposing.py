"""This room computes leaders in bulk, for a worker: its proposals are adopted where they still fit.

The tasks are those of 002 A, B and D; a task reads rows, calls `propose` and writes the result into its
work item, nothing else (design chapter 4.1).
"""

from collections.abc import Callable, Container, Iterable
from enum import StrEnum
from uuid import UUID

import msgspec

from controller.core.election import Choice, Policy, after_loss, first_leader, never_led
from muster.messages.cluster import PartitionRow


class Task(StrEnum):
    """Kinds of work items that propose leaders; what the key names is said with each."""

    BROKER_CHANGE = "on_broker_change"
    """Key: the id of a broker whose session is over."""
    TOPIC_CHANGE = "on_topic_change"
    """Key: the id of a new topic."""
    CONTROLLER_FAILOVER = "on_controller_failover"
    """No key: all partitions that never had a leader."""


class LeaderProposal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A leader and an ISR for the row of `base_version`, and for no other."""

    topic_id: UUID
    partition: int
    base_version: int
    leader: int
    isr: tuple[int, ...]


def propose(
    task: Task,
    key: str,
    rows: Iterable[PartitionRow],
    live: Container[int],
    policy_of: Callable[[UUID], Policy],
) -> tuple[LeaderProposal, ...]:
    """Proposals for all of `rows` that `task` concerns; rows without a change are left out.

    An election with a possible loss is never proposed: it is decided in the turn that journals it.
    """
    proposals = []
    gone = int(key) if task is Task.BROKER_CHANGE else None
    chosen: dict[tuple[object, ...], Choice | None] = {}
    for row in rows:
        policy = policy_of(row.topic_id)
        # Ten thousand partitions share a few sets of replicas: what is alike is chosen once.
        alike = (row.leader, row.isr, row.assigned, never_led(row), policy)
        if alike not in chosen:
            if gone is not None:
                chosen[alike] = after_loss(row, gone, live, policy)
            else:
                chosen[alike] = first_leader(row, live) if never_led(row) else None
        choice = chosen[alike]
        if choice is not None and not choice.possible_loss:
            proposals.append(
                LeaderProposal(row.topic_id, row.partition, row.version, choice.leader, choice.isr)
            )
    return tuple(proposals)
