"""This room joins pages, REST and live updates into the web process and ends it cleanly."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


import uvicorn
from django.conf import settings

from access import sessions
from access.bounded_http import bounded
from access.bounded_websocket import BoundedWebSocket
from access.peers import strangers_per_address
from config.asgi import application as django_application
from kafkaserver import open_files
from kafkaserver.version import own_version
from runtime import seen
from runtime.ports import EVERYTHING
from runtime.wake import Listener
from web.doors import HttpDoor
from web.live import Hub, LiveSocket, Receive, Scope, Send
from web.metrics import BUILD_INFO, LIVE_CHANGES, LIVE_PAGES
from web.watching import Watching

LIVE_PATH = "/ws/live/"


class WebProcess:
    """The ASGI application: HTTP goes to Django, `/ws/live/` to the hub, which lives with the process."""

    def __init__(self) -> None:
        self._watching = Watching()
        self._door = HttpDoor(django_application.handle)  # type: ignore[arg-type]  # its stubs want Mappings
        self.hub = Hub(self._watching.fingerprints)
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live_and_die(receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._door(dict(scope), receive, send)

    def _woken(self, name: str, key: str) -> None:
        if name in (sessions.WAKE_NAME, EVERYTHING):
            self.hub.doubted(key)
        # Whatever was said: the hub compares rows, a word only hastens its look.
        self.hub.woken()

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != LIVE_PATH:
            await receive()
            # A close before the handshake would be 403: a consumer took it for a word about its token.
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": b"nothing is here\n"})
            return
        await LiveSocket(self.hub, self._watching.person_of, scope, receive, send).run()

    async def _live_and_die(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                BUILD_INFO.labels(own_version()).set(1)
                LIVE_PAGES.set_function(lambda: len(self.hub.pages))
                LIVE_CHANGES.set_function(lambda: self.hub.sequence)
                listener = Listener(settings.DATABASE_DIRECT_URL, seen.as_web(), self._woken)
                self._tasks = [
                    asyncio.create_task(self.hub.run()),
                    asyncio.create_task(listener.run()),
                ]
                await send({"type": "lifespan.startup.complete"})
            else:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await self._door.close()
                await self._watching.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


application = WebProcess()


class _Server(uvicorn.Server):
    """uvicorn, ending with exit code 0 when it was asked to end: its own way is to die of the signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def serve(host: str, port: int, ready: Callable[[int], Any]) -> None:
    """Serve until SIGTERM or SIGINT; open requests have 5 s to end. `ready` is told the port."""
    open_files.allow_many_files()
    options = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=bounded(strangers_per_address()),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
        backlog=open_files.backlog(),
        ws=BoundedWebSocket,
        ws_max_size=16_384,
        ws_per_message_deflate=False,
        ws_ping_interval=20.0,
    )
    server = _Server(options)

    async def tell() -> None:
        while not server.started:
            await asyncio.sleep(0.02)
        ready(server.servers[0].sockets[0].getsockname()[1])

    telling = asyncio.create_task(tell())
    try:
        await server.serve()
    finally:
        telling.cancel()
