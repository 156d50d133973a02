"""This room is a member of a classic group in a hundred and fifty lines: Kafka's requests, no fetching."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from groups.core.consumer_protocol import assigned_partitions, assignment, subscription
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kafkawire.errors import KafkaWireError
from tests.soak.reading import WholeLog
from tests.soak.seen import Seen
from tests.unit.kafkawire.asking import ClientConnection

SESSION = timedelta(seconds=15)
REBALANCE = timedelta(seconds=30)
BEAT_S = 1.0
ANSWER_WITHIN_S = 40.0
REBALANCING, UNKNOWN_MEMBER, OLD_GENERATION, ID_REQUIRED = 27, 25, 22, 79
COORDINATOR_MOVED = {14, 15, 16}
JOIN, SYNC, BEAT, COMMIT, FETCH_OFFSETS = 7, 5, 4, 8, 7
"""The versions in which it speaks."""


class CoordinatorMoved(Exception):
    """Somebody else is, or will be."""


class Rejoin(Exception):
    """The group rebalances, or has done so without us."""


class RawClassic:
    """Joins, shares out by range when it leads, beats, reads out of the whole log, commits every second."""

    def __init__(self, name: str, group: str, topic: str, bootstrap: str, log: WholeLog, seen: Seen) -> None:
        self.name, self.group = name, group
        self.failure = ""
        self.joins = 0
        self.forgotten = 0
        """How often the group did not know it any more."""
        self._topic = topic
        self._bootstrap = bootstrap.split(",")
        self._log = log
        self._seen = seen
        self._member_id = ""
        self._generation = -1
        self._positions: dict[int, int] = {}

    @property
    def assigned(self) -> int:
        """How many partitions it reads."""
        return len(self._positions)

    async def run(self) -> None:
        """Be a member until cancelled."""
        while True:
            for address in list(self._bootstrap):
                wire: _Wire | None = None
                with contextlib.suppress(OSError, EOFError, TimeoutError, KafkaWireError, CoordinatorMoved):
                    coordinator = await self._find(address)
                    wire = await _Wire.to(coordinator, self.name)
                    await self._serve(wire)
                if wire is not None:
                    wire.close()
                await asyncio.sleep(0.3)

    async def _find(self, address: str) -> str:
        async with asyncio.timeout(5):
            wire = await _Wire.to(address, self.name)
            try:
                answer = await wire.ask(ApiKey.FIND_COORDINATOR, 2, key=self.group, key_type=0)
            finally:
                wire.close()
        if answer.error_code:
            raise CoordinatorMoved
        return f"{answer.host}:{answer.port}"

    async def _serve(self, wire: "_Wire") -> None:
        while True:
            with contextlib.suppress(Rejoin):
                if self._generation < 0 or not self._positions:
                    await self._join(wire)
                while True:
                    self._read()
                    await self._commit(wire)
                    await asyncio.sleep(BEAT_S)
                    who = {"generation_id": self._generation, "member_id": self._member_id}
                    self._judge(await wire.ask(ApiKey.HEARTBEAT, BEAT, group_id=self.group, **who))
            self._positions.clear()

    async def _join(self, wire: "_Wire") -> None:
        protocol = part(request_class(ApiKey.JOIN_GROUP, JOIN), "JoinGroupRequestProtocol")
        joined = await wire.ask(
            ApiKey.JOIN_GROUP,
            JOIN,
            group_id=self.group,
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=(protocol(name="range", metadata=subscription([self._topic])),),
        )
        if joined.error_code == ID_REQUIRED:
            self._member_id = joined.member_id
            raise Rejoin
        self._judge(joined)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        given = part(request_class(ApiKey.SYNC_GROUP, SYNC), "SyncGroupRequestAssignment")
        shares = self._shares(joined) if joined.leader == joined.member_id else {}
        synced = await wire.ask(
            ApiKey.SYNC_GROUP,
            SYNC,
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(given(member_id=name, assignment=what) for name, what in shares.items()),
        )
        self._judge(synced)
        mine = (assigned_partitions(synced.assignment) or {}).get(self._topic, ())
        self._positions = await self._committed(wire, mine)
        self.joins += 1

    def _shares(self, joined: Any) -> Mapping[str, bytes]:
        members, numbers = sorted(one.member_id for one in joined.members), sorted(self._log.values)
        return {
            name: assignment({self._topic: numbers[place :: len(members)]})
            for place, name in enumerate(members)
        }

    async def _committed(self, wire: "_Wire", mine: Sequence[int]) -> dict[int, int]:
        topic = part(request_class(ApiKey.OFFSET_FETCH, FETCH_OFFSETS), "OffsetFetchRequestTopic")
        answer = await wire.ask(
            ApiKey.OFFSET_FETCH,
            FETCH_OFFSETS,
            group_id=self.group,
            topics=(topic(name=self._topic, partition_indexes=tuple(mine)),),
            require_stable=True,
        )
        self._judge(answer)
        found = [one for told in answer.topics for one in told.partitions]
        for one in found:
            self._judge(one)
        return {one.partition_index: max(one.committed_offset, 0) for one in found}

    def _read(self) -> None:
        for number in self._positions:
            values = self._log.values[number]
            for offset in range(self._positions[number], len(values)):
                self._seen.saw(self.group, self.name, self.joins, number, offset, values[offset])
                self._positions[number] = offset + 1

    async def _commit(self, wire: "_Wire") -> None:
        place = part(request_class(ApiKey.OFFSET_COMMIT, COMMIT), "OffsetCommitRequestPartition")
        named = part(request_class(ApiKey.OFFSET_COMMIT, COMMIT), "OffsetCommitRequestTopic")
        places = tuple(
            place(partition_index=number, committed_offset=offset, committed_metadata="")
            for number, offset in self._positions.items()
        )
        answer = await wire.ask(
            ApiKey.OFFSET_COMMIT,
            COMMIT,
            group_id=self.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=(named(name=self._topic, partitions=places),),
        )
        for told in answer.topics:
            for one in told.partitions:
                self._judge(one)

    def _judge(self, answer: Any) -> None:
        error = int(answer.error_code)
        if error in COORDINATOR_MOVED:
            raise CoordinatorMoved
        if error == UNKNOWN_MEMBER:
            self.forgotten += bool(self._member_id)
            self._member_id, self._generation = "", -1
            raise Rejoin
        if error in (REBALANCING, OLD_GENERATION):
            self._generation = -1
            raise Rejoin
        if error:
            self.failure = f"{type(answer).__name__}: {error}"
            raise CoordinatorMoved


class _Wire:
    """One connection, one question at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        self._reader, self._writer = reader, writer
        self._connection = ClientConnection(name)

    @classmethod
    async def to(cls, address: str, name: str) -> "_Wire":
        """Raises OSError, TimeoutError."""
        where = urlsplit(f"//{address}")
        async with asyncio.timeout(5):
            return cls(*await asyncio.open_connection(where.hostname, where.port), name)

    async def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """The body of the answer. Raises EOFError, OSError, TimeoutError, KafkaWireError."""
        body = build(request_class(key, version), **fields)
        self._writer.write(self._connection.request(key, version, body)[1])
        # A node that hangs is left when a heartbeat stays unanswered for half a session.
        within_s = ANSWER_WITHIN_S if key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) else SESSION.seconds / 2
        asked_at = time.monotonic()
        async with asyncio.timeout(within_s):
            while True:
                data = await self._reader.read(65_536)
                if not data:
                    raise EOFError(f"hung up after {time.monotonic() - asked_at:.1f} s")
                for reply in self._connection.receive_data(data):
                    return reply.body

    def close(self) -> None:
        """Hang up."""
        self._writer.close()
