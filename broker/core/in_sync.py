"""This room judges followers: who lags, who may be admitted.

Source: replication.md section 4.
"""

from broker.core.replica_log import ReplicaLog
from muster.kernel.instants import Instant, elapsed_ms


class Progress:
    """What the leader knows of one follower, by its own fetches in this leader epoch and nothing else."""

    __slots__ = (
        "asks_admission",
        "broker_epoch",
        "caught_up_at",
        "end_offset",
        "fetched_at",
        "seen_log_end",
        "start_offset",
    )

    def __init__(self, led_since: Instant) -> None:
        self.broker_epoch = -1
        self.end_offset = -1
        """−1: the follower has not fetched yet."""
        self.start_offset = -1
        """Where its log begins, as it last said; −1: it has not."""
        self.caught_up_at = led_since
        self.fetched_at = led_since
        self.seen_log_end = 0
        self.asks_admission = False

    def fetched(self, broker_epoch: int, end_offset: int, log_end_offset: int, now: Instant) -> None:
        """The follower holds everything below `end_offset`.

        It was caught up now if that is the log end, and at its fetch before if that is what the log
        end was then: a follower that keeps pace with a steady producer never lags.
        """
        if end_offset >= log_end_offset:
            self.caught_up_at = now
        elif end_offset >= self.seen_log_end and self.end_offset >= 0:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.broker_epoch = broker_epoch
        self.end_offset = end_offset
        self.fetched_at = now
        self.seen_log_end = log_end_offset
        self.asks_admission = True

    def stood(self, fetched_at: Instant, log_end_offset: int) -> None:
        """The log grew to `log_end_offset`; until `fetched_at` the follower asked again from where it stood.

        If that was the log end until now, it was caught up then. Only the first growth says so.
        """
        if self.end_offset >= self.seen_log_end and self.end_offset >= 0:
            self.caught_up_at = max(self.caught_up_at, fetched_at)
            self.seen_log_end = log_end_offset


def lags(progress: Progress, log: ReplicaLog, now: Instant, lag_time_max_ms: int) -> bool:
    """True for a follower behind the log end, last caught up longer ago than the limit (conformance 219)."""
    return progress.end_offset < log.end_offset and elapsed_ms(progress.caught_up_at, now) > lag_time_max_ms


def is_admissible(
    progress: Progress, high_watermark: int, epoch_start_offset: int, log_start_offset: int
) -> bool:
    """True if the follower holds all that is committed and all that was there when the epoch began.

    The second half is for records that an earlier leader committed and this one does not know to be
    (`admit_no_start`). Below the start of the leader's log nobody compares anything: who has not heard of
    that start may hold records there that were never committed, and would serve them as leader.
    """
    holds_all = progress.end_offset >= high_watermark and progress.end_offset >= epoch_start_offset
    return holds_all and (progress.start_offset < 0 or progress.start_offset >= log_start_offset)
