"""This room holds elections that may have lost records as they are stored, and what is known of them."""

from collections.abc import Iterable
from typing import TypeAlias
from uuid import UUID

import msgspec

from muster.messages.link.losses import NOT_KNOWN, LossAsked, LossReport

LossKey: TypeAlias = tuple[UUID, int, int]
"""Topic, partition, leader epoch: no two elections of a partition have one epoch."""


class Cut(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one replica held when it came to follow, and to where it was cut; see LossReport."""

    broker_id: int
    end_offset: int
    cut_to: int
    high_watermark: int = NOT_KNOWN
    size_bytes: int = NOT_KNOWN


class Loss(msgspec.Struct, frozen=True):
    """One election that may have lost records, and what is known of them so far.

    `isr` are those that held all that was committed. `start_offset` None: the new leader has not said where
    it began; NOT_KNOWN: it said that it does not know.
    """

    topic_id: UUID
    topic: str
    partition: int
    leader_epoch: int
    leader: int
    isr: tuple[int, ...]
    reason: str
    start_offset: int | None = None
    cuts: tuple[Cut, ...] = ()
    acknowledged: bool = False
    acknowledged_by: str = ""
    acknowledged_why: str = ""
    version: int = 0
    """The metadata_version of the turn that last changed it."""

    @property
    def key(self) -> LossKey:
        return self.topic_id, self.partition, self.leader_epoch

    @property
    def told(self) -> tuple[int, ...]:
        """The brokers that have said all they know."""
        cut = tuple(one.broker_id for one in self.cuts)
        return cut if self.start_offset is None else (self.leader, *cut)

    @property
    def is_over(self) -> bool:
        """Somebody has seen it, and nobody is left who could say more of what was committed."""
        return self.acknowledged and {self.leader, *self.isr} <= set(self.told)

    def with_report(self, broker_id: int, said: LossReport) -> "Loss":
        """As it is with what a broker says; itself, where that one has said it before."""
        if broker_id in self.told:
            return self
        if broker_id == self.leader:
            return msgspec.structs.replace(self, start_offset=said.end_offset)
        cut = Cut(broker_id, said.end_offset, said.cut_to, said.high_watermark, said.size_bytes)
        return msgspec.structs.replace(self, cuts=(*self.cuts, cut))

    def asked(self, others: Iterable[int] = ()) -> LossAsked:
        """As brokers are asked of it; of one that is over nobody is, `others` neither."""
        told = (*self.told, *others) if self.is_over else self.told
        return LossAsked(self.topic_id, self.partition, self.leader_epoch, self.leader, told)


class LossTable(dict[LossKey, Loss]):
    """Those that are not over, of partitions that exist."""

    def put(self, row: Loss) -> None:
        if row.is_over:
            self.pop(row.key, None)
        else:
            self[row.key] = row

    def drop(self, topic_id: UUID, first: int = 0) -> None:
        """The partitions of a topic from `first` on are no more."""
        for key in [key for key in self if key[0] == topic_id and key[1] >= first]:
            del self[key]
