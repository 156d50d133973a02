"""This room words a follower's fetches from one peer: whole at first, then only what changed (KIP-227).

No socket, no clock; it leans on the wire's codecs, so it is no core. `broker.replication` carries the
requests and performs what the answers ask.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from broker.core.replica import FetchPosition
from broker.core.replica_log import EpochEnd
from muster.kafkawire.api_table import ApiKey, part, request_class
from muster.kernel.error_codes import ErrorCode

FETCH_VERSION: Final = 16

MOST_NAMED: Final = 20_000
"""Partitions that one request names or forgets: a door takes 50,000 elements in a frame, and each may be of a
topic of its own. The next request names more, and this one does not wait."""

PartitionKey = tuple[UUID, int]
"""Topic id and partition."""

_SESSION_IS_GONE: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)


class FetchRefused(Exception):
    """The peer refused a whole fetch; the connection is given up."""


class FetchedAnswer(NamedTuple):
    """What the peer said of one partition; `asked` is the position that it answers."""

    key: PartitionKey
    asked: FetchPosition
    error: int
    high_watermark: int
    log_start_offset: int
    diverging: EpochEnd | None
    records: bytes


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long the peer may wait for records, and how many bytes it may answer."""

    wait_max_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class FetchSession:
    """All that one broker follows of one peer, over one connection; one fetch is in flight at a time.

    `move` says what to fetch next. The peer remembers the session, so a request names only partitions that
    moved; a peer that keeps no session (id 0), or has forgotten it, is sent everything again.
    """

    def __init__(self, broker_id: int, broker_epoch: int, limits: FetchLimits) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._limits = limits
        self._session_id = 0
        self._session_epoch = 0
        self._wanted: dict[PartitionKey, FetchPosition] = {}
        self._asked: dict[PartitionKey, FetchPosition] = {}
        self._moved: set[PartitionKey] = set()

    def __len__(self) -> int:
        """How many partitions are fetched."""
        return len(self._wanted)

    def move(self, key: PartitionKey, position: FetchPosition | None) -> None:
        """Fetch `key` from `position` from the next request on; None: not any more."""
        if position is None:
            self._wanted.pop(key, None)
        else:
            self._wanted[key] = position
        self._moved.add(key)

    def request(self) -> Any:
        """The next Fetch, as kio's class. What it asks is remembered, so that answers find it."""
        if self._session_id == 0:
            self._asked, self._moved = {}, set(self._wanted)
        forgotten = list(islice((key for key in self._asked if key not in self._wanted), MOST_NAMED))
        for key in forgotten:
            del self._asked[key]
        asked: dict[PartitionKey, FetchPosition] = {}
        while self._moved and len(asked) + len(forgotten) < MOST_NAMED:
            key = self._moved.pop()
            position = self._wanted.get(key)
            if position is not None and self._asked.get(key) != position:
                asked[key] = position
        self._asked.update(asked)
        is_all = not self._moved and len(forgotten) < MOST_NAMED
        return self._worded(asked, forgotten, self._limits.wait_max_ms if is_all else 0)

    def hear(self, body: Any) -> list[FetchedAnswer]:
        """What the answer says of each partition it names. Raises FetchRefused."""
        error = int(body.error_code)
        if error in _SESSION_IS_GONE:
            self._session_id = self._session_epoch = 0
            return []
        if error:
            raise FetchRefused(f"error {error}")
        self._session_id = body.session_id
        self._session_epoch = self._session_epoch % 0x7FFFFFFF + 1 if body.session_id else 0
        return list(self._answers(body))

    def _answers(self, body: Any) -> Iterable[FetchedAnswer]:
        for topic in body.responses:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                asked = self._asked.get(key)
                if asked is None:
                    continue  # Forgotten while the answer was under way.
                diverging = answer.diverging_epoch
                told = EpochEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None
                yield FetchedAnswer(
                    key,
                    asked,
                    int(answer.error_code),
                    answer.high_watermark,
                    answer.log_start_offset,
                    told,
                    bytes(answer.records or b""),
                )

    def _worded(
        self, asked: dict[PartitionKey, FetchPosition], forgotten: list[PartitionKey], wait_max_ms: int
    ) -> Any:
        shape = request_class(ApiKey.FETCH, FETCH_VERSION)
        topic, partition = part(shape, "FetchTopic"), part(shape, "FetchPartition")
        forgotten_topic = part(shape, "ForgottenTopic")
        topics: dict[UUID, list[Any]] = defaultdict(list)
        for (topic_id, index), position in asked.items():
            topics[topic_id].append(
                partition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_epoch,
                    log_start_offset=position.start_offset,
                    partition_max_bytes=self._limits.partition_max_bytes,
                )
            )
        gone: dict[UUID, list[int]] = defaultdict(list)
        for topic_id, index in forgotten:
            gone[topic_id].append(index)
        return shape(
            replica_state=part(shape, "ReplicaState")(
                replica_id=self._broker_id, replica_epoch=self._broker_epoch
            ),
            max_wait=timedelta(milliseconds=wait_max_ms),
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=tuple(topic(topic_id=t, partitions=tuple(parts)) for t, parts in topics.items()),
            forgotten_topics_data=tuple(
                forgotten_topic(topic_id=t, partitions=tuple(indexes)) for t, indexes in gone.items()
            ),
        )
