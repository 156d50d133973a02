"""This room counts what one consumer does, for whoever watches it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from muster.client.record import TopicPartition


@dataclass(slots=True)
class Metrics:
    """Counters that only rise, since the Consumer was made, and what is still to be read.

    `rebalances` are generations of the group that this consumer was told of, the first one included;
    `reconnects` are connections to a coordinator after the first; `commits` and `commits_failed` are calls
    of `commit`, `commit_retries` how often one was said again; `auto_commit` is counted nowhere.
    """

    rebalances: int = 0
    reconnects: int = 0
    commits: int = 0
    commits_failed: int = 0
    commit_retries: int = 0
    connections: int = field(default=0, repr=False)
    count_records: Callable[[], int] = field(default=lambda: 0, repr=False)
    list_lags: Callable[[], Iterable[tuple[TopicPartition, int]]] = field(default=tuple, repr=False)

    def connected(self) -> None:
        """A connection to a coordinator is open."""
        self.connections += 1
        self.reconnects = self.connections - 1

    @property
    def records(self) -> int:
        """How many records were handed out."""
        return self.count_records()

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records behind the next one to be handed out, up to the high watermark of the last fetch.

        A partition that is paused, or of which nothing was fetched yet, shows what is known, or is missing.
        """
        return dict(self.list_lags())
