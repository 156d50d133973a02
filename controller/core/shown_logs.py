"""This room keeps which logs brokers have shown the present controller, where rows are unproven."""

from collections.abc import Iterable, Mapping

from muster.kernel.instants import Instant
from muster.messages.link.log_ends import LogEnd
from muster.messages.link.rows import PartitionKey


class ShownLogs:
    """By broker, what its present process has shown; a new owner of the lease asks again.

    `unjudged` are partitions of which somebody has shown more since they were looked at. `look_at`: when all
    are looked at, as the patience with those that have not shown theirs is over for some.
    """

    __slots__ = ("_by_broker", "look_at", "unjudged")

    def __init__(self) -> None:
        self._by_broker: dict[int, dict[PartitionKey, LogEnd]] = {}
        self.unjudged: dict[PartitionKey, None] = {}
        self.look_at: Instant | None = None

    def copy(self) -> "ShownLogs":
        """Another one of the same logs; each copies those of a broker before it changes them."""
        other = ShownLogs()
        other._by_broker = dict(self._by_broker)
        other.unjudged = dict(self.unjudged)
        other.look_at = self.look_at
        return other

    def add(self, broker_id: int, ends: Iterable[LogEnd]) -> None:
        """What a broker says now counts, whatever it said before of the same logs."""
        named = {(one.topic_id, one.partition): one for one in ends}
        self._by_broker[broker_id] = {**self._by_broker.get(broker_id, {}), **named}
        self.unjudged.update(dict.fromkeys(named))

    def forget(self, broker_id: int) -> None:
        """Its process has ended, or is not heard: what another one has may be less."""
        self._by_broker.pop(broker_id, None)

    def forget_logs(self, broker_id: int, failed: Iterable[PartitionKey]) -> None:
        """They cannot be used any more."""
        shown = self._by_broker.get(broker_id)
        if shown and (gone := shown.keys() & set(failed)):
            self._by_broker[broker_id] = {key: end for key, end in shown.items() if key not in gone}

    def of(self, key: PartitionKey, leader_epoch: int) -> Mapping[int, LogEnd]:
        """By broker, in answer to the row of this leader epoch."""
        return {
            broker_id: end
            for broker_id, shown in self._by_broker.items()
            if (end := shown.get(key)) is not None and end.leader_epoch == leader_epoch
        }

    def look_by(self, at: Instant) -> None:
        """Look at all no later than at `at`."""
        self.look_at = at if self.look_at is None else Instant(min(self.look_at, at))

    def drop_all(self) -> None:
        """Nothing is unproven."""
        self._by_broker, self.unjudged, self.look_at = {}, {}, None
