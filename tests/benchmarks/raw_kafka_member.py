"""This room is the cheapest member of a classic group there is: frames built once, one loop for all sockets.

It joins as today's clients do: JoinGroup 9, whose first answer is an id, SyncGroup 5, Heartbeat 4 and
OffsetCommit 9. Whoever leads gives each member one partition.
"""

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final

from kio.schema.errors import ErrorCode

from groups.core.consumer_protocol import assignment, subscription
from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_body,
    encode_reply,
    encode_request,
    part,
    read_body,
    request_class,
    response_class,
)
from tests.benchmarks.frame_load import Question

SESSION_TIMEOUT: Final = timedelta(minutes=30)
PATIENCE_S: Final = 60.0
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
VERSIONS: Final = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.OFFSET_COMMIT: 9,
}

COMES_SOON: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
"""Kafka names a coordinator before it is one."""

_GENERATION: Final = 0x11223344
_OFFSET: Final = 0x1122334455667788
"""These stand in frames that are built before one knows better."""

# The answers' length, correlation id, (no) tags, throttle time and error; then a Join's generation and texts.
_ERROR: Final = struct.Struct(">13xh")
_GENERATION_OF_JOIN: Final = struct.Struct(">15xi")
_BODY, _TEXTS_OF_JOIN = 9, 19


class Stage(Enum):
    """Which answer a member waits for."""

    ID = auto()
    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()


class RawKafkaMember:
    """One member on a blocking connection of its own: call `hear` when there is something to hear."""

    def __init__(self, address: tuple[str, int], group: str, topic: str, number: int) -> None:
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.stage = Stage.ID
        self.error = 0
        self.given = b""
        """What its leader hands in for it."""
        self._topic = topic
        self._number = number
        self._join = b""
        self._sync = (b"", b"")
        self._buffer = b""
        self.connection = socket.create_connection(address, timeout=PATIENCE_S)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask_for_id(self) -> None:
        """The first JoinGroup."""
        self._say(join_frame(self.group, "", self._topic), Stage.ID)

    def join(self) -> None:
        """JoinGroup with the id."""
        self._say(self._join, Stage.JOIN)

    def beat(self) -> None:
        """Heartbeat."""
        self._say(heartbeat(self.group, self.generation, self.member_id).request, Stage.HEARTBEAT)

    def sync(self, members: "Sequence[RawKafkaMember]") -> None:
        """SyncGroup; a leader hands in what each of `members` is given."""
        head, tail = self._sync
        frame = head + struct.pack(">i", self.generation) + tail
        if self.leads:
            given = uvarint(len(members) + 1) + b"".join(member.given for member in members) + b"\0"
            # Instead of an array that is empty, and no tags.
            frame = frame[4:-2] + given
            frame = struct.pack(">i", len(frame)) + frame
        self._say(frame, Stage.SYNC)

    def _say(self, frame: bytes, stage: Stage) -> None:
        self.stage = stage
        self.connection.sendall(frame)

    def hear(self) -> bool:
        """Take what came; True when the answer is whole, and read."""
        data = self._buffer + self.connection.recv(65_536)
        if len(data) == len(self._buffer):
            raise RuntimeError(f"{self.member_id or 'a member'} was hung up on")
        if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            self._buffer = data
            return False
        self._buffer = b""
        (self.error,) = _ERROR.unpack_from(data)
        if self.stage is Stage.ID and self.error in COMES_SOON:
            time.sleep(0.01)
            self.ask_for_id()
            return False
        if self.stage is Stage.ID:
            self._take_id(data)
        elif self.stage is Stage.JOIN and not self.error:
            (self.generation,) = _GENERATION_OF_JOIN.unpack_from(data)
            leader = data[_TEXTS_OF_JOIN : _TEXTS_OF_JOIN + 400].find(self.member_id.encode())
            # Its own id is the third text of the answer if it leads, else it is the fourth.
            self.leads = leader == len(PROTOCOL_TYPE) + len(PROTOCOL) + 3
        return True

    def _take_id(self, answer: bytes) -> None:
        if self.error != ErrorCode.member_id_required:
            raise RuntimeError(f"a first Join was answered with {ErrorCode(self.error)!r}")
        join = response_class(ApiKey.JOIN_GROUP, VERSIONS[ApiKey.JOIN_GROUP])
        self.member_id = read_body(join, answer, _BODY).member_id
        self._join = join_frame(self.group, self.member_id, self._topic)
        head, _, tail = sync_frame(self.group, self.member_id).partition(struct.pack(">i", _GENERATION))
        self._sync = head, tail
        shape = part(_request(ApiKey.SYNC_GROUP), "SyncGroupRequestAssignment")
        told = assignment({self._topic: [self._number]})
        self.given = encode_body(build(shape, member_id=self.member_id, assignment=told))


class MemberLoop:
    """The connections of many members, looked at together."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._members: dict[int, RawKafkaMember] = {}

    def add(self, member: RawKafkaMember) -> None:
        """Listen to it from now on."""
        self._members[member.connection.fileno()] = member
        self._poll.register(member.connection.fileno(), select.EPOLLIN)

    def heard(self, wait_s: float = 1.0) -> list[RawKafkaMember]:
        """Whose answers are there."""
        ready = self._poll.poll(wait_s, 512)
        return [self._members[number] for number, _ in ready if self._members[number].hear()]

    def close(self) -> None:
        """Hang up; the members stay in their groups until their sessions end."""
        self._poll.close()
        for member in self._members.values():
            member.connection.close()


class RawGroup:
    """A classic group whose members all live on one loop."""

    def __init__(self, address: tuple[str, int], group: str, topic: str) -> None:
        self.members: list[RawKafkaMember] = []
        self.group = group
        self.address = _find_coordinator(address, group)
        self._topic = topic
        self._loop = MemberLoop()

    def add(self, count: int) -> list[RawKafkaMember]:
        """Members with an id, which have not joined."""
        fresh = []
        for number in range(len(self.members), len(self.members) + count):
            member = RawKafkaMember(self.address, self.group, self._topic, number)
            self._loop.add(member)
            member.ask_for_id()
            fresh.append(member)
        left = count
        while left:
            left -= len(self._loop.heard())
        self.members += fresh
        return fresh

    def settle(self, members: Sequence[RawKafkaMember], over_s: float = 0.0) -> None:
        """Let `members` join, spread over this time; return when all of the group have been assigned anew.

        Raises RuntimeError if anybody is refused.
        """
        begun, joining, left = time.monotonic(), deque(members), len(self.members)
        while left:
            share = min((time.monotonic() - begun) / over_s, 1) if over_s else 1
            while joining and len(members) - len(joining) <= share * len(members):
                joining.popleft().join()
            for member in self._loop.heard(0.001 if joining else 1.0):
                left -= self._react(member)
            if time.monotonic() > begun + PATIENCE_S:
                raise RuntimeError(f"{left} members of {self.group} are not assigned")
            if not left:
                newest = max(member.generation for member in self.members)
                members = [member for member in self.members if member.generation < newest]
                begun, joining, left = time.monotonic(), deque(members), len(members)

    def _react(self, member: RawKafkaMember) -> int:
        """1 if it has its assignment."""
        if member.stage is Stage.SYNC and not member.error:
            return 1
        if member.error == ErrorCode.rebalance_in_progress:
            member.join()
        elif member.stage is Stage.JOIN and not member.error:
            member.sync(self.members)
        else:
            raise RuntimeError(f"{member.stage} was answered with {ErrorCode(member.error)!r}")
        return 0

    def one_joins(self, over_s: float) -> float:
        """Seconds from the Join of one more until all have been assigned anew.

        As soon as one member's heartbeat tells of the rebalance all the others join again, spread over this
        time, as if their own heartbeats had told them.
        """
        others = list(self.members)
        (fresh,) = self.add(1)
        begun = time.perf_counter()
        fresh.join()
        witness, witness.error = others[0], 0
        while not witness.error:
            witness.beat()
            while witness not in self._loop.heard():
                pass
        if witness.error != ErrorCode.rebalance_in_progress:
            raise RuntimeError(f"a heartbeat was answered with {ErrorCode(witness.error)!r}")
        self.settle(others, over_s)
        return time.perf_counter() - begun

    def close(self) -> None:
        """Hang up; the group keeps its members until their sessions end."""
        self._loop.close()


def uvarint(number: int) -> bytes:
    """A length as flexible versions write it."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _request(key: ApiKey) -> Any:
    return request_class(key, VERSIONS[key])


def _frame(key: ApiKey, **values: Any) -> bytes:
    return encode_request(key, VERSIONS[key], 0, "bench", build(_request(key), **values))


def join_frame(group: str, member_id: str, topic: str) -> bytes:
    """JoinGroup of a consumer of one topic."""
    protocol = part(_request(ApiKey.JOIN_GROUP), "JoinGroupRequestProtocol")
    return _frame(
        ApiKey.JOIN_GROUP,
        group_id=group,
        session_timeout=SESSION_TIMEOUT,
        rebalance_timeout=timedelta(minutes=5),
        member_id=member_id,
        group_instance_id=None,
        protocol_type=PROTOCOL_TYPE,
        protocols=(build(protocol, name=PROTOCOL, metadata=subscription([topic])),),
        reason=None,
    )


def sync_frame(group: str, member_id: str) -> bytes:
    """SyncGroup of a follower, in a generation that has yet to be put in."""
    return _frame(
        ApiKey.SYNC_GROUP,
        group_id=group,
        generation_id=_GENERATION,
        member_id=member_id,
        group_instance_id=None,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=(),
    )


def heartbeat(group: str, generation: int, member_id: str) -> Question:
    """Heartbeat, and the answer that all is well."""
    key = ApiKey.HEARTBEAT
    asked = _frame(key, group_id=group, generation_id=generation, member_id=member_id, group_instance_id=None)
    well = build(response_class(key, VERSIONS[key]), error_code=0)
    return Question(asked, encode_reply(key, VERSIONS[key], 0, well))


def commit(group: str, generation: int, member_id: str, topic: str, numbers: Sequence[int]) -> Question:
    """OffsetCommit of some partitions of a topic, and the answer that all of it is accepted."""
    key = ApiKey.OFFSET_COMMIT
    shape, answered = _request(key), response_class(key, VERSIONS[key])
    positions = tuple(
        build(
            part(shape, "OffsetCommitRequestPartition"),
            partition_index=number,
            committed_offset=_OFFSET,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        for number in numbers
    )
    asked = _frame(
        key,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=None,
        topics=(build(part(shape, "OffsetCommitRequestTopic"), name=topic, partitions=positions),),
    )
    answers = tuple(
        build(part(answered, "OffsetCommitResponsePartition"), partition_index=number, error_code=0)
        for number in numbers
    )
    told = build(part(answered, "OffsetCommitResponseTopic"), name=topic, partitions=answers)
    answer = encode_reply(key, VERSIONS[key], 0, build(answered, topics=(told,)))
    return Question(asked, answer, tuple(places_of(asked, struct.pack(">q", _OFFSET))))


def places_of(frame: bytes, marker: bytes) -> list[int]:
    found, place = [], frame.find(marker)
    while place >= 0:
        found.append(place)
        place = frame.find(marker, place + len(marker))
    return found


def find_coordinator(group: str) -> bytes:
    """FindCoordinator of one group."""
    return _frame(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(group,))


def found_coordinator(frame: bytes) -> tuple[str, int] | None:
    """What an answer, without its length, says; None: nobody yet."""
    key = ApiKey.FIND_COORDINATOR
    (found,) = read_body(response_class(key, VERSIONS[key]), frame, _BODY - 4).coordinators
    return (found.host, found.port) if found.error_code == ErrorCode.none else None


def _find_coordinator(address: tuple[str, int], group: str) -> tuple[str, int]:
    """Ask until the group has a coordinator: Kafka makes the topic of its offsets when it is first asked."""
    until = time.monotonic() + PATIENCE_S
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        answers = connection.makefile("rb")
        while time.monotonic() < until:
            connection.sendall(find_coordinator(group))
            found = found_coordinator(answers.read(int.from_bytes(answers.read(4), "big")))
            if found is not None:
                return found
            time.sleep(0.05)
    raise RuntimeError(f"{group} has no coordinator")
