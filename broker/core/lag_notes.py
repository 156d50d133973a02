"""This room names who keeps a leader from accepting acks=all, and says what is otherwise than was told."""

from collections.abc import Container, Mapping

from broker.core.in_sync import lags
from broker.core.replica import Replica
from broker.core.replica_log import PartitionKey
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.condition import LagNote


def lagging(replica: Replica, live: Container[int], now: Instant, lag_time_max_ms: int) -> tuple[int, ...]:
    """Live members of the ISR that do not keep up, where acks=all is refused at this leader; else nobody.

    The floor keeps them in the ISR (replication.md section 7.9): by its row the partition is well.
    """
    if not replica.leads or replica.enough_in_sync(live, now, lag_time_max_ms):
        return ()
    return tuple(
        follower
        for follower in replica.isr
        if follower in live
        and (progress := replica.progress_of(follower)) is not None
        and lags(progress, replica.log, now, lag_time_max_ms)
    )


class LagNotes:
    """What was told on this link; it may be new to who listens: then everything is said again."""

    def __init__(self) -> None:
        self._told: dict[PartitionKey, tuple[int, ...]] = {}
        self._since: dict[PartitionKey, Instant] = {}
        """When somebody was first found to lag."""

    def begin(self) -> None:
        """Nobody was told anything."""
        self._told.clear()

    def news(self, present: Mapping[PartitionKey, tuple[int, ...]], now: Instant) -> tuple[LagNote, ...]:
        """What is to be said of partitions, at most MAX_ROWS_PER_FRAME; the next call says the rest.

        Where nobody lags any more comes first: those were told, so there is an end of them; of those that
        begin to lag, look by look, there need not be, and the others would be told as refused for ever.
        """
        if not (present or self._told or self._since):
            return ()
        self._since = {key: self._since.get(key, now) for key in present}
        changed = [key for key in self._told if key not in present]
        changed += [key for key, members in present.items() if self._told.get(key) != members]
        notes = []
        for key in changed[:MAX_ROWS_PER_FRAME]:
            members = present.get(key, ())
            if members:
                self._told[key] = members
            else:
                del self._told[key]
            notes.append(LagNote(*key, members, elapsed_ms(self._since.get(key, now), now)))
        return tuple(notes)
