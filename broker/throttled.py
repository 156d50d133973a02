"""This room knows which replicas of this broker are throttled: by their moves, or by Kafka's configs.

`leader.replication.throttled.replicas` names partitions with the broker that leads, the follower's list with
the one that follows; the rates are each broker's own (KIP-73).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from broker.core.throttling import SENT_AT_ONCE_MS, TAKEN_AT_ONCE_MS, Bucket, Throttle
from broker.hosted import HostedPartition
from broker.known_topics import KnownTopics
from muster.kernel import config_levels
from muster.kernel.config_kinds import ALL_REPLICAS, words_of
from muster.kernel.config_levels import Levels
from muster.kernel.instants import Instant
from muster.kernel.topic_configs import (
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
)
from muster.messages.link.rows import PartitionRow

LISTS_KEPT: Final = 1_024


class _Side:
    """Leader or follower."""

    def __init__(self, at_once_ms: int, rate_key: str, list_key: str) -> None:
        self.throttle = Throttle(at_once_ms)
        self.list_key = list_key
        self._rate_key = rate_key
        self._levels: Levels | None = None
        self._rate = 0

    def rate(self, levels: Levels) -> int:
        """What is configured for this broker."""
        if levels is not self._levels:
            self._levels, self._rate = levels, config_levels.number(self._rate_key, {}, levels)
        return self._rate


class ThrottledReplicas:
    """What is to be counted when records are sent to a follower, or taken from a leader."""

    def __init__(self, broker_id: int, topics: KnownTopics, clock: Callable[[], Instant]) -> None:
        self._broker_id, self._topics, self._clock = broker_id, topics, clock
        self._sends = _Side(SENT_AT_ONCE_MS, LEADER_THROTTLED_RATE, LEADER_THROTTLED_REPLICAS)
        self._takes = _Side(TAKEN_AT_ONCE_MS, FOLLOWER_THROTTLED_RATE, FOLLOWER_THROTTLED_REPLICAS)

    def sending(self, hosted: HostedPartition, follower: int) -> tuple[Bucket, ...]:
        """What this broker, which leads, has to find room in before it sends to `follower`."""
        row = hosted.replica.row
        return () if row is None or follower in row.isr else self._holding(self._sends, hosted, row, follower)

    def taking(self, hosted: HostedPartition) -> tuple[Bucket, ...]:
        """What this broker, which follows, has to pay for what it takes."""
        row, me = hosted.replica.row, self._broker_id
        return () if row is None or me in row.isr else self._holding(self._takes, hosted, row, me)

    def _holding(
        self, side: _Side, hosted: HostedPartition, row: PartitionRow, follower: int
    ) -> tuple[Bucket, ...]:
        """Nobody in sync is throttled, so that this is asked of few."""
        configured = side.rate(self._topics.levels) if self._is_listed(side, hosted) else None
        return side.throttle.holding(row, follower, configured, self._clock())

    def _is_listed(self, side: _Side, hosted: HostedPartition) -> bool:
        topic = self._topics.get(hosted.key.topic_id)
        text = topic.configs.get(side.list_key, "") if topic is not None else ""
        if not text:
            return False
        listed = _listed(text)
        return ALL_REPLICAS in listed or f"{hosted.key.partition}:{self._broker_id}" in listed


@lru_cache(maxsize=LISTS_KEPT)
def _listed(text: str) -> frozenset[str]:
    return frozenset(words_of(text))
