"""This room commits offsets without a turn: what arrived while the last batch was written is the next one.

Requests are judged the instant before they are written, against the rows as the lane then knows them, and
acknowledged after COMMIT. Offsets that came with pings ride along once an interval.

A batch of many partitions is judged and written in portions. They are cut out of one queue of all callers, so
that of two commits of one partition, whoever sent them, the later one is judged on what the earlier wrote and
is written behind it; and no turn of the lane comes between them (`runtime.streams`).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import structlog

from coordinator.backlog import WEIGHT_OF_ONE, Backlog
from coordinator.core import offsets
from coordinator.core.events import ConnectionId, GroupEvent, OutsideOffsets
from coordinator.core.memory import GroupState
from coordinator.core.offsets import Judgement
from coordinator.store import GroupStore
from coordinator.store_offsets import StoredOffset
from coordinator.subject import Groups
from groups.core.state import OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition
from runtime import metrics
from runtime.ports import Connection, LaneLost

log = structlog.get_logger(__name__)

Row = tuple[str, Partition]

PORTION: Final = 4_000
"""Partitions, of which a commit names one at least; the last commit that begins below comes whole, as does
each of a Kafka client. To judge one and to note it takes one to three microseconds, a commit of a single one
four. In partitions, not in time: what is run faster than life decides the same.
"""

_NO_NOTES: Mapping[Partition, OffsetNote] = {}
_NONE = ErrorCode.NONE
"""Looked up once: each commit is compared with it."""


class Commit:
    """Offsets of a group that somebody asks to commit, of so many partitions; each protocol has its own kind.

    It is all that is made for a commit: forty thousand a second pass here.
    """

    __slots__ = ("connection", "key", "partitions")

    def __init__(self, key: str, connection: ConnectionId, partitions: int) -> None:
        self.key = key
        self.connection = connection
        self.partitions = partitions

    @property
    def weight(self) -> int:
        """As `coordinator.backlog` counts what waits; something is kept of each."""
        return self.partitions + WEIGHT_OF_ONE

    def judge(self, state: GroupState) -> Judgement:
        """Asked the instant before the batch is sent."""
        raise NotImplementedError

    def answer(self, judgement: Judgement) -> None:
        """Called once, with what was judged after COMMIT, or with the error that refused it all."""
        raise NotImplementedError


@dataclass(slots=True)
class _Batch:
    """A batch on its way: whom to answer, and which rows came from commits, which from pings."""

    answers: list[tuple[Commit, Judgement]]
    committed: dict[str, dict[Partition, int]]
    flushed: dict[str, dict[Partition, int]]
    notes: dict[str, dict[Partition, OffsetNote]]
    heard: list[tuple[str, str]]
    """Group and member of those whose sessions start again."""

    def take(self, key: str, judgement: Judgement) -> None:
        """These will be written; of a partition the last counts, be it without a note."""
        self.committed[key].update(judgement.accepted)
        if self.notes and key in self.notes:
            notes = self.notes[key]
            for partition in judgement.accepted:
                notes.pop(partition, None)
            notes.update(judgement.notes)
        elif judgement.notes:
            self.notes[key] = dict(judgement.notes)

    def rows(self) -> dict[Row, StoredOffset]:
        """What is to be written, by group and partition."""
        rows: dict[Row, StoredOffset] = {}
        for written in (self.flushed, self.committed):
            for key, positions in written.items():
                for partition, offset in positions.items():
                    rows[key, partition] = offset
        for key, notes in self.notes.items():
            positions = self.committed[key]
            for partition, note in notes.items():
                rows[key, partition] = (positions[partition], note)
        return rows

    def split_off(self, keys: Set[str]) -> "_Batch":
        """What is these groups', as a batch of its own; with it goes whoever waits for no row."""

        def taken(by_group: dict[str, dict[Partition, Any]]) -> dict[str, dict[Partition, Any]]:
            return {key: by_group.pop(key) for key in keys & by_group.keys()}

        written = self.committed.keys() - keys
        answers = [one for one in self.answers if one[0].key not in written]
        self.answers = [one for one in self.answers if one[0].key in written]
        return _Batch(answers, taken(self.committed), taken(self.flushed), taken(self.notes), [])


class Commits:
    """The commits of one shard that wait; `runtime.ports.BatchSource` for its lane."""

    def __init__(
        self,
        groups: Groups,
        store: GroupStore,
        turn: Callable[[str, Sequence[GroupEvent]], None],
        done: Callable[[ConnectionId], None],
        live: Callable[[Sequence[tuple[str, str]]], None],
        answer: Callable[[ConnectionId, Callable[[Any], None], Any, int], None],
        backlog: Backlog | None = None,
    ) -> None:
        self._groups = groups
        self._turn = turn
        self._done = done
        self._live = live
        self._say = answer
        self._backlog = backlog or Backlog()
        self.portion = PORTION
        self._waiting: deque[Commit] = deque()
        """All that is to be judged, in the order in which it came."""
        self._due = 0
        """So many of them are judged in the batch that has begun."""
        self._parked: dict[str, list[Commit]] = {}
        self._beginning: set[str] = set()
        self._batch: _Batch | None = None
        self._rows: Mapping[Row, StoredOffset] = {}
        self._flush_due = False
        # The sources of all shards share the store, so that one statement writes what waits in all of them.
        self.write: Callable[[Connection, Mapping[Any, Any]], None] = store.write_offsets

    def has_room_for(self, commit: Commit) -> bool:
        """Whether it may wait; it is counted then, until it is answered. If not, it is, and comes again."""
        if self._backlog.takes(commit):
            return True
        # Here and now: what is to be said later, to so many who come and go, would be the next thing to wait.
        judgement = Judgement(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        _count(commit, judgement)
        commit.answer(judgement)
        return False

    def forgo(self, commit: Commit) -> None:
        """It had room, and does not come."""
        self._backlog.left(commit)

    def add(self, commit: Commit) -> bool:
        """Somebody asks. True for the first one that waits for the next batch: those that follow are gathered
        with it.
        """
        waiting = self._waiting
        waiting.append(commit)
        return len(waiting) - self._due == 1

    def flush(self) -> bool:
        """Let the next batch carry what is dirty; False if nothing is."""
        self._flush_due = any(state.memory.dirty for state in self._groups.states.values())
        return self._flush_due

    @property
    def has_more(self) -> bool:
        """Whether more waited when the batch began."""
        return self._due > 0

    def gather(self) -> Mapping[Any, Any]:
        """Judge a portion of what waited when the batch began; rows by (group, partition): the last received
        wins.
        """
        batch = _Batch([], defaultdict(dict), {}, {}, [])
        if self._flush_due:
            self._flush_due = False
            batch.flushed = {
                key: dict(state.memory.dirty)
                for key, state in self._groups.states.items()
                if state.memory.dirty
            }
        waiting, left = self._waiting, self.portion
        due = self._due or len(waiting)
        states, parked = self._groups.states, self._parked
        try:
            while due and left > 0:
                commit = waiting.popleft()
                due -= 1
                left -= commit.partitions
                state = states.get(commit.key)
                if state is None or commit.key in parked:
                    self._park(commit)
                else:
                    self._judge(commit, state, batch)
        except Exception:
            # A mistake of ours: nobody would ask for this batch again, nor for the rest of it.
            self._due, rest = 0, [waiting.popleft() for _ in range(due)]
            judged = [one for one, _ in batch.answers]
            self._refuse([*judged, commit, *rest], ErrorCode.UNKNOWN_SERVER_ERROR)
            raise
        self._due = due
        if batch.heard:
            self._live(batch.heard)
        self._batch = batch
        rows = self._rows = batch.rows()
        if not rows:
            # Everything was refused: the answers need no transaction.
            self._answer(batch)
        return rows

    def _judge(self, commit: Commit, state: GroupState, batch: _Batch) -> None:
        try:
            judgement = commit.judge(state)
        except Exception:
            # A mistake of ours; others have commits in this batch, too, and wait for their answers.
            log.exception("commit could not be judged", group=commit.key)
            judgement = Judgement(error=ErrorCode.UNKNOWN_SERVER_ERROR)
        if judgement.not_ready:
            self._beginning.add(commit.key)
            self._park(commit, OutsideOffsets())
            return
        if judgement.first is not None:
            self._park(commit, judgement.first)
            return
        if judgement.accepted:
            batch.take(commit.key, judgement)
        if judgement.heard:
            batch.heard.append((commit.key, judgement.heard))
        batch.answers.append((commit, judgement))

    def _park(self, commit: Commit, *events: GroupEvent) -> None:
        """A turn must load the group, or make it ready; its commits wait, in their order, for `turned`."""
        self._await_turn(commit.key, *events)
        self._parked[commit.key].append(commit)

    def _await_turn(self, key: str, *events: GroupEvent) -> None:
        if key not in self._parked:
            self._parked[key] = []
            self._turn(key, events)

    def turned(self, key: str) -> None:
        """The turn that was to load a group is over: its commits can be judged, or can be refused."""
        parked = self._parked.pop(key, [])
        should_exist = key in self._beginning
        self._beginning.discard(key)
        state = self._groups.states.get(key)
        if state is not None and (state.rows.version or not should_exist):
            # Before all that came since, also of the batch that is being judged.
            self._waiting.extendleft(reversed(parked))
            if self._due:
                self._due += len(parked)
        else:
            self._refuse(parked, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def belongs_to(self, key: Row) -> str:
        """Each row is a group's."""
        return key[0]

    def _answered(self, rows: Mapping[Row, StoredOffset]) -> _Batch | None:
        """The batch, or what of it has these rows; without any it was not written at all."""
        batch = self._batch
        if batch is None:
            return None
        if rows and rows is not self._rows:
            return batch.split_off({key for key, _ in rows})
        self._batch, self._rows = None, {}
        return batch

    def committed(self, rows: Mapping[Any, Any]) -> None:
        """The batch is durable, or this part of it."""
        batch = self._answered(rows)
        if batch is None:
            return
        states = self._groups.states
        for key, positions in batch.flushed.items():
            self._groups.committed(key, positions)
            if key in states:
                states[key] = offsets.flushed(states[key], positions)
        for key, positions in batch.committed.items():
            self._groups.committed(key, positions)
            if key in states:
                notes = batch.notes.get(key) if batch.notes else None
                states[key] = offsets.committed(states[key], positions, notes or _NO_NOTES)
        self._answer(batch)

    def refused(self, rows: Mapping[Any, Any], error: Exception) -> None:
        """Who asked may ask again, here or at the next owner.

        What was refused may be stored: a part of it, or all by an earlier writing of unknown outcome. So the
        caches of its groups, which lack it, are loaded anew before anything else is decided on them.
        """
        batch = self._answered(rows)
        if batch is None:
            return
        if isinstance(error, LaneLost):
            code = ErrorCode.NOT_COORDINATOR
        else:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            # Before the answers: what waits behind them is decided, or judged, on the rows.
            for key in sorted(batch.committed.keys() | batch.flushed.keys()):
                self._groups.drop(key)
                self._await_turn(key)
        self._refuse([commit for commit, _ in batch.answers], code)

    def turn_away(self) -> None:
        """The lane takes no batch any more: what waits for one is not written.

        The batch that is under way is, with all of its portions: turns that were queued behind it are still
        decided here, on what it wrote.
        """
        waiting = self._waiting
        refused = [waiting.pop() for _ in range(len(waiting) - self._due)]
        self._refuse(refused[::-1], ErrorCode.NOT_COORDINATOR)

    def give_up(self, held: Sequence[Commit] = ()) -> None:
        """The shard goes to another node: what still waits was not written; nor was `held`, behind turns.

        Of the batch that is under way nobody here may hear any more: its lanes may have been stopped.
        """
        batch, self._batch, self._due = self._batch, None, 0
        under_way = [] if batch is None else [commit for commit, _ in batch.answers]
        parked, self._parked = self._parked, {}
        self._beginning.clear()
        self._refuse(under_way, ErrorCode.NOT_COORDINATOR)
        self.turn_away()
        for commits in (*parked.values(), held):
            self._refuse(commits, ErrorCode.NOT_COORDINATOR)

    def _answer(self, batch: _Batch) -> None:
        answers, batch.answers = batch.answers, []
        for commit, judgement in answers:
            self._tell(commit, judgement)

    def _refuse(self, commits: Sequence[Commit], code: ErrorCode) -> None:
        for commit in commits:
            self._tell(commit, Judgement(error=code))

    def _tell(self, commit: Commit, judgement: Judgement) -> None:
        """Answer; what the caller said behind it may go on."""
        self._backlog.left(commit)
        if judgement.refused or judgement.error is not _NONE:
            _count(commit, judgement)
        try:
            self._say(commit.connection, commit.answer, judgement, commit.partitions)
        except Exception:
            # The others are to hear their answers.
            log.exception("commit could not be answered", group=commit.key)
        self._done(commit.connection)


def _count(commit: Commit, judgement: Judgement) -> None:
    """A refusal is counted once by each error in it, so that operators see why commits fail."""
    for error in {judgement.error, *judgement.refused.values()} - {ErrorCode.NONE}:
        metrics.commits_refused.labels(error.name).inc()
    some = islice(judgement.refused.items(), 3)
    first = [f"{one.topic}-{one.number} {error.name}" for one, error in some]
    log.debug("commit refused", group=commit.key, error=judgement.error.name, first=first)
