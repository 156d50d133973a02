"""This room commits offsets without a turn: what arrived while the last batch was written is the next one.

Requests are judged the instant before their batch is sent, against the rows as the lane then knows them,
and acknowledged after COMMIT. Offsets that came with pings ride along once an interval.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.connections import MemberConnection
from coordinator.core import offsets
from coordinator.store import GroupStore
from coordinator.subject import Groups
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import CommitOffsetsRequest, CommitOffsetsResponse, Frame
from muster.messages.partitions import Partition
from runtime.ports import Connection, LaneLost

Row = tuple[str, Partition]
_Asked = tuple[MemberConnection, CommitOffsetsRequest]


@dataclass(slots=True)
class _Batch:
    """A batch on its way: whom to answer, and which rows came from commits, which from pings."""

    answers: list[tuple[MemberConnection, CommitOffsetsResponse]]
    committed: dict[str, dict[Partition, int]]
    flushed: dict[str, dict[Partition, int]]


class Commits:
    """The commits of one shard that wait; `runtime.ports.BatchSource` for its lane."""

    def __init__(self, groups: Groups, store: GroupStore, load: Callable[[str], None]) -> None:
        self._groups = groups
        self._load = load
        self._waiting: list[_Asked] = []
        self._parked: dict[str, list[_Asked]] = {}
        self._batch: _Batch | None = None
        self._flush_due = False
        # The sources of all shards share the store, so that one statement writes what waits in all of them.
        self.write: Callable[[Connection, Mapping[Any, Any]], None] = store.write_offsets

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: MemberConnection, request: CommitOffsetsRequest) -> None:
        """A CommitOffsets came."""
        connection.unanswered_commits += 1
        self._waiting.append((connection, request))

    def flush(self) -> bool:
        """Let the next batch carry what is dirty; False if nothing is."""
        self._flush_due = any(state.memory.dirty for state in self._groups.states.values())
        return self._flush_due

    def gather(self) -> Mapping[Any, Any]:
        """Judge what waits; rows by (group, partition): the last received wins."""
        batch = _Batch([], defaultdict(dict), {})
        if self._flush_due:
            self._flush_due = False
            batch.flushed = {
                key: dict(state.memory.dirty)
                for key, state in self._groups.states.items()
                if state.memory.dirty
            }
        waiting, self._waiting = self._waiting, []
        for connection, request in waiting:
            self._judge(connection, request, batch)
        self._batch = batch
        rows: dict[Row, int] = {}
        for written in (batch.flushed, batch.committed):
            for key, positions in written.items():
                for partition, offset in positions.items():
                    rows[key, partition] = offset
        if not rows:
            # Everything was refused: the answers need no transaction.
            self._answer(batch)
        return rows

    def _judge(self, connection: MemberConnection, request: CommitOffsetsRequest, batch: _Batch) -> None:
        key = connection.group_id or ""
        state = self._groups.states.get(key)
        if state is None or key in self._parked:
            self._park(key, (connection, request))
            return
        judgement = offsets.judge(state, connection.connection_id, request)
        if judgement.accepted:
            batch.committed[key].update(judgement.accepted)
        batch.answers.append((connection, judgement.response))

    def _park(self, key: str, asked: _Asked) -> None:
        """The group's cache was dropped: a turn loads it; its commits wait, in their order, for `loaded`."""
        if key in self._parked:
            self._parked[key].append(asked)
        else:
            self._parked[key] = [asked]
            self._load(key)

    def loaded(self, key: str) -> None:
        """The turn that was to load a group is over: its commits can be judged, or can be refused."""
        parked = self._parked.pop(key, [])
        if key in self._groups.states:
            self._waiting[:0] = parked
        else:
            _refuse(parked, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def committed(self, rows: Mapping[Any, Any]) -> None:
        """The batch is durable."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        states = self._groups.states
        for key, positions in batch.flushed.items():
            if key in states:
                states[key] = offsets.flushed(states[key], positions)
        for key, positions in batch.committed.items():
            if key in states:
                states[key] = offsets.committed(states[key], positions)
        self._answer(batch)

    def refused(self, rows: Mapping[Any, Any], error: Exception) -> None:
        """Nothing of the batch was written; who asked may ask again, here or at the next owner."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        code = (
            ErrorCode.NOT_COORDINATOR if isinstance(error, LaneLost) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        for connection, response in batch.answers:
            _say(connection, CommitOffsetsResponse(correlation_id=response.correlation_id, error_code=code))

    def give_up(self) -> None:
        """The shard goes to another node: what still waits was not written."""
        waiting, self._waiting = self._waiting, []
        parked, self._parked = self._parked, {}
        for asked in (waiting, *parked.values()):
            _refuse(asked, ErrorCode.NOT_COORDINATOR)

    def _answer(self, batch: _Batch) -> None:
        for connection, response in batch.answers:
            _say(connection, response)
        batch.answers.clear()


def _refuse(asked: list[_Asked], code: ErrorCode) -> None:
    for connection, request in asked:
        _say(connection, CommitOffsetsResponse(correlation_id=request.correlation_id, error_code=code))


def _say(connection: MemberConnection, message: Frame) -> None:
    connection.unanswered_commits -= 1
    connection.say(message)
