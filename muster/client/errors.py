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


class NotReady(ConsumerError):
    """The group did not let this consumer in within `ready_timeout_ms`; the text says why."""


class CommitFailed(ConsumerError):
    """Some offsets were not committed: `refused` says which and why; empty: the session is over."""

    def __init__(self, text: str, refused: Mapping[Partition, ErrorCode] | None = None) -> None:
        super().__init__(text)
        self.refused = dict(refused or {})


class CommitUnanswered(CommitFailed):
    """No answer came in time; the commit may have happened or not.

    Nothing is lost by that: the consumer goes on, and the next `commit` settles it.
    """


class PartitionsLost(CommitFailed):
    """Partitions went to another member, or may have, before what was handed out of them was committed.

    `refused` names them. Their records come again, to whoever owns them now, this consumer included.
    """


class UnreadableBatch(ConsumerError):
    """A batch of a log cannot be opened: its bytes are corrupt, or would become too many.

    It is met again at each attempt. `Consumer.skip(topic, partition, next_offset)` goes on behind it;
    `offset` is the first that is missing then.
    """

    def __init__(self, topic: str, partition: int, offset: int, next_offset: int, why: str) -> None:
        super().__init__(
            f"{topic}-{partition}: the records from offset {offset} to {next_offset - 1} cannot be read:"
            f" {why}; skip({topic!r}, {partition}, {next_offset}) goes on behind them"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset


class PartitionNotAssigned(ConsumerError, ValueError):
    """The partition is not fetched by this consumer now: it never was, or others have it by now."""


class OffsetsUnknown(ConsumerError):
    """No broker told where a log begins or ends; it may do so a moment later."""


class ListenerFailed(ConsumerError):
    """The application's RebalanceListener raised; that ends the consumer. `__cause__` is what it raised."""


class NoOffset(ConsumerError):
    """Nothing is committed for a partition, or it is out of range, or its log is another one than was read by
    now, and auto_offset_reset is "none".
    """
