"""This room tells probes how a broker is: /livez, /readyz and /metrics over plain HTTP."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from kafkaserver.compiled import running

REQUEST_LIMIT_BYTES = 8 * 1024
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS = 64

Readiness = Callable[[], str]
"""Why this broker is not ready; "" if it is."""

Samples = Callable[[], Mapping[str, float]]
"""The present value of each metric, by its name with labels in Prometheus's text form."""


class HealthDoor:
    """A very small HTTP server: GET of three paths, one request a connection. Who is ready says whether it
    runs compiled modules, and if not, why.

    It answers from memory and reads at most REQUEST_LIMIT_BYTES of a stranger's request.
    """

    def __init__(self, readiness: Readiness, samples: Samples) -> None:
        self._readiness = readiness
        self._samples = samples
        self._server: asyncio.Server | None = None
        self._open = 0

    async def open(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_LIMIT_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self.answer(request))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # A probe that broke off, or a stranger that speaks something else.
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def answer(self, request: bytes) -> bytes:
        """The whole response to one request head."""
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "only GET\n")
        if path == b"/livez":
            return _response("200 OK", "alive\n")
        if path == b"/readyz":
            reason = self._readiness()
            return (
                _response("503 Service Unavailable", reason + "\n")
                if reason
                else _response("200 OK", f"ready, {running}\n")
            )
        if path == b"/metrics":
            lines = [f"{name} {value:g}\n" for name, value in sorted(self._samples().items())]
            return _response("200 OK", "".join(lines), "text/plain; version=0.0.4; charset=utf-8")
        return _response("404 Not Found", "not here\n")


def _response(status: str, body: str, content_type: str = "text/plain; charset=utf-8") -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + content
