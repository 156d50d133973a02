"""This room routes what reaches a node's port: websockets by Channels, probes and metrics as plain ASGI."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path

from access.grants import Operation
from access.tokens import bearer
from kafkaserver.compiled import running
from runtime import metrics
from runtime.ports import NodeContext

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
UNAUTHORIZED = 401
TEXT = b"text/plain; charset=utf-8"


class Probes:
    """/livez, /readyz and /metrics; metrics are for whoever shows a token that may view.

    Who is ready says whether it runs compiled modules, and if not, why.
    """

    def __init__(self, node: NodeContext, why_not_ready: Callable[[], str]) -> None:
        self._node = node
        self._why_not_ready = why_not_ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        headers_in = dict(scope["headers"])
        status, body = self._answer(scope["path"], headers_in)
        if status == UNAUTHORIZED and await self._is_new(headers_in, scope):
            status, body = self._answer(scope["path"], headers_in)
        headers = [(b"content-type", TEXT), (b"content-length", str(len(body)).encode())]
        headers.append((b"x-content-type-options", b"nosniff"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _is_new(self, headers: Mapping[bytes, bytes], scope: Scope) -> bool:
        """Whether a token is shown that is newer than what was known."""
        presented, peer = bearer(headers.get(b"authorization")), scope.get("client") or ("", 0)
        return presented is not None and await self._node.find_token(presented, str(peer[0]))

    def _answer(self, address: str, headers: Mapping[bytes, bytes]) -> tuple[int, bytes]:
        if address == "/livez":
            return 200, b"alive\n"
        if address == "/readyz":
            why_not = self._why_not_ready()
            return (503, f"{why_not}\n".encode()) if why_not else (200, f"ready, {running}\n".encode())
        if address == "/metrics":
            presented = bearer(headers.get(b"authorization"))
            caller = self._node.verify_token(presented) if presented else None
            if caller is None and presented and not self._node.tokens_known:
                return 503, b"tokens are not loaded\n"
            if caller is None:
                return UNAUTHORIZED, b"a token is needed\n"
            if not caller.may(Operation.VIEW):
                return 403, b"this token may not view\n"
            return 200, metrics.page()
        return 404, b"not found\n"


def application(probes: Application, consumers: Application, brokers: Application) -> Application:
    """Everything behind a node's port."""
    routes = URLRouter([path("ws/consumer/", consumers), path("ws/broker/", brokers)])  # type: ignore[arg-type]
    router: Application = ProtocolTypeRouter({"http": probes, "websocket": _known_paths_only(routes)})
    return router


def _known_paths_only(routes: Any) -> Application:
    """Answer 404 on an unknown path instead of an exception in the log that any stranger can cause."""

    async def websocket(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in ("/ws/consumer/", "/ws/broker/"):
            await receive()
            # A close before the handshake would be 403: a consumer took it for a word about its token.
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": b"nothing is here\n"})
            return
        await routes(scope, receive, send)

    return websocket
