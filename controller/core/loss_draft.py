"""This room holds what one turn does to elections that may have lost records while it is decided."""

from collections.abc import Callable, Mapping
from typing import Final

from controller.core.loss_rows import Loss, LossKey, LossTable
from controller.core.records import LossChanged, PossibleLoss
from controller.core.state import NOTHING_LOST, LostTail
from muster.messages.link.losses import LossAsked
from muster.messages.link.rows import NO_LEADER, PartitionKey, PartitionRow

FindPartition = Callable[[PartitionKey], PartitionRow | None]

_LAST_MEMBER: Final = "the last member of the ISR may have lost its tail"


class LossDraft:
    """The elections as they would be, laid over the rows."""

    def __init__(self, stored: LossTable, returning: Mapping[int, LostTail]) -> None:
        self._stored = stored
        self.returned = {broker_id: lost for broker_id, lost in returning.items() if lost != NOTHING_LOST}
        """What brokers have lost that came back, as long as what nobody else can lead waits for them."""
        self._changed: dict[LossKey, Loss] = {}
        """Stored ones that are otherwise than before."""
        self._opened: dict[LossKey, Loss] = {}
        self._noted: list[PossibleLoss] = []

    def get(self, key: LossKey) -> Loss | None:
        """The stored one, as it is in this turn; none of an election of the turn itself."""
        return self._changed.get(key) or self._stored.get(key)

    def doubt(self, row: PartitionRow, leader: int) -> str:
        """Why committed records may be missing if `leader`, in sync by `row`, leads it from now on; "": none.

        Whoever elects it, and whatever for (`doubt_is_the_returns`).
        """
        if row.leader != NO_LEADER or leader not in row.isr:
            return ""
        return _LAST_MEMBER if self.returned.get(leader, NOTHING_LOST).covers(row) else ""

    def open(self, noted: PossibleLoss, topic: str) -> None:
        """An election of this turn may have lost records."""
        self._noted.append(noted)
        lost = noted.loss(topic)
        self._opened[lost.key] = lost

    def change(self, row: Loss) -> None:
        """More is known of it, or somebody has seen it."""
        self._changed[row.key] = row

    def changed(self) -> list[LossChanged]:
        """What became of stored ones: true before their partitions go with the same turn."""
        return [LossChanged(row) for row in self._changed.values()]

    def noted(self) -> list[PossibleLoss]:
        """What this turn's elections may have lost, of partitions as they are behind it."""
        return self._noted

    def whole(self, find: FindPartition) -> list[LossAsked]:
        """Those of which somebody may still tell, for a broker that knows none."""
        rows = {**self._stored, **self._changed, **self._opened}.values()
        return [row.asked() for row in rows if not row.is_over and find((row.topic_id, row.partition))]

    def news(self, find: FindPartition) -> tuple[LossAsked, ...]:
        """New ones, and those that one more replica has told of. Of one that is over nobody is asked."""
        found = []
        for row in (*self._changed.values(), *self._opened.values()):
            partition = find((row.topic_id, row.partition))
            if partition is not None:
                found.append(row.asked(partition.assigned))
        return tuple(found)
