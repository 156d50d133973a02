"""This room words a follower's fetches from one peer: whole at first, then only what changed (KIP-227).

No socket, no clock; it leans on the wire's codecs, so it is no core. `broker.replication` carries the
requests and performs what the answers ask.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from broker.core.fetch_sessions import FIRST_EPOCH, NO_SESSION, FetchRefused, next_number
from broker.core.replica import FetchPosition
from broker.core.replica_log import EpochEnd
from muster.kafkawire.fetch_requests import AskedPartition, AskedTopic, FetchRequest, ForgottenTopic
from muster.kafkawire.fetching import FetchAnswer
from muster.kernel.error_codes import ErrorCode
from muster.kernel.tuples import made

MOST_NAMED: Final = 20_000
"""Partitions that one request names or forgets: a door takes 50,000 elements in a frame, and each may be of a
topic of its own. The next request names more, and this one does not wait."""

PartitionKey = tuple[UUID, int]
"""Topic id and partition."""

_SESSION_IS_GONE: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)


class FetchedAnswer(NamedTuple):
    """What the peer said of one partition; `asked` is the position that it answers.

    `records` are a view into the frame that they came in; None: there are none.
    """

    key: PartitionKey
    asked: FetchPosition
    error: int
    high_watermark: int
    log_start_offset: int
    diverging: EpochEnd | None
    records: memoryview | None


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long the peer may wait for records, and how many bytes it may answer."""

    wait_max_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class _Followed:
    """One partition of a session: from where to fetch it next, None once it is left, and what was asked."""

    __slots__ = ("asked", "key", "wanted")

    def __init__(self, key: PartitionKey) -> None:
        self.key = key
        self.wanted: FetchPosition | None = None
        self.asked: FetchPosition | None = None


class FetchSession:
    """All that one broker follows of one peer, over one connection; one fetch is in flight at a time.

    `move` says what to fetch next. The peer remembers the session, so a request names only partitions that
    moved; a peer that keeps no session (id 0), or has forgotten it, is sent everything again.
    """

    def __init__(self, broker_id: int, broker_epoch: int, limits: FetchLimits) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._limits = limits
        self._session_id = NO_SESSION
        self._session_epoch = FIRST_EPOCH
        self._followed: dict[PartitionKey, _Followed] = {}
        self._moved: dict[_Followed, None] = {}
        self._wanted = 0

    def __len__(self) -> int:
        """How many partitions are fetched."""
        return self._wanted

    def move(self, key: PartitionKey, position: FetchPosition | None) -> None:
        """Fetch `key` from `position` from the next request on; None: not any more."""
        followed = self._followed.get(key)
        if followed is None:
            if position is None:
                return
            followed = self._followed[key] = _Followed(key)
        self._wanted += (position is not None) - (followed.wanted is not None)
        followed.wanted = position
        self._moved[followed] = None

    def request(self) -> FetchRequest:
        """The next Fetch. What it asks is remembered, so that answers find it."""
        if self._session_id == NO_SESSION:
            for followed in self._followed.values():
                followed.asked = None
                self._moved[followed] = None
        asked: list[tuple[PartitionKey, FetchPosition]] = []
        forgotten: list[PartitionKey] = []
        moved, self._moved = self._moved, {}
        for followed in moved:
            if len(asked) + len(forgotten) >= MOST_NAMED:
                self._moved[followed] = None
                continue
            key, position = followed.key, followed.wanted
            if position is None:
                del self._followed[key]
                if followed.asked is not None:
                    forgotten.append(key)
            elif followed.asked != position:
                followed.asked = position
                asked.append((key, position))
        return self._worded(asked, forgotten, 0 if self._moved else self._limits.wait_max_ms)

    def hear(self, answer: FetchAnswer) -> list[FetchedAnswer]:
        """What the answer says of each partition it names. Raises FetchRefused."""
        error = answer.error_code
        if error in _SESSION_IS_GONE:
            self._session_id, self._session_epoch = NO_SESSION, FIRST_EPOCH
            return []
        if error:
            raise FetchRefused(f"error {error}")
        self._session_id = answer.session_id
        self._session_epoch = next_number(self._session_epoch) if answer.session_id else FIRST_EPOCH
        return list(self._answers(answer))

    def _answers(self, answer: FetchAnswer) -> Iterable[FetchedAnswer]:
        for _, topic_id, partitions in answer.topics:
            for partition, error, high_watermark, start_offset, records, diverging, _ in partitions:
                followed = self._followed.get((topic_id, partition))
                if followed is None or followed.asked is None:
                    continue  # Forgotten while the answer was under way.
                told = None if diverging is None else EpochEnd(*diverging)
                fields = (followed.key, followed.asked, error, high_watermark, start_offset, told, records)
                yield made(FetchedAnswer, fields)

    def _worded(
        self,
        asked: list[tuple[PartitionKey, FetchPosition]],
        forgotten: list[PartitionKey],
        wait_max_ms: int,
    ) -> FetchRequest:
        limits = self._limits
        topics: dict[UUID, list[AskedPartition]] = defaultdict(list)
        for (topic_id, index), position in asked:
            _, leader_epoch, offset, last_epoch, start_offset = position
            fields = (index, leader_epoch, offset, last_epoch, start_offset, limits.partition_max_bytes)
            topics[topic_id].append(made(AskedPartition, fields))
        gone: dict[UUID, list[int]] = defaultdict(list)
        for topic_id, index in forgotten:
            gone[topic_id].append(index)
        return FetchRequest(
            self._broker_id,
            self._broker_epoch,
            wait_max_ms,
            limits.min_bytes,
            limits.max_bytes,
            self._session_id,
            self._session_epoch,
            [AskedTopic("", topic_id, partitions) for topic_id, partitions in topics.items()],
            [ForgottenTopic("", topic_id, indexes) for topic_id, indexes in gone.items()],
        )
