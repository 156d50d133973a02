"""This room tells a group's rebalances from its records: how long each phase took, and what moved.

Owners fold their turns as they write them, pages fold the journal; both show what one fold says. Times are
milliseconds on any one clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import assert_never
from uuid import UUID

from groups.core import records
from groups.core.classic import CLASSIC
from groups.core.consumer_protocol import CONSUMER, assigned_partitions
from groups.core.phases import Phase
from groups.core.records import GroupRecord
from groups.core.state import GroupRows
from muster.messages.partitions import Partition, each_partition

_WORDS_OF_DEPARTURES = {"left": "member left", "session over": "member expired"}
_NO_TOPIC_ID = UUID(int=0)
"""Kafka's consumers name topics only."""
_LEFT_FOR = "left: "
"""What follows are the member's own words."""
_WORDS_OF_CAUSES = {" joined": "member joined", " changed its subscription": "subscription changed"}
"""Where a handler was asked for a member whose row was written before the last rebalance opened."""


@dataclass(slots=True)
class Move:
    """One partition that changed hands; None: it was nobody's, or nobody's it became."""

    before: str | None
    after: str | None


@dataclass(slots=True)
class Rebalance:
    """One attempt: when it opened, why, what each phase took, what moved.

    `generation` is None until one is opened; an attempt of a native group that failed opened none, one of a
    classic group may have opened one that nobody was assigned. `ended_ms` is None while it is open.
    """

    started_ms: float
    cause: str
    detail: str
    members: int
    closed_ms: float | None = None
    ended_ms: float | None = None
    generation: int | None = None
    failed: bool = False
    moves: dict[Partition, Move] = field(default_factory=dict)

    @property
    def preparing_ms(self) -> float:
        """From the opening to the close, or to the failure."""
        end = self.ended_ms if self.closed_ms is None else self.closed_ms
        return 0 if end is None else end - self.started_ms

    @property
    def completing_ms(self) -> float:
        """From the close until the last member was heard to have started."""
        if self.closed_ms is None or self.ended_ms is None:
            return 0
        return self.ended_ms - self.closed_ms

    @property
    def length_ms(self) -> float:
        return self.preparing_ms + self.completing_ms

    @property
    def moved(self) -> int:
        """Partitions that came to another member."""
        return sum(1 for move in self.moves.values() if move.after and move.after != move.before)


class Step(Enum):
    """How far a turn brought a rebalance."""

    OPENED = auto()
    CLOSED = auto()
    FAILED = auto()
    SETTLED = auto()


class Fold:
    """What is known of the group after the turns so far; of one without `rows` nothing is known at first.

    A partition taken from an owner of an unknown time counts as moved, and its owner before is not named
    unless a record names it. `last` is the rebalance that the last turn was about, open or not.
    """

    def __init__(self, rows: GroupRows | None = None) -> None:
        self.last: Rebalance | None = None
        self._current: Rebalance | None = None
        self._members = _members_of(rows) if rows else set()
        self._owned = {owner: set(tenures) for owner, tenures in rows.owned.items()} if rows else {}
        self._classic = rows is not None and rows.protocol == CLASSIC
        self._consumers = False
        # What the leader gave each member, so that what it gives again need not be read again.
        self._given: dict[str, bytes] = {}
        self._why: list[tuple[str, str]] = []
        # Partitions freed by a departure, with the owner of then: the next assignment ties the arrow to it.
        self._freed: dict[Partition, str] = {}
        if rows is not None and rows.classic is not None:
            self._consumers = rows.classic.protocol_type == CONSUMER
            self._give({name: one.assignment for name, one in rows.classic.members.items()})

    def take(self, at_ms: float, cause: str, turn: Sequence[GroupRecord]) -> Step | None:
        """One turn. `cause` stands in where its records give no reason for the rebalance that it opens."""
        step: Step | None = None
        if self._classic:
            # A rebalance opens in the turn of its cause.
            self._why = []
        for record in _in_order(turn):
            match record:
                case records.MemberAdded():
                    self._members.add(record.member_id)
                    self._why.append(("member joined", record.member_id))
                case records.MemberChanged():
                    self._why.append(("subscription changed", record.member_id))
                case records.ClassicMemberAdded():
                    self._members.add(record.member.member_id)
                    self._why.append(("member joined", record.member.member_id))
                case records.ClassicMemberChanged():
                    why = f" ({record.reason})" if record.reason else ""
                    what = record.what or "other protocols"
                    self._why.append((f"member joined with {what}{why}", record.member.member_id))
                case records.InstanceReplaced():
                    self._replace(record.old_member_id, record.member.member_id)
                    self._why.append(("static member came back", record.member.group_instance_id or ""))
                case records.ProtocolEntered():
                    self._classic = record.protocol == CLASSIC
                case records.ProtocolChosen():
                    self._classic, self._consumers = True, record.protocol_type == CONSUMER
                case records.ClassicAssigned():
                    self._give(record.assignments)
                case records.MemberRemoved():
                    self._remove(record)
                case records.HandlerAsked():
                    if not self._why and record.cause:
                        self._why.append(_words_of_cause(record.cause))
                case records.GenerationOpened():
                    self._close(at_ms, cause, record.generation)
                    step = Step.CLOSED
                case records.PartitionsReleased():
                    self._release(record)
                case records.PartitionsAssigned():
                    self._assign(record)
                case records.PhaseEntered():
                    step = self._enter(record.phase, at_ms, record.cause or cause) or step
                case (
                    records.OffsetsFlushed()
                    | records.PartitionsRunning()
                    | records.StandbysChanged()
                    | records.GroupMarkedEphemeral()
                    | records.ItemAdopted()
                    | records.ErrorShown()
                    | records.GroupDeleted()
                    | records.OffsetsDeleted()
                    | records.OffsetsSet()
                    | records.GenerationSkipped()
                    | records.StrategySet()
                    | records.MemberQuarantined()
                    | records.QuarantineEnded()
                    | records.RequestDecided()
                ):
                    pass
                case _:
                    assert_never(record)
        if step is Step.SETTLED or (step is Step.CLOSED and not self._classic):
            # What found no owner by then is nobody's; a classic leader assigns after the close.
            self._freed.clear()
        return step

    def _remove(self, record: records.MemberRemoved) -> None:
        member_id = record.member_id
        self._members.discard(member_id)
        self._why.append((_words_of_departure(record.why), member_id))
        self._freed.update(dict.fromkeys(self._owned.pop(member_id, ()), member_id))
        self._given.pop(member_id, None)

    def _release(self, record: records.PartitionsReleased) -> None:
        owned = self._owned.get(record.member_id, set())
        for partition in each_partition(record.partitions):
            owned.discard(partition)
            self._freed[partition] = record.member_id
            self._note(partition, record.member_id, None)

    def _assign(self, record: records.PartitionsAssigned) -> None:
        owned, freed = self._owned.setdefault(record.member_id, set()), self._freed
        for partition in each_partition(record.partitions):
            owned.add(partition)
            self._note(partition, freed.pop(partition, None) if freed else None, record.member_id)

    def _replace(self, old_member_id: str, member_id: str) -> None:
        """The same member under another name: nothing has moved."""
        self._members.discard(old_member_id)
        self._members.add(member_id)
        self._owned[member_id] = self._owned.pop(old_member_id, set())
        self._given[member_id] = self._given.pop(old_member_id, b"")

    def _give(self, assignments: Mapping[str, bytes]) -> None:
        """What a leader assigned; of bytes that are no assignment of Kafka's consumers nothing is told."""
        gained: list[tuple[str, set[Partition]]] = []
        for member_id in self._members:
            assignment = assignments.get(member_id, b"")
            if assignment == self._given.get(member_id, b""):
                continue
            self._given[member_id] = assignment
            before, now = self._owned.get(member_id, set()), self._read(assignment)
            for partition in before - now:
                self._freed[partition] = member_id
                self._note(partition, member_id, None)
            self._owned[member_id] = now
            gained.append((member_id, now - before))
        for member_id, partitions in gained:
            for partition in partitions:
                self._note(partition, self._freed.pop(partition, None), member_id)

    def _read(self, assignment: bytes) -> set[Partition]:
        topics = assigned_partitions(assignment) if assignment and self._consumers else None
        return {
            Partition(topic, _NO_TOPIC_ID, number)
            for topic, numbers in (topics or {}).items()
            for number in numbers
        }

    def _note(self, partition: Partition, before: str | None, after: str | None) -> None:
        if self._current is None:
            return
        move = self._current.moves.get(partition)
        if move is None:
            self._current.moves[partition] = Move(before, after)
            return
        move.after = after
        move.before = move.before or before

    def _enter(self, phase: Phase, at_ms: float, cause: str) -> Step | None:
        if phase is Phase.PREPARING_REBALANCE:
            if self._current is not None:
                # All had joined a classic group, and its leader did not assign.
                self._current.failed = self._classic
            self._end(at_ms)
            self._open(at_ms, cause)
            return Step.OPENED
        if phase is Phase.EMPTY and self._current is not None and self._current.closed_ms is not None:
            # Nobody joined: it is the generation of a group without members.
            self._current.members = 0
        if phase is Phase.COMPLETING_REBALANCE and self._current and self._current.closed_ms is not None:
            return None
        return self._end(at_ms)

    def _open(self, at_ms: float, cause: str) -> Rebalance:
        detail = ""
        if self._why:
            cause, detail = self._why[0]
        if len(self._why) > 1:
            detail = ", ".join(dict.fromkeys(name for _, name in self._why if name))
        self.last = self._current = Rebalance(at_ms, cause, detail, len(self._members))
        self._why = []
        return self._current

    def _close(self, at_ms: float, cause: str, generation: int) -> None:
        # Where nobody had to give anything up it is opened and closed in one turn.
        current = self._current or self._open(at_ms, cause)
        current.closed_ms = at_ms
        current.generation = generation
        current.members = len(self._members) or current.members

    def _end(self, at_ms: float) -> Step | None:
        current, self._current = self._current, None
        if current is None:
            return None
        current.ended_ms = at_ms
        current.failed = current.failed or current.closed_ms is None
        return Step.FAILED if current.failed else Step.SETTLED


def rebalances(turns: Iterable[tuple[float, str, Sequence[GroupRecord]]]) -> list[Rebalance]:
    """The rebalances in these turns (time, cause, records; oldest first), newest first."""
    fold = Fold()
    found: list[Rebalance] = []
    for at_ms, cause, turn in turns:
        fold.take(at_ms, cause, turn)
        if fold.last is not None and (not found or found[-1] is not fold.last):
            found.append(fold.last)
    found.reverse()
    return found


def _in_order(turn: Sequence[GroupRecord]) -> Sequence[GroupRecord]:
    """As written; but a turn of one phase may name it before what it follows from."""
    if sum(isinstance(one, records.PhaseEntered) for one in turn) > 1:
        return turn
    return sorted(turn, key=lambda one: isinstance(one, records.PhaseEntered))


def _members_of(rows: GroupRows) -> set[str]:
    return {*rows.members, *(rows.classic.members if rows.classic else ())}


def _words_of_cause(cause: str) -> tuple[str, str]:
    """In the words of the records that give the same reason; beside them whom it is about."""
    for end, words in _WORDS_OF_CAUSES.items():
        if cause.endswith(end):
            return words, cause.removesuffix(end)
    member_id, colon, why = cause.rpartition(": ")
    return (_WORDS_OF_DEPARTURES[why], member_id) if colon and why in _WORDS_OF_DEPARTURES else (cause, "")


def _words_of_departure(why: str) -> str:
    if why.startswith(_LEFT_FOR):
        return f"member {why}"
    return _WORDS_OF_DEPARTURES.get(why, f"member removed: {why}")
