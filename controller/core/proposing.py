"""This room computes leaders in bulk, for a worker: its proposals are adopted where they still fit.

The tasks are those of 002 A, B and D; a task reads rows, calls `propose` and writes the result into its
work item, nothing else (design chapter 4.1).
"""

from collections.abc import Callable, Container, Iterable
from enum import StrEnum
from uuid import UUID

import msgspec

from controller.core.election import Choice, Policy, after_loss, first_leader, never_led
from muster.messages.link.rows import AlikePartitions


class Task(StrEnum):
    """Kinds of work items that propose leaders; what the key names is said with each."""

    BROKER_CHANGE = "on_broker_change"
    """Key: the id of a broker whose session is over."""
    TOPIC_CHANGE = "on_topic_change"
    """Key: the id of a new topic."""
    CONTROLLER_FAILOVER = "on_controller_failover"
    """No key: all partitions that never had a leader."""


class StoredPartitions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Alike partitions as a worker reads them, and the version of each."""

    alike: AlikePartitions
    versions: tuple[int, ...]


class LeaderProposal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A leader and an ISR for partitions of one topic, each for the row of its base version and no other."""

    topic_id: UUID
    leader: int
    isr: tuple[int, ...]
    partitions: tuple[int, ...]
    base_versions: tuple[int, ...]


def propose(
    task: Task,
    key: str,
    stored: Iterable[StoredPartitions],
    live: Container[int],
    policy_of: Callable[[UUID], Policy],
) -> tuple[LeaderProposal, ...]:
    """Proposals for all that is `stored` and concerns `task`; what does not change is left out.

    An election with a possible loss is never proposed: it is decided in the turn that journals it.
    """
    proposals = []
    for one in stored:
        alike, versions = one.alike, one.versions
        # What is chosen for one of them is chosen for all.
        row = alike.row(alike.partitions[0], versions[0])
        choice: Choice | None
        if task is Task.BROKER_CHANGE:
            choice = after_loss(row, int(key), live, policy_of(alike.topic_id))
        else:
            choice = first_leader(row, live) if never_led(row) else None
        if choice is not None and not choice.possible_loss:
            proposals.append(
                LeaderProposal(alike.topic_id, choice.leader, choice.isr, alike.partitions, versions)
            )
    return tuple(proposals)
