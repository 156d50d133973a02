"""This room names what the SDK raises to applications."""

from collections.abc import Mapping

from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition


class ConsumerError(Exception):
    """Anything that ends or refuses what an application asked of its Consumer."""


class ConsumerRefused(ConsumerError):
    """The coordinator or a node refuses this consumer for good, as `error_code` says."""

    def __init__(self, error_code: ErrorCode, text: str) -> None:
        super().__init__(f"{error_code.name}: {text}" if text else error_code.name)
        self.error_code = error_code


class CommitFailed(ConsumerError):
    """Some offsets were not committed: `refused` says which and why; empty: no answer came in time.

    A partition that was given to another member is refused with NOT_PARTITION_OWNER or
    ILLEGAL_GENERATION; its records will be consumed again by that member. So is one that this member lost
    while it was away, even if it fetches it again by now.
    """

    def __init__(self, text: str, refused: Mapping[Partition, ErrorCode] | None = None) -> None:
        super().__init__(text)
        self.refused = dict(refused or {})


class NoOffset(ConsumerError):
    """Nothing is committed for a partition, or it is out of range, and auto_offset_reset is "none"."""
