"""This room keeps what brokers say with their pings: what they applied, high watermarks, how they are."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.link.callers import CallerRow
from muster.messages.link.condition import Condition, LagNote, LogNote
from muster.messages.link.from_broker import Arriving, HighWatermark
from muster.messages.link.to_broker import Nodes


class LinkPace:
    """What one link was told and has not yet said it applied, oldest first."""

    __slots__ = ("_acknowledged", "_waiting", "callers", "looks", "nodes", "pings")

    def __init__(self) -> None:
        self.callers: tuple[CallerRow, ...] | None = None
        self.nodes: Nodes | None = None
        """As this link was told last."""
        self.looks = 0
        """How many callers are looked for now because this link asked."""
        self.pings = 0
        """How many were heard."""
        self._waiting: deque[tuple[int, Instant]] = deque()
        self._acknowledged = 0

    def said(self, metadata_version: int, now: Instant) -> None:
        """A frame of this version went into the outbox."""
        if not self._waiting or self._waiting[-1][0] < metadata_version:
            self._waiting.append((metadata_version, now))

    def applied(self, metadata_version: int) -> None:
        """A ping: the broker states the one version it has applied."""
        self.pings += 1
        self._acknowledged = max(self._acknowledged, metadata_version)
        while self._waiting and self._waiting[0][0] <= metadata_version:
            self._waiting.popleft()

    def is_late(self, now: Instant, ack_timeout_ms: int) -> bool:
        """True if something was said longer than `ack_timeout_ms` ago and is not applied."""
        return bool(self._waiting) and elapsed_ms(self._waiting[0][1], now) >= ack_timeout_ms

    def figures(self, now: Instant) -> dict[str, int]:
        """For the alert: how far behind, in versions and in milliseconds."""
        if not self._waiting:
            return {"applied": self._acknowledged, "said": self._acknowledged, "behind_ms": 0}
        return {
            "applied": self._acknowledged,
            "said": self._waiting[-1][0],
            "behind_ms": elapsed_ms(self._waiting[0][1], now),
        }


class ProgressNotes:
    """High watermarks that leaders told since the last write, the latest of each partition."""

    __slots__ = ("_in_flight", "_noted_at", "_told")

    def __init__(self) -> None:
        self._told: dict[tuple[UUID, int], HighWatermark] = {}
        self._noted_at = Instant(0)
        self._in_flight = False

    def add(self, told: Iterable[HighWatermark]) -> None:
        for said in told:
            self._told[said.topic_id, said.partition] = said

    def is_due(self, now: Instant, interval_ms: int) -> bool:
        """True if there is something to write, nothing is being written, and the interval is over."""
        return bool(self._told) and not self._in_flight and elapsed_ms(self._noted_at, now) >= interval_ms

    @property
    def is_being_written(self) -> bool:
        return self._in_flight

    def take(self, now: Instant) -> tuple[HighWatermark, ...]:
        """What to write now; until `done` or `give_back` nothing else is due."""
        self._in_flight, self._noted_at = True, now
        told, self._told = self._told, {}
        return tuple(told.values())

    def done(self) -> None:
        self._in_flight = False

    def give_back(self, told: Iterable[HighWatermark]) -> None:
        """It was not written: what was told since is newer and stays."""
        self._in_flight = False
        self._told = {**{(said.topic_id, said.partition): said for said in told}, **self._told}


class Said(NamedTuple):
    """What brokers said of themselves since the last write; of `begun` all that is not named is well."""

    begun: tuple[int, ...]
    conditions: tuple[tuple[int, Condition], ...]
    logs: tuple[tuple[int, LogNote], ...]
    lags: tuple[tuple[int, LagNote], ...] = ()


class ConditionNotes:
    """The latest condition of each broker, of each of its logs, and of who lags, since the last write."""

    __slots__ = ("_begun", "_conditions", "_in_flight", "_lags", "_logs", "_noted_at")

    def __init__(self) -> None:
        self._begun: set[int] = set()
        self._conditions: dict[int, Condition] = {}
        self._logs: dict[tuple[int, UUID, int], LogNote] = {}
        self._lags: dict[tuple[int, UUID, int], LagNote] = {}
        self._noted_at = Instant(0)
        self._in_flight = False

    def add(self, broker_id: int, said: Condition) -> None:
        if said.begins:
            self._begun.add(broker_id)
            self._logs = {key: one for key, one in self._logs.items() if key[0] != broker_id}
            self._lags = {key: one for key, one in self._lags.items() if key[0] != broker_id}
        self._conditions[broker_id] = said
        for one in said.logs:
            self._logs[broker_id, one.topic_id, one.partition] = one
        for lag in said.lags:
            self._lags[broker_id, lag.topic_id, lag.partition] = lag

    def is_due(self, now: Instant, interval_ms: int) -> bool:
        """True if there is something to write, nothing is being written, and the interval is over."""
        due = elapsed_ms(self._noted_at, now) >= interval_ms
        return due and bool(self._conditions) and not self._in_flight

    def take(self, now: Instant) -> Said:
        """What to write now; until `done` nothing else is due."""
        self._in_flight, self._noted_at = True, now
        logs = tuple((broker, one) for (broker, _, _), one in self._logs.items())
        lags = tuple((broker, one) for (broker, _, _), one in self._lags.items())
        said = Said(tuple(sorted(self._begun)), tuple(self._conditions.items()), logs, lags)
        self._begun, self._conditions, self._logs, self._lags = set(), {}, {}, {}
        return said

    def done(self) -> None:
        self._in_flight = False

    def give_back(self, said: Said) -> None:
        """It was not written: what was said since is newer and stays."""
        self._conditions = {**dict(said.conditions), **self._conditions}
        older = {
            (broker, one.topic_id, one.partition): one
            for broker, one in said.logs
            if broker not in self._begun
        }
        self._logs = {**older, **self._logs}
        lagged = {
            (broker, one.topic_id, one.partition): one
            for broker, one in said.lags
            if broker not in self._begun
        }
        self._lags = {**lagged, **self._lags}
        self._begun.update(said.begun)


class ArrivalNotes:
    """What brokers said since the last write of replicas that come to them, the latest of each."""

    __slots__ = ("_in_flight", "_noted_at", "_said")

    def __init__(self) -> None:
        self._said: dict[tuple[int, UUID, int], Arriving] = {}
        self._noted_at = Instant(0)
        self._in_flight = False

    def add(self, broker_id: int, said: Iterable[Arriving]) -> None:
        for one in said:
            self._said[broker_id, one.topic_id, one.partition] = one

    def is_due(self, now: Instant, interval_ms: int) -> bool:
        """True if there is something to write, nothing is being written, and the interval is over."""
        return bool(self._said) and not self._in_flight and elapsed_ms(self._noted_at, now) >= interval_ms

    def take(self, now: Instant) -> tuple[tuple[int, Arriving], ...]:
        """What to write now, each with its broker; until `done` nothing else is due.

        What is not written is said again with the next ping.
        """
        self._in_flight, self._noted_at = True, now
        said, self._said = self._said, {}
        return tuple((broker_id, one) for (broker_id, _, _), one in said.items())

    def done(self) -> None:
        self._in_flight = False
