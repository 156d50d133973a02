"""Muster: a control plane for partitioned logs; here is its client, `from muster import Consumer`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client.consumer import Consumer
    from muster.client.errors import (
        CommitFailed,
        CommitUnanswered,
        ConsumerError,
        ConsumerRefused,
        NoOffset,
        NotReady,
        PartitionsLost,
        UnreadableBatch,
    )
    from muster.client.record import Record
    from muster.client.standing import State

__all__ = [
    "CommitFailed",
    "CommitUnanswered",
    "Consumer",
    "ConsumerError",
    "ConsumerRefused",
    "NoOffset",
    "NotReady",
    "PartitionsLost",
    "Record",
    "State",
    "UnreadableBatch",
]

_ROOMS = {
    "Consumer": "muster.client.consumer",
    "Record": "muster.client.record",
    "State": "muster.client.standing",
}
_ERRORS = "muster.client.errors"


def __getattr__(name: str) -> Any:
    # Lazily (PEP 562), so that whoever imports only `muster.kernel` loads no event loop.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ROOMS.get(name, _ERRORS)), name)
