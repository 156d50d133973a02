"""This room makes the ASGI application of a node's `/ws/consumer/`."""

from collections.abc import Awaitable, Callable, Mapping

from coordinator.door import ConsumerDoor
from coordinator.service import ShardService
from coordinator.sockets import ConsumerSocket
from runtime.ports import NodeContext


def application(node: NodeContext, services: Mapping[str, ShardService]) -> Callable[..., Awaitable[None]]:
    """The application; `services` is what `coordinator.service.build` made."""
    served: Callable[..., Awaitable[None]] = ConsumerSocket.as_asgi(door=ConsumerDoor(node, services))
    return served
