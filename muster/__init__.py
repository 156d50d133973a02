"""Muster: a control plane for partitioned logs; here is its client, `from muster import Consumer`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client.consumer import Consumer
    from muster.client.errors import CommitFailed, ConsumerError, ConsumerRefused, NoOffset
    from muster.client.record import Record

__all__ = ["CommitFailed", "Consumer", "ConsumerError", "ConsumerRefused", "NoOffset", "Record"]

_ROOMS = {
    "Consumer": "muster.client.consumer",
    "Record": "muster.client.record",
    "CommitFailed": "muster.client.errors",
    "ConsumerError": "muster.client.errors",
    "ConsumerRefused": "muster.client.errors",
    "NoOffset": "muster.client.errors",
}


def __getattr__(name: str) -> Any:
    # Lazily (PEP 562), so that whoever imports only `muster.kernel` loads no event loop.
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ROOMS[name]), name)
