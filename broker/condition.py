"""This room says with pings how this broker is, for people: disk, logs in trouble, who lags or waits here.

What only a look at every replica shows is looked for now and then.
"""

from collections.abc import Callable, Iterator
from typing import Final

from broker.core.lag_notes import LagNotes, lagging
from broker.core.log_notes import LogNotes, LogState
from broker.core.replica import Role
from broker.core.replica_log import PartitionKey
from broker.hosted import HostedPartition
from broker.replicas import DataPlane
from kafkaserver.quotas import ClientQuotas
from kafkaserver.version import own_version
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.link.condition import (
    DAMAGED,
    LEADERLESS,
    MENDED,
    MOST_THROTTLED,
    OFFLINE,
    Condition,
    Disk,
)

LOOK_INTERVAL_MS: Final = 2_000
DISK_INTERVAL_MS: Final = 10_000
"""How often the room on the disk is said though only the number changed."""

LEADERS_AT_ONCE: Final = 2_000
"""Of so many partitions that are led here a look judges the followers, of the others the next ones: some
milliseconds. Who leads nothing is passed over."""

WHY_LENGTH: Final = 200


class BrokerCondition:
    """What was said on this link; `news` is asked with each ping."""

    def __init__(self, plane: DataPlane, quotas: ClientQuotas, clock: Callable[[], Instant]) -> None:
        self._plane, self._quotas, self._clock = plane, quotas, clock
        self._notes, self._lag_notes = LogNotes(), LagNotes()
        self._lagging: dict[PartitionKey, tuple[int, ...]] = {}
        self._round: Iterator[HostedPartition] = plane.partitions()
        self._mended: dict[PartitionKey, str] = {}
        self._said: Condition | None = None
        self._looked_at = self._disk_said_at = Instant(0)

    def begin(self) -> None:
        """A new link: whoever listens knows nothing."""
        self._notes.begin()
        self._lag_notes.begin()
        self._said = None

    def news(self) -> Condition | None:
        """What changed; None: nothing, or it is not time to look again."""
        now, said = self._clock(), self._said
        disk = self._plane.upkeep.disk
        if said is not None and not self._turned(said.disk, disk):
            if elapsed_ms(self._looked_at, now) < LOOK_INTERVAL_MS:
                return None
            if elapsed_ms(self._disk_said_at, now) < DISK_INTERVAL_MS:
                disk = said.disk
        self._looked_at = now
        waiting = self._quotas.waiting(now)
        fresh = Condition(
            disk=disk,
            throttled=tuple(waiting[:MOST_THROTTLED]),
            throttled_more=max(0, len(waiting) - MOST_THROTTLED),
            logs=self._notes.news(self._logs(), now),
            begins=said is None,
            version=own_version(),
            lags=self._lag_notes.news(self._lags(now), now),
        )
        is_news = said is None or bool(fresh.logs or fresh.lags) or _figures(fresh) != _figures(said)
        if said is None or disk is not said.disk:
            self._disk_said_at = now
        self._said = fresh
        return fresh if is_news else None

    @staticmethod
    def _turned(before: Disk | None, now: Disk | None) -> bool:
        """It takes records again, or no more, or nobody knows any more, or for the first time."""
        if before is None or now is None:
            return before is not now
        return before.is_full != now.is_full

    def _lags(self, now: Instant) -> dict[PartitionKey, tuple[int, ...]]:
        """Who keeps a leader here from accepting acks=all."""
        plane, limit = self._plane, self._plane.settings.replica_lag_time_max_ms
        looked = 0
        for hosted in self._round:
            if members := lagging(hosted.replica, plane.live, now, limit):
                self._lagging[hosted.key] = members
            else:
                self._lagging.pop(hosted.key, None)
            looked += hosted.replica.leads
            if looked == LEADERS_AT_ONCE:
                break
        else:
            self._round = plane.partitions()
            self._lagging = {key: who for key, who in self._lagging.items() if plane.hosted(*key) is not None}
        return self._lagging

    def _logs(self) -> dict[PartitionKey, LogState]:
        """Every replica here of which something is to be said."""
        damaged = self._plane.found_damaged
        states: dict[PartitionKey, LogState] = {}
        for hosted in self._plane.partitions():
            key, replica = hosted.key, hosted.replica
            if replica.role is Role.FAILED:
                states[key] = LogState(OFFLINE, hosted.log.failure[:WHY_LENGTH])
            elif replica.role is Role.OFFLINE:
                if replica.isr:
                    states[key] = LogState(LEADERLESS, damaged.get(key, ""), hosted.log.end_offset)
            elif hosted.damage:
                states[key] = LogState(DAMAGED, hosted.damage[:WHY_LENGTH])
            elif key in self._mended:
                states[key] = LogState(MENDED, self._mended[key])
            elif key in damaged:
                why = damaged[key][:WHY_LENGTH]
                # A follower in sync has copied all that is committed.
                if replica.role is Role.FOLLOWER and self._plane.broker_id in replica.isr:
                    self._mended[key] = why
                    states[key] = LogState(MENDED, why)
                else:
                    states[key] = LogState(DAMAGED, why)
        return states


def _figures(one: Condition) -> tuple[object, ...]:
    return one.disk, one.throttled, one.throttled_more
