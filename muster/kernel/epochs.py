"""This room holds the numbers that fence: each kind is a type of its own, and none can be lowered.

A plain integer would let `leader_epoch < controller_epoch` pass, the very comparison that
fencing is made of. These classes compare only with their own kind, and their only arithmetic
is `next()`.
"""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """A number that only grows; compare it with its own kind only."""

    value: int

    def next(self) -> Self:
        return type(self)(self.value + 1)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True, order=True)
class Generation(Epoch):
    """Of a group: rises by one exactly when PreparingRebalance closes."""


@dataclass(frozen=True, slots=True, order=True)
class LeaderEpoch(Epoch):
    """Of a partition: rises at each election and whenever a replica is dropped."""


@dataclass(frozen=True, slots=True, order=True)
class LeaseEpoch(Epoch):
    """Of a lease: rises at each take; the controller's lease epoch is the controller epoch."""


@dataclass(frozen=True, slots=True, order=True)
class BrokerEpoch(Epoch):
    """Of a broker's registration: rises with each new incarnation."""


@dataclass(frozen=True, slots=True, order=True)
class MetadataVersion(Epoch):
    """Of the cluster: rises with each controller turn; a partition's version is one of these."""
