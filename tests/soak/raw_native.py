"""This room is a native member in a hundred lines: a websocket, JSON, and no fetching of its own."""

import asyncio
import json
import secrets
import time
from random import Random
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.soak.reading import WholeLog
from tests.soak.seen import Seen

SESSION_MS = 10_000
ASK_AGAIN = {14, 15, 16, 25, 1001, 1004, -1}
ALL_READ_EVERY_S = 0.25


class RawNative:
    """Registers, obeys, answers pings with its positions, comes back; reads out of the whole log."""

    def __init__(
        self, name: str, group: str, topic: str, nodes: list[str], token: str, log: WholeLog, seen: Seen
    ) -> None:
        self.name, self.group = name, group
        self.failure = ""
        self.joins = 0
        self._topic = topic
        self._nodes = nodes
        self._headers = {"Authorization": f"Bearer {token}"}
        self._log = log
        self._seen = seen
        self._secret = secrets.token_hex(32)
        self._generation = 0
        self._topic_id = ""
        self._positions: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._begun: dict[int, int] = {}
        self._deadline = 0.0
        self._answered = (0, 0.0)

    @property
    def assigned(self) -> int:
        """How many partitions it reads."""
        return len(self._positions)

    async def run(self) -> None:
        """Be a member until cancelled."""
        dice = Random(self.name)
        while True:
            for node in list(self._nodes):
                try:
                    async with asyncio.timeout(5):
                        address = await self._ask(node)
                    if address:
                        await self._serve(address)
                except (OSError, TimeoutError, WebSocketException):
                    continue
            await asyncio.sleep(dice.uniform(0.2, 1.0))

    async def read(self) -> None:
        """Read what is there of its partitions, now and then."""
        while True:
            await asyncio.sleep(ALL_READ_EVERY_S)
            if time.monotonic() >= self._deadline:
                self._end(set(self._positions))
            for number in list(self._positions):
                values = self._log.values[number]
                for offset in range(self._positions[number], len(values)):
                    self._seen.saw(self.group, self.name, self._begun[number], number, offset, values[offset])
                    self._positions[number] = offset + 1

    def _open(self, address: str) -> connect:
        uri = address.rstrip("/") + "/ws/consumer/"
        return connect(
            uri,
            additional_headers=self._headers,
            open_timeout=3,
            compression=None,
            ping_interval=None,
            close_timeout=1,
        )

    async def _ask(self, node: str) -> str:
        async with self._open(node) as socket:
            await _say(socket, type="ClusterMetadata", correlation_id=1, group_id=self.group)
            answer = json.loads(await socket.recv())
        return "" if answer.get("error_code") else str(answer["coordinator_address"])

    async def _serve(self, address: str) -> None:
        async with self._open(address) as socket:
            sent_at = time.monotonic()
            await _say(
                socket,
                type="RegisterConsumer",
                correlation_id=1,
                group_id=self.group,
                consumer_id=self.name,
                token=self._secret,
                topic_count=[{"topic": self._topic}],
                session_timeout_ms=SESSION_MS,
                auto_offset_reset="earliest",
                generation=self._generation,
            )
            async with asyncio.timeout(SESSION_MS / 3000):
                answer = json.loads(await socket.recv())
            error = answer.get("error_code", 0)
            if error:
                if error not in ASK_AGAIN:
                    self.failure = str(answer)
                return
            self.joins += 1
            if not answer.get("known", False):
                self._end(set(self._positions))
            self._deadline, self._answered = sent_at + SESSION_MS / 1000, (0, 0.0)
            while True:
                # A node that hangs says nothing; when the deadline is over, another may have its shards.
                async with asyncio.timeout_at(_loop_time(self._deadline)):
                    await self._react(socket, json.loads(await socket.recv()))

    async def _react(self, socket: ClientConnection, frame: dict[str, Any]) -> None:
        self._generation = max(self._generation, frame.get("generation", 0))
        self._nodes = [one["address"] for one in frame.get("nodes", [])] or self._nodes
        key = {"consumer_id": self.name, **{one: frame.get(one) for one in ("generation", "version")}}
        match frame["type"]:
            case "Ping":
                number, answered_at = self._answered
                if number and frame["number"] == number + 1:
                    self._deadline = answered_at + SESSION_MS / 1000
                self._answered = (frame["number"], time.monotonic())
                del key["version"]
                info = self._info(set(self._positions))
                await _say(socket, type="PingResponse", number=frame["number"], offset_info=info, **key)
            case "StopFetcher":
                ended = {number for one in frame["partitions"] for number in one["partitions"]}
                info = self._info(ended)
                self._end(ended)
                await _say(socket, type="StopFetcherResponse", offset_info=info, **key)
            case "StartFetcher":
                self._start(frame)
                await _say(socket, type="StartFetcherResponse", **key)

    def _start(self, frame: dict[str, Any]) -> None:
        whole: dict[int, int] = {}
        for thread in frame.get("ownership_info", []):
            for part in thread["assigned_parts"]:
                self._topic_id = part["topic_id"]
                whole.update((number, offset) for number, offset in part["partitions"])
        self._end(self._positions.keys() - whole.keys())
        for number in whole.keys() - self._positions.keys():
            self._positions[number] = max(0, whole[number])
            self._since[number] = frame["generation"]
            self._begun[number] = self._begun.get(number, 0) + 1

    def _end(self, numbers: set[int]) -> None:
        for number in numbers:
            self._positions.pop(number, None)

    def _info(self, numbers: set[int]) -> list[dict[str, Any]]:
        entries = [
            [number, self._positions[number], self._since[number]]
            for number in sorted(numbers)
            if number in self._positions
        ]
        return [{"topic": self._topic, "topic_id": self._topic_id, "partitions": entries}] if entries else []


async def _say(socket: ClientConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


def _loop_time(deadline: float) -> float:
    """The same instant on the loop's clock."""
    return asyncio.get_running_loop().time() + deadline - time.monotonic()
