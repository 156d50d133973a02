"""This room is a member written from `docs/protocol.md` alone: nothing of this repository is imported.

It shows what a client in another language has to do: a websocket, JSON, a monotonic clock, and any Kafka
client that can be assigned partitions by hand.
"""

import json
import secrets
import time
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

ASK_AGAIN = {14, 15, 16, 25, 1001, -1}
"""Errors after which the page says to ask or register again."""

Place = tuple[str, int]


class RefusedError(Exception):
    """The coordinator refuses for good."""


class AskAgainError(Exception):
    """The coordinator cannot answer now, and the page says to ask again: hang up, and join."""


class Stranger:
    """One member of one group; `step` does whatever is due, and returns the records that came.

    `positions` is the next offset to consume of each partition that it fetches; `started` the generation of
    the StartFetcher that began it, `ids` the topics' ids. What it reads is committed when `commit` is asked.
    """

    def __init__(
        self, nodes: list[str], door_token: str, group: str, topic: str, session_timeout_ms: int = 30_000
    ) -> None:
        self.consumer_id = "stranger"
        self.positions: dict[Place, int] = {}
        self.started: dict[Place, int] = {}
        self.ids: dict[str, str] = {}
        self.known = False
        self.heard: list[str] = []
        self._given = nodes
        self._nodes = nodes
        self._headers = {"Authorization": f"Bearer {door_token}"}
        self._group = group
        self._topic = topic
        self._session_ms = session_timeout_ms
        self._secret = secrets.token_hex(32)
        self._generation = 0
        self._numbers = 0
        self._socket: ClientConnection | None = None
        self._open_sockets = ExitStack()
        self._deadline = 0.0
        self._answered: tuple[int, float] = (0, 0.0)
        self._kafka: Consumer | None = None
        self._answers: dict[int, dict[str, Any]] = {}

    @property
    def connected(self) -> bool:
        """Whether the coordinator can be asked."""
        return self._socket is not None

    # Coming.

    def join(self) -> None:
        """Find the coordinator and register; again after a lost connection."""
        while self._socket is None:
            for node in list(self._nodes):
                address = self._ask(node)
                if address and self._register(address):
                    return
            time.sleep(0.1)

    def _ask(self, node: str) -> str:
        try:
            with self._open(node) as socket:
                question = {"type": "ClusterMetadata", "correlation_id": 1, "group_id": self._group}
                socket.send(json.dumps(question))
                answer = json.loads(socket.recv(timeout=2))
        except (OSError, TimeoutError, WebSocketException):
            return ""
        self._learn(answer)
        return "" if answer.get("error_code") else str(answer["coordinator_address"])

    def _register(self, address: str) -> bool:
        open_sockets = ExitStack()
        try:
            socket = open_sockets.enter_context(self._open(address))
            sent_at = time.monotonic()
            self._numbers += 1
            request = {
                "type": "RegisterConsumer",
                "correlation_id": self._numbers,
                "group_id": self._group,
                "consumer_id": self.consumer_id,
                "token": self._secret,
                "topic_count": [{"topic": self._topic}],
                "session_timeout_ms": self._session_ms,
                "auto_commit": True,
                "auto_offset_reset": "earliest",
                "generation": self._generation,
            }
            socket.send(json.dumps(request))
            answer = json.loads(socket.recv(timeout=self._session_ms / 3000))
        except (OSError, TimeoutError, WebSocketException):
            open_sockets.close()
            return False
        error = answer.get("error_code", 0)
        if error:
            open_sockets.close()
            if error in ASK_AGAIN:
                return False
            raise RefusedError(answer)
        self.known = answer.get("known", False)
        if not self.known:
            self._end(set(self.positions))
        self._generation = max(self._generation, answer.get("generation", 0))
        self._deadline = sent_at + self._session_ms / 1000
        self._answered = (0, 0.0)
        self._socket, self._open_sockets = socket, open_sockets
        return True

    def _open(self, address: str) -> AbstractContextManager[ClientConnection]:
        uri = address.rstrip("/") + "/ws/consumer/"
        return connect(uri, additional_headers=self._headers, open_timeout=2, compression=None)

    # Being a member.

    def step(self, within_s: float = 0.05) -> list[tuple[int, int, bytes]]:
        """Hear one frame if there is one, then fetch for a while."""
        if time.monotonic() >= self._deadline:
            self._end(set(self.positions))
            self.hang_up()
        if self._socket is None:
            self.join()
        assert self._socket is not None
        try:
            self._react(json.loads(self._socket.recv(timeout=0.01)))
        except TimeoutError:
            pass
        except ConnectionClosed:
            self.hang_up()
        return self._fetch(within_s)

    def _react(self, frame: dict[str, Any]) -> None:
        self.heard.append(frame["type"])
        self._learn(frame)
        match frame["type"]:
            case "Ping":
                self._pinged(frame)
            case "StopFetcher":
                ended = {
                    (one["topic"], number) for one in frame["partitions"] for number in one["partitions"]
                }
                positions = self._info(ended)
                self._end(ended)
                self._answer("StopFetcherResponse", frame, offset_info=positions)
            case "StartFetcher":
                self._start(frame)
                self._answer("StartFetcherResponse", frame)
            case _ if "correlation_id" in frame:
                self._answers[frame["correlation_id"]] = frame

    def _pinged(self, ping: dict[str, Any]) -> None:
        number, answered_at = self._answered
        if ping["number"] == number + 1 and number:
            self._deadline = answered_at + self._session_ms / 1000
        self._answered = (ping["number"], time.monotonic())
        self._generation = max(self._generation, ping.get("generation", 0))
        info = self._info(set(self.positions))
        self._say(
            {
                "type": "PingResponse",
                "consumer_id": self.consumer_id,
                "number": ping["number"],
                "generation": self._generation,
                "offset_info": info,
            }
        )

    def _start(self, frame: dict[str, Any]) -> None:
        whole: dict[Place, int] = {}
        for thread in frame.get("ownership_info", []):
            for part in thread["assigned_parts"]:
                self.ids[part["topic"]] = part["topic_id"]
                whole.update({(part["topic"], number): offset for number, offset in part["partitions"]})
        self._generation = max(self._generation, frame["generation"])
        self._end(self.positions.keys() - whole.keys())
        for place in whole.keys() - self.positions.keys():
            self.positions[place] = max(0, whole[place])
            self.started[place] = frame["generation"]
        self._assign()

    def _end(self, places: set[Place]) -> None:
        for place in places:
            self.positions.pop(place, None)
            self.started.pop(place, None)
        self._assign()

    def _info(self, places: set[Place]) -> list[dict[str, Any]]:
        return [
            {
                "topic": topic,
                "topic_id": self.ids[topic],
                "partitions": [
                    [number, self.positions[topic, number], self.started[topic, number]]
                    for one, number in sorted(places)
                    if one == topic and (topic, number) in self.positions
                ],
            }
            for topic in sorted({topic for topic, _ in places if topic in self.ids})
        ]

    def _learn(self, frame: dict[str, Any]) -> None:
        if nodes := [node["address"] for node in frame.get("nodes", [])]:
            self._nodes = list(dict.fromkeys((*nodes, *self._given)))
        if (brokers := frame.get("brokers_info")) and self._kafka is None:
            servers = ",".join(f"{one['host']}:{one['port']}" for one in brokers)
            settings = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
            settings["log_level"] = 0
            self._kafka = Consumer(settings)
            self._assign()

    # Records.

    def _assign(self) -> None:
        if self._kafka is not None:
            self._kafka.assign([TopicPartition(*place, offset) for place, offset in self.positions.items()])

    def _fetch(self, within_s: float) -> list[tuple[int, int, bytes]]:
        if self._kafka is None or not self.positions:
            return []
        records = []
        for message in self._kafka.consume(100, within_s):
            topic, number, offset = message.topic(), message.partition(), message.offset()
            if message.error() is None and (topic, number) in self.positions:
                assert topic is not None and number is not None and offset is not None
                records.append((number, offset, message.value() or b""))
                self.positions[topic, number] = offset + 1
        return records

    # Asking.

    def commit(self) -> dict[str, Any]:
        """Commit where it is; returns the answer."""
        return self._question({"type": "CommitOffsets", "offset_info": self._info(set(self.positions))})

    def leave(self) -> None:
        """End fetching, commit, leave, close: each after the answer to the one before.

        Raises AskAgainError, as where the group has just moved to another node.
        """
        self._done(self.commit())
        self._end(set(self.positions))
        self._done(self._question({"type": "Leave"}))
        self.vanish()

    def _done(self, answer: dict[str, Any]) -> None:
        error = answer.get("error_code", 0)
        if error in ASK_AGAIN:
            raise AskAgainError(answer)
        assert error == 0, answer

    def vanish(self) -> None:
        """Nothing is said any more."""
        self.hang_up()
        if self._kafka is not None:
            self._kafka.close()
            self._kafka = None

    def hang_up(self) -> None:
        """The connection is gone; what it had not heard is never read."""
        if self._socket is not None:
            self._open_sockets.close()
            self._socket = None

    def _question(self, frame: dict[str, Any]) -> dict[str, Any]:
        self._numbers += 1
        number = self._numbers
        self._say({**frame, "correlation_id": number, "consumer_id": self.consumer_id})
        assert self._socket is not None
        while number not in self._answers:
            self._react(json.loads(self._socket.recv(timeout=self._session_ms / 1000)))
        return self._answers.pop(number)

    def _answer(self, kind: str, command: dict[str, Any], **more: Any) -> None:
        key = {"generation": command["generation"], "version": command["version"]}
        self._say({"type": kind, "consumer_id": self.consumer_id, **key, **more})

    def _say(self, frame: dict[str, Any]) -> None:
        assert self._socket is not None
        self._socket.send(json.dumps(frame))
