"""This room asks Muster and Apache Kafka the same, one question after the other, and compares the answers."""

import contextlib
import dataclasses
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, Final, NamedTuple

from muster.kafkawire.api_table import ApiKey, build, request_class
from tests.benchmarks.raw_kafka_member import COMES_SOON
from tests.unit.kafkawire.asking import ClientConnection

PATIENCE_S: Final = 30.0
LATE_S: Final = 3.0
"""For so long one of both may answer later than the other."""
PARKED_S: Final = 0.2
"""What neither has answered by then waits for others: each group's initial delay is shorter."""
HUNG_UP: Final = "hung up"


@dataclasses.dataclass(eq=False)
class Question:
    """What was asked at one door; `answer` is plain values by their names, None as long as it waits."""

    answer: Any = None


class Door:
    """A Kafka door. Each question is asked on a connection on which no other one waits."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._idle: list[_Connection] = []
        self._selector = selectors.DefaultSelector()

    def ask(self, key: ApiKey, version: int, body: Any) -> Question:
        """Ask without waiting; `hear` takes the answer."""
        connection = self._idle.pop() if self._idle else _Connection(self._address)
        self._selector.register(connection.peer, selectors.EVENT_READ, connection)
        return connection.ask(key, version, body)

    def tell(self, key: ApiKey, version: int, body: Any) -> None:
        """Say what nobody answers, on the connection on which the next question is asked."""
        connection = self._idle.pop() if self._idle else _Connection(self._address)
        connection.tell(key, version, body)
        self._idle.append(connection)

    def hear(self, within_s: float) -> None:
        """Take what comes in this time."""
        for ready, _ in self._selector.select(within_s):
            connection: _Connection = ready.data
            if connection.hear():
                self._selector.unregister(connection.peer)
                if connection.is_open:
                    self._idle.append(connection)
                else:
                    connection.peer.close()

    def answer(self, key: ApiKey, version: int, body: Any) -> Any:
        """Ask, and wait. Raises AssertionError if nobody answers."""
        asked, give_up_at = self.ask(key, version, body), time.monotonic() + PATIENCE_S
        while asked.answer is None:
            assert time.monotonic() < give_up_at, f"no answer to {body}"
            self.hear(0.05)
        return asked.answer

    def close(self) -> None:
        """Hang up, whoever waits."""
        for waiting in list(self._selector.get_map().values()):
            waiting.data.peer.close()
        self._selector.close()
        for connection in self._idle:
            connection.peer.close()
        self._idle, self._selector = [], selectors.DefaultSelector()


class _Connection:
    def __init__(self, address: tuple[str, int]) -> None:
        self.peer = socket.create_connection(address, timeout=PATIENCE_S)
        self.is_open = True
        self._wire = ClientConnection("walker")
        self._question = Question()

    def ask(self, key: ApiKey, version: int, body: Any) -> Question:
        self._question = Question()
        self.peer.sendall(self._wire.request(key, version, body)[1])
        return self._question

    def tell(self, key: ApiKey, version: int, body: Any) -> None:
        self.peer.sendall(self._wire.request(key, version, body, expects_reply=False)[1])

    def hear(self) -> bool:
        """Whether the answer is there."""
        data = b""
        with contextlib.suppress(ConnectionError):
            data = self.peer.recv(1 << 20)
        if not data:
            self._question.answer = {HUNG_UP: True}
            self.is_open = False
        for reply in self._wire.receive_data(data):
            self._question.answer = plain(reply.body)
        return self._question.answer is not None


def plain(value: Any) -> Any:
    """A body of kio's as dicts, lists, numbers, texts and bytes; times in milliseconds."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    return value


class Difference(NamedTuple):
    """One value of an answer that is not the same at both; `where` begins at the whole."""

    where: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.where}: Muster {self.ours!r}, Kafka {self.theirs!r}"


def differences(ours: Any, theirs: Any, where: str = "") -> list[Difference]:
    """What is not the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return [one for name in ours for one in differences(ours[name], theirs[name], f"{where}.{name}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for at, (one, other) in pairs for line in differences(one, other, f"{where}[{at}]")]
    return [] if ours == theirs else [Difference(where, ours, theirs)]


def settle(doors: Sequence[Door], waiting: Callable[[], Sequence[tuple[Question, Question]]]) -> None:
    """Return when both have answered the same questions, and no more come; or one of them is late."""
    begun = since = time.monotonic()
    seen: object = None
    while True:
        for door in doors:
            door.hear(0.01)
        answered = [(ours.answer is not None, theirs.answer is not None) for ours, theirs in waiting()]
        now = time.monotonic()
        if answered != seen:
            seen, since = answered, now
        alike = all(ours == theirs for ours, theirs in answered)
        # Who waits may be answered by what was asked last.
        quiet_s = PARKED_S if any(not ours for ours, _ in answered) else 0.0
        if (alike and now - since >= quiet_s) or now - begun > LATE_S:
            return


def coordinator(door: Door, group: str) -> tuple[str, int]:
    """Where the group is coordinated, once somebody is ready to."""
    find, beat = request_class(ApiKey.FIND_COORDINATOR, 3), request_class(ApiKey.HEARTBEAT, 3)
    asked = build(beat, group_id=group, generation_id=0, member_id="nobody", group_instance_id=None)
    soon = {error.value for error in COMES_SOON}
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < give_up_at, f"nobody coordinates {group}"
        told = door.answer(ApiKey.FIND_COORDINATOR, 3, build(find, key=group, key_type=0))
        if not told["error_code"]:
            address = told["host"], told["port"]
            there = Door(address)
            with contextlib.closing(there):
                if there.answer(ApiKey.HEARTBEAT, 3, asked)["error_code"] not in soon:
                    return address
        time.sleep(0.1)
