"""This room holds what one turn does to elections that may have lost records while it is decided."""

from collections.abc import Callable

from controller.core.loss_rows import Loss, LossKey, LossTable
from controller.core.records import LossChanged, PossibleLoss
from muster.messages.link.losses import LossAsked
from muster.messages.link.rows import PartitionKey, PartitionRow

FindPartition = Callable[[PartitionKey], PartitionRow | None]


class LossDraft:
    """The elections as they would be, laid over the rows."""

    def __init__(self, stored: LossTable) -> None:
        self._stored = stored
        self._changed: dict[LossKey, Loss] = {}
        """Stored ones that are otherwise than before."""
        self._opened: dict[LossKey, Loss] = {}
        self._noted: list[PossibleLoss] = []

    def get(self, key: LossKey) -> Loss | None:
        """The stored one, as it is in this turn; none of an election of the turn itself."""
        return self._changed.get(key) or self._stored.get(key)

    def open(self, noted: PossibleLoss, topic: str) -> None:
        """An election of this turn may have lost records."""
        self._noted.append(noted)
        lost = Loss(
            noted.topic_id,
            topic,
            noted.partition,
            noted.leader_epoch,
            noted.leader,
            noted.isr,
            noted.reason,
        )
        self._opened[lost.key] = lost

    def change(self, row: Loss) -> None:
        """More is known of it, or somebody has seen it."""
        self._changed[row.key] = row

    def records(self) -> list[PossibleLoss | LossChanged]:
        return [*map(LossChanged, self._changed.values()), *self._noted]

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
