"""This room routes `/ws/broker/` of a node to the broker door."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from controller.links import Send
from controller.service import ControllerService
from controller.sockets import BrokerDoor, Receive, Scope
from runtime.ports import CONTROLLER_LANE, LaneService, NodeContext

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def service_of(services: Mapping[str, LaneService]) -> ControllerService:
    """The one that the node asks about brokers; `services` is what `controller.service.build` gave."""
    service: Any = services[CONTROLLER_LANE]
    assert isinstance(service, ControllerService)
    return service


def application(node: NodeContext, services: Mapping[str, LaneService]) -> Application:
    """The ASGI application of broker links; `services` is what `controller.service.build` gave."""
    service = service_of(services)

    async def broker_links(scope: Scope, receive: Receive, send: Send) -> None:
        await BrokerDoor(service)(scope, receive, send)

    return broker_links
