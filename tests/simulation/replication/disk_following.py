"""This room has a broker of the simulation take over what leaders answer, long cuts step by step.

What is read before a cut waits here for the walk, which has it read, and later the log cut, whatever came
between; the product's own rules say what is held, and what is dropped.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from broker.core.fetch_sessions import FetchRefused
from broker.core.replica_log import PartitionKey
from broker.fetch_session import FetchedAnswer
from broker.hosted import HostedPartition
from broker.log.cutting import Replay
from broker.log.outcomes import AppendRefused, StorageFailed
from broker.long_cuts import LongCuts
from broker.replicas import DataPlane
from broker.replication import take_over
from muster.kafkawire.fetching import read_fetch_answer
from muster.kafkawire.framing import LENGTH_BYTES
from tests.simulation.replication.broker_process import Broker
from tests.simulation.replication.disk_wire import Connection
from tests.simulation.replication.memory_log import Stored

_TURNS = 10
"""Of the loop: behind so many whoever may go on has gone on."""


class Diverged(Exception):
    """A log is not what it should be: a follower cut what was committed, or time did not act on it."""


class Beside:
    """Something that waits for its thread."""

    def __init__(self, work: Callable[..., None], *stated: Any) -> None:
        self._work, self._stated = work, stated
        self.is_read = False
        self._may_go_on = asyncio.get_running_loop().create_future()

    def read(self) -> None:
        """The thread does it."""
        self.is_read = True
        self._work(*self._stated)

    def go_on(self) -> None:
        """And the loop hears that it has."""
        self._may_go_on.set_result(None)

    async def over(self) -> None:
        await self._may_go_on


class HeldCuts:
    """The cuts that one process holds back, by the leader that demands them."""

    def __init__(self, plane: DataPlane, runner: asyncio.Runner) -> None:
        self._plane = plane
        self._runner = runner
        self._by_leader: dict[int, LongCuts] = {}
        self._held: dict[PartitionKey, int] = {}
        self.beside: list[Beside] = []
        """One for each leader at most."""
        self.due: list[tuple[FetchedAnswer, Replay]] = []

    def begin(self, answer: FetchedAnswer) -> bool:
        """False: it is not to be held."""
        leader = answer.asked.leader
        cuts = self._by_leader.setdefault(leader, LongCuts(self._plane, self._cut))

        async def begun() -> bool:
            return cuts.begin(answer)

        if self._run(begun()):
            self._held[PartitionKey(*answer.key)] = leader
            return True
        return False

    def _cut(self, answer: FetchedAnswer, replay: Replay) -> None:
        self.due.append((answer, replay))

    def holds(self, key: PartitionKey) -> bool:
        """True if nothing is to be asked of it; what has changed is dropped, as a look at its row does."""
        leader = self._held.get(key)
        if leader is None:
            return False
        hosted = self._plane.hosted(*key)
        position = hosted.replica.next_fetch() if hosted is not None else None
        if position is not None and self._by_leader[leader].holds(key, position):
            return True
        del self._held[key]
        self._by_leader[leader].drop(key)
        self._run(asyncio.sleep(0))
        return False

    def look(self) -> None:
        """Rows may be others."""
        for key in tuple(self._held):
            self.holds(key)

    def go_on(self, index: int) -> list[tuple[FetchedAnswer, Replay]]:
        """What was read is heard of; returns what is to be cut now."""
        self.beside[index].go_on()
        self._run(asyncio.sleep(0))
        due, self.due = self.due, []
        return due

    def end(self) -> None:
        """The process ends."""
        for cuts in self._by_leader.values():
            cuts.stop()
        self._held.clear()
        self._run(asyncio.sleep(0))

    def _run(self, first: Any) -> Any:
        async def turns() -> Any:
            found = await first
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return found

        with patch.object(asyncio, "to_thread", self._beside):
            return self._runner.run(turns())

    async def _beside(self, work: Callable[..., None], *stated: Any) -> None:
        waiting = Beside(work, *stated)
        self.beside.append(waiting)
        try:
            await waiting.over()
        finally:
            self.beside.remove(waiting)


class FollowingBroker(Broker):
    """What a broker with a disk does with an answer."""

    plane: DataPlane
    connections: dict[int, Connection]
    cuts: HeldCuts
    below: dict[Any, list[Stored]] | None
    may_cut: Callable[[PartitionKey], bool]
    holds_cuts = False
    """Any cut for which something is to be read counts as a long one."""
    _resting: set[PartitionKey]
    _leaders: dict[PartitionKey, list[Stored]]
    """What the leader held as it demanded a cut that is held."""

    def receive(self, answer: Any) -> int | None:
        """Take an answer over, unless its connection was given up meanwhile."""
        if answer.connection not in self.connections.values():
            return None
        answer.connection.is_waiting = False
        frame = memoryview(answer.data)[LENGTH_BYTES:]
        try:
            told = answer.connection.session.hear(read_fetch_answer(frame))
        except FetchRefused:
            self.connections = {b: one for b, one in self.connections.items() if one is not answer.connection}
            return None
        for one in told:
            self._heed(one, answer.held.get(PartitionKey(*one.key), []))
        return None

    def read_below(self, index: int) -> None:
        """What is to be read before a cut is read."""
        self.cuts.beside[index].read()

    def cut_below(self, index: int) -> None:
        """And the log is cut."""
        for answer, replay in self.cuts.go_on(index):
            self._heed(answer, self._leaders.pop(PartitionKey(*answer.key), []), replay)

    def _heed(self, answer: FetchedAnswer, held: list[Stored], replay: Replay | None = None) -> None:
        key = PartitionKey(*answer.key)
        if self.holds_cuts and answer.diverging is not None and replay is None and self.cuts.begin(answer):
            self._leaders[key] = held
            return
        cuts, hosted = self._cuts_of(key), self.plane.hosted(*key)
        is_accepted = hosted is not None and self._is_accepted(hosted, answer)
        self._take(key, answer, replay)
        begins_again = self._cuts_of(key) != cuts and self._begins_at(key, answer.log_start_offset)
        if self.below is not None and (is_accepted or begins_again):
            self._follow_what_is_gone(key, held, answer.asked.leader_epoch)

    def _cuts_of(self, key: PartitionKey) -> int:
        hosted = self.plane.hosted(*key)
        return hosted.log.cuts if hosted is not None else 0

    def _begins_at(self, key: PartitionKey, offset: int) -> bool:
        hosted = self.plane.hosted(*key)
        return hosted is not None and hosted.log.start_offset == hosted.log.end_offset == offset

    def _is_accepted(self, hosted: HostedPartition, answer: FetchedAnswer) -> bool:
        is_refused = answer.error or answer.diverging is not None
        return not is_refused and hosted.replica.accepts(answer.asked)

    def _follow_what_is_gone(self, key: PartitionKey, held: list[Stored], leader_epoch: int) -> None:
        """Of what both have deleted that of the leader's history counts from now on."""
        assert self.below is not None
        hosted, view = self.plane.hosted(*key), self.logs.get(key)
        if hosted is not None and view is not None and view.start_offset:
            self.below[key] = held
            view.forget()  # type: ignore[attr-defined]
            if view.start_offset == view.end_offset:
                self.level[key] = max(self.level.get(key, 0), leader_epoch)

    def _take(self, key: PartitionKey, answer: FetchedAnswer, replay: Replay | None) -> None:
        hosted = self.plane.hosted(*key)
        before = hosted.high_watermark if hosted is not None and not self.may_cut(key) else 0
        end_before = hosted.log.end_offset if hosted is not None else 0
        try:
            fits = take_over(self.plane, key, answer, replay)
        except (AppendRefused, StorageFailed):
            fits = False
        if not fits:
            # For one fetch it is left out, as a rest does: what is not asked anew is not judged anew.
            self._resting.add(key)
            return
        if hosted is not None and hosted.log.end_offset < before:
            raise Diverged("truncated below the high watermark")
        is_level = hosted is not None and answer.diverging is None and answer.asked.offset == end_before
        if is_level and not answer.error and answer.asked.leader_epoch == hosted.replica.leader_epoch:  # type: ignore[union-attr]
            self.level[key] = max(self.level.get(key, 0), answer.asked.leader_epoch)
