"""This room sends the Kafka clients of a frozen node on, once another node serves what this one held.

A client whose heartbeat is not answered waits for as long as its session, takes itself for expelled and joins
anew, and its old id holds the group up for one session more. One that is hung up on asks who coordinates.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from muster.client.reaching import reach
from muster.client.securing import trusting
from muster.kernel.addresses import host_and_port, place_of_websocket

AFTER_MS: Final = 8_000
"""For so long this node is frozen before. Brokers, who tell clients where to go, give it up after six seconds
of silence, and hear of the new owners from another then.
"""

ASK_AGAIN_S: Final = 1.0
ANSWERS_WITHIN_S: Final = 1.0

Serves = Callable[[str], Awaitable[bool]]

log = structlog.get_logger(__name__)


class SendingOn:
    """`others` are the websocket addresses of the other nodes, `hang_up` does so on all Kafka clients.

    Where no other node serves either, as all have lost the database, clients stay: they would find nobody.
    """

    def __init__(
        self, others: Callable[[], Sequence[str]], hang_up: Callable[[], None], serves: Serves
    ) -> None:
        self._others, self._hang_up, self._serves = others, hang_up, serves
        self._asking: asyncio.Task[None] | None = None

    def tick(self, frozen_ms: int) -> None:
        """For so long this node has been frozen; clients are sent on once in each freeze."""
        if not frozen_ms:
            self.stop()
        elif frozen_ms >= AFTER_MS and self._asking is None:
            self._asking = asyncio.create_task(self._send_on(), name="sending Kafka clients on")

    def stop(self) -> None:
        """Ask nobody any more."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _send_on(self) -> None:
        while not any(await asyncio.gather(*map(self._serves, self._others()))):
            await asyncio.sleep(ASK_AGAIN_S)
        log.warning("Kafka clients are sent on: this node is frozen, and another serves")
        self._hang_up()


async def is_ready(address: str, ca_file: str | None) -> bool:
    """Whether the node of this websocket address says that it is: every lane that there is has an owner."""
    host = place_of_websocket(address)
    place = host_and_port(host)
    if place is None:
        return False
    try:
        trust = trusting(ca_file) if address.startswith("wss:") else None
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            taken, name = await reach(*place), place[0] if trust else None
            reader, writer = await asyncio.open_connection(sock=taken, ssl=trust, server_hostname=name)
            try:
                writer.write(f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                return b" 200 " in await reader.readline()
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, ValueError):
        return False
