"""Muster: a control plane for partitioned logs; here is its client, `from muster import Consumer`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client.blocking import BlockingConsumer
    from muster.client.consumer import Consumer
    from muster.client.errors import (
        CommitFailed,
        CommitUnanswered,
        ConsumerError,
        ConsumerRefused,
        ListenerFailed,
        NoOffset,
        NotReady,
        OffsetsUnknown,
        PartitionNotAssigned,
        PartitionsLost,
        UnreadableBatch,
    )
    from muster.client.listening import RebalanceListener
    from muster.client.metrics import Metrics
    from muster.client.record import Record, TopicPartition
    from muster.client.standing import State

__all__ = [
    "BlockingConsumer",
    "CommitFailed",
    "CommitUnanswered",
    "Consumer",
    "ConsumerError",
    "ConsumerRefused",
    "ListenerFailed",
    "Metrics",
    "NoOffset",
    "NotReady",
    "OffsetsUnknown",
    "PartitionNotAssigned",
    "PartitionsLost",
    "RebalanceListener",
    "Record",
    "State",
    "TopicPartition",
    "UnreadableBatch",
]

_ROOMS = {
    "BlockingConsumer": "muster.client.blocking",
    "Consumer": "muster.client.consumer",
    "Metrics": "muster.client.metrics",
    "RebalanceListener": "muster.client.listening",
    "Record": "muster.client.record",
    "State": "muster.client.standing",
    "TopicPartition": "muster.client.record",
}
_ERRORS = "muster.client.errors"


def __getattr__(name: str) -> Any:
    # Lazily (PEP 562), so that whoever imports only `muster.kernel` loads no event loop.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ROOMS.get(name, _ERRORS)), name)
