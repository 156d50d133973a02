"""This room says at which replica a consumer reads: on its rack, if one is there that is in sync (KIP-392).

The leader sends a consumer away, a follower judges whether it may serve (conformance 228).
"""

from collections.abc import Iterable
from typing import Final

from broker.core.in_sync import lags
from broker.core.replica import Replica, Role
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after

READ_ELSEWHERE_MS: Final = 600_000
"""For so long a follower is told of every commit at once after a consumer was sent to it.

Kafka's consumers ask the leader again after `metadata.max.age.ms`, five minutes unless it is set.
"""


def nearest_follower(
    replica: Replica, nearby: Iterable[int], offset: int, now: Instant, lag_time_max_ms: int
) -> int | None:
    """Of the live brokers `nearby`, the follower that holds most; None: the reader stays at the leader.

    Nobody is sent to a follower that is out of sync, about to be, lags, or does not hold what lies at
    `offset`: its reader would come back at once (`sent_to_laggard`).
    """
    best, most = None, -1
    for follower in nearby:
        progress = replica.progress_of(follower)
        if (
            progress is not None
            and _is_member(replica, follower)
            and progress.start_offset <= offset <= progress.end_offset
            and progress.end_offset > most
            and not lags(progress, replica.log, now, lag_time_max_ms)
        ):
            best, most = follower, progress.end_offset
    return best


def _is_member(replica: Replica, follower: int) -> bool:
    return follower in replica.isr and (replica.pending is None or follower in replica.pending.isr)


def sent_to(replica: Replica, follower: int, now: Instant) -> None:
    """A consumer goes on reading at `follower`: that has to hear soon what is committed."""
    if replica.read_at is None:
        replica.read_at = {}
    replica.read_at[follower] = after(now, READ_ELSEWHERE_MS)


def is_read_at(replica: Replica, follower: int, now: Instant) -> bool:
    """True if somebody whom this leader sent to `follower` may still read there."""
    until = replica.read_at.get(follower) if replica.read_at else None
    return until is not None and now < until


def may_serve(replica: Replica) -> bool:
    """True for a leader, and for a follower as long as it is in sync as far as it knows.

    Who has fallen out of sync may stand still for long: its readers are better off at the leader
    (`laggard_serves`).
    """
    return replica.role is Role.LEADER or (replica.role is Role.FOLLOWER and replica.broker_id in replica.isr)


def refusal_at_follower(replica: Replica, offset: int) -> ErrorCode:
    """Why a consumer on some rack, which states the right leader epoch or none, cannot read here; or NONE.

    Only the leader calls an offset out of range: what this
    replica does not hold may be there, and what it has deleted, too (`follower_out_of_range`).
    """
    if not may_serve(replica):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_here = replica.log.start_offset <= offset <= replica.log.end_offset
    return ErrorCode.NONE if is_here else ErrorCode.OFFSET_NOT_AVAILABLE
