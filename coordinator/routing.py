"""This room makes the ASGI application of a node's `/ws/consumer/`."""

from collections.abc import Awaitable, Callable

from coordinator.door import ConsumerDoor
from coordinator.sockets import ConsumerSocket


def application(door: ConsumerDoor) -> Callable[..., Awaitable[None]]:
    """The application behind this door."""
    served: Callable[..., Awaitable[None]] = ConsumerSocket.as_asgi(door=door)
    return served
