"""This room takes turns: decide on the newest state, write it in one transaction, then speak (design 4.2).

It is the only place where control state changes.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import structlog

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime import metrics
from runtime.database import Fenced, Held, JournalRow, Link
from runtime.failpoints import passing
from runtime.ports import (
    ConnectionLost,
    Entry,
    LaneLost,
    SharingSubject,
    Subject,
    VersionConflict,
    is_unable,
)
from runtime.work_table import Offered

ATTEMPTS = 5
"""How often one turn decides again before it counts as our mistake."""

MANY_RECORDS = 1_000
"""What the journal shows of so many is found in the lane's thread: the loop would stand still for it."""

FEWER = 4
"""So many times fewer events after each transaction that was lost: at the last attempt one out of 256."""

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


class TurnLane(Protocol):
    """What a turn needs of the lane that it is taken in; it has the connection to itself meanwhile."""

    name: str
    seq: int

    @property
    def node(self) -> str:
        """This node's name, for the journal."""

    @property
    def epoch(self) -> int:
        """The lease's epoch under which the next transaction is fenced."""

    def now(self) -> Instant:
        """The lane's own time (ports.Lane.now)."""

    async def thawed(self) -> None:
        """Return when the node may answer. Raises LaneLost if the lease is gone meanwhile."""

    async def in_thread(self, function: Callable[[Link], Result]) -> Result:
        """Run `function` on the lane's connection, in its thread."""

    async def take_again(self) -> None:
        """After ConnectionLost: a new connection, and the lease from oneself. Raises LaneLost."""

    def lost(self) -> None:
        """The fence found another epoch: the lease is not ours any more."""

    def look_again(self, subject: Subject[Any, Any], key: str, at: Instant | None) -> None:
        """Ask this subject again at that instant."""

    def offered(self, items: Sequence[Offered]) -> None:
        """These work items are durable now: have them done."""


class GaveUp(Exception):
    """A turn lost its connection ATTEMPTS times. No single event is to blame, and to try them one by one
    would hold up the other lanes of the connection: all are refused, and whoever is hung up on comes again.
    """


class NotLoaded(Exception):
    """The rows could not be read, by a mistake of ours or of whoever wrote them: no event is to blame."""


class NotSpoken(Exception):
    """The turn is durable, but saying so failed: it must not be decided again."""


def is_guilt(error: Exception) -> bool:
    """Whether a turn that failed so may be spoilt by one of its events, and would fail with it again."""
    return not isinstance(error, GaveUp | NotLoaded | NotSpoken) and not is_unable(error)


async def take_turn(lane: TurnLane, subject: Subject[Any, Any], key: str, events: Sequence[Any]) -> int:
    """Decide `events` of `key` at once, write, and only then speak (design chapter 4.2).

    Returns when it was spoken, and how many of the first events it was: the server ends a transaction that
    takes too long, with its connection, so what was lost unwritten is tried again with fewer.

    Raises LaneLost if this node may not write any more, NotSpoken, GaveUp, NotLoaded, what the subject or its
    store raised, or the last of ATTEMPTS conflicts: as rows are read anew each time, one of the events must
    be what they do not fit. The cache is then dropped, and but for NotSpoken nothing of these events was
    written.
    """
    last: VersionConflict | None = None
    for _ in range(ATTEMPTS):
        try:
            await lane.thawed()
            state = subject.cached(key)
            if state is None:
                state = await _load(lane, subject, key)
            decision = subject.decide(key, state, events, lane.now())
            if await _conclude(lane, subject, key, state, events, decision):
                return len(events)
            events = events[: -(-len(events) // FEWER)]
            last = None
        except VersionConflict as conflict:
            metrics.version_misses.inc()
            log.info("turn conflicted", lane=lane.name, key=key, text=str(conflict))
            subject.drop(key)
            last = conflict
        except ConnectionLost:
            # In a load, or before a write: nothing was written. What comes next needs a connection of ours.
            subject.drop(key)
            last = None
            await lane.take_again()
        except Fenced as error:
            metrics.turns.labels("fenced").inc()
            subject.drop(key)
            lane.lost()
            raise LaneLost(lane.name) from error
        except LaneLost:
            subject.drop(key)
            raise
        except BaseException:
            metrics.turns.labels("failed").inc()
            subject.drop(key)
            raise
    metrics.turns.labels("gave_up").inc()
    if last is not None:
        raise last
    raise GaveUp(f"{lane.name}: {key}: the database ended {ATTEMPTS} transactions in a row")


async def take_together(
    lane: TurnLane, subject: SharingSubject[Any, Any], waiting: Mapping[str, Sequence[Any]]
) -> Mapping[str, Exception | None]:
    """Take the turns of several keys in one transaction; those that are over, with what went wrong in them.

    Only while nothing goes wrong before: of all others nothing was written, and their turns are to be taken
    one by one. A key that must be loaded first is one of these. Raises LaneLost.
    """
    await lane.thawed()
    over: dict[str, Exception | None] = {}
    decided: list[_Decided] = []
    for key, events in waiting.items():
        try:
            state = subject.cached(key)
            if state is None:
                continue
            decision = subject.decide(key, state, events, lane.now())
            if not decision.records:
                over[key] = _settled(lane, subject, key, state, decision)
                continue
            entry = subject.entry(key, events, decision)
            decided.append(_Decided(key, state, decision, entry, subject.before(key, state)))
        except Exception:
            # Whoever is to blame is found when this turn is taken alone.
            subject.drop(key)
    if not decided:
        return over
    written = False
    try:
        written = await _write_together(lane, subject, decided)
    except Fenced as error:
        metrics.turns.labels("fenced").inc()
        lane.lost()
        raise LaneLost(lane.name) from error
    except LaneLost:
        raise
    except Exception as error:
        log.info("turns came to nothing together", lane=lane.name, keys=len(decided), error=repr(error))
    finally:
        if not written:
            for one in decided:
                subject.drop(one.key)
    if written:
        metrics.turns.labels("written").inc(len(decided))
        passing("turn.speak")
        for one in decided:
            metrics.turn_events.observe(len(waiting[one.key]))
            over[one.key] = _settled(lane, subject, one.key, one.state, one.decision)
        passing("turn.spoken")
    return over


class _Decided(NamedTuple):
    """One of several turns, as it is to be written; `before` are the rows that it was decided on."""

    key: str
    state: Any
    decision: Decision[Any, Any]
    entry: Entry
    before: Any


async def _write_together(
    lane: TurnLane, subject: SharingSubject[Any, Any], decided: Sequence[_Decided]
) -> bool:
    """As `_write`. Raises what a turn raises of which nothing was written."""
    rows = [
        JournalRow(
            lane.name,
            lane.seq + number,
            uuid.uuid4(),
            lane.node,
            one.key,
            one.entry.cause,
            one.entry.summary,
            one.decision.records,
        )
        for number, one in enumerate(decided, start=1)
    ]
    saves = [(one.key, one.before, one.decision.records) for one in decided]
    held = Held(lane.name, lane.epoch)
    started = time.monotonic()

    def save(connection: Any) -> None:
        subject.store.save_all(connection, saves)

    try:
        written = await lane.in_thread(lambda link: link.turn(held, save, *rows))
        offered = written.offered
    except ConnectionLost:
        metrics.unknown_outcomes.inc()
        if not await _was_written(lane, rows[-1]):
            return False
        offered = []
    lane.seq = rows[-1].seq
    took_ms = (time.monotonic() - started) * 1000
    metrics.turn_ms.observe(took_ms)
    log.info(
        "turns",
        lane=lane.name,
        keys=len(rows),
        seq=lane.seq,
        epoch=lane.epoch,
        cause=rows[0].cause,
        ms=round(took_ms, 2),
    )
    lane.offered(offered)
    return True


def _settled(
    lane: TurnLane, subject: Subject[Any, Any], key: str, state: Any, decision: Decision[Any, Any]
) -> Exception | None:
    """Speak one of several turns; what went wrong, if it was not spoken whole."""
    try:
        subject.settle(key, state, decision)
    except Exception as error:
        subject.drop(key)
        problem = NotSpoken(f"{lane.name}: {key}")
        problem.__cause__ = error
        return problem
    lane.look_again(subject, key, decision.look_again_at)
    return None


async def _load(lane: TurnLane, subject: Subject[Any, Any], key: str) -> Any:
    """Bring the newest rows into the cache, with what is to be decided about them at once."""

    def read(link: Link) -> Any:
        loaded = link.call(partial(_load_key, subject, key))
        # A later statement proves that nobody else has written before the rows were read.
        if link.epochs([lane.name]).get(lane.name, (None, -1))[1] != lane.epoch:
            raise Fenced(lane.name)
        return loaded

    try:
        loaded = await lane.in_thread(read)
    except (ConnectionLost, Fenced, VersionConflict):
        raise
    except Exception as error:
        raise NotLoaded(f"{lane.name}: {key}: {error!r}") from error
    await lane.thawed()
    state, decision = subject.revive(key, loaded, lane.now())
    if not await _conclude(lane, subject, key, state, (), decision):
        raise VersionConflict(f"{key} has to be loaded again")
    state = subject.cached(key)
    if state is None:
        raise VersionConflict(f"{key} left the cache")
    return state


def _load_key(subject: Subject[Any, Any], key: str, connection: Any) -> Any:
    return subject.store.load(connection, key)


async def _conclude(
    lane: TurnLane,
    subject: Subject[Any, Any],
    key: str,
    state: Any,
    events: Sequence[Any],
    decision: Decision[Any, Any],
) -> bool:
    """Write what the decision records, then settle it. False: it is certain that nothing was written."""
    if decision.records and not await _write(lane, subject, key, state, events, decision):
        return False
    if decision.records:
        passing("turn.speak")
    try:
        subject.settle(key, state, decision)
    except Exception as error:
        raise NotSpoken(f"{lane.name}: {key}") from error
    lane.look_again(subject, key, decision.look_again_at)
    if decision.records:
        passing("turn.spoken")
    return True


async def _write(
    lane: TurnLane,
    subject: Subject[Any, Any],
    key: str,
    state: Any,
    events: Sequence[Any],
    decision: Decision[Any, Any],
) -> bool:
    """One transaction; an unknown outcome is looked up, never guessed (leases.md section 4)."""
    if len(decision.records) < MANY_RECORDS:
        entry = subject.entry(key, events, decision)
    else:
        entry = await lane.in_thread(lambda link: subject.entry(key, events, decision))
    row = JournalRow(
        lane.name, lane.seq + 1, uuid.uuid4(), lane.node, key, entry.cause, entry.summary, decision.records
    )
    before = subject.before(key, state)
    held = Held(lane.name, lane.epoch)
    started = time.monotonic()

    def save(connection: Any) -> None:
        subject.store.save(connection, key, before, decision.records)

    try:
        written = await lane.in_thread(lambda link: link.turn(held, save, row))
        offered = written.offered
    except ConnectionLost:
        metrics.unknown_outcomes.inc()
        if not await _was_written(lane, row):
            subject.drop(key)
            return False
        # The list of what it offered was lost with the connection; the owner's sweep finds the items.
        offered = []
    lane.seq = row.seq
    took_ms = (time.monotonic() - started) * 1000
    metrics.turns.labels("written").inc()
    metrics.turn_ms.observe(took_ms)
    metrics.turn_events.observe(len(events))
    log.info(
        "turn",
        lane=lane.name,
        key=key,
        seq=row.seq,
        epoch=lane.epoch,
        turn=str(row.turn_id),
        cause=row.cause,
        events=len(events),
        records=len(decision.records),
        ms=round(took_ms, 2),
    )
    lane.offered(offered)
    return True


async def _was_written(lane: TurnLane, row: JournalRow) -> bool:
    """Take the lease from oneself, which waits for or shuts out the lost transaction; then look for it."""
    while True:
        await lane.take_again()
        try:
            # A statement after the take: one that waited would read the snapshot from before its wait.
            found = await lane.in_thread(lambda link: link.turn_at(row.lane, row.seq))
        except ConnectionLost:
            continue
        return found == row.turn_id
