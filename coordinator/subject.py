"""This room holds the groups of one shard in memory, and says what was decided to their members."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from msgspec import structs

from coordinator.callers import Callers, Orders
from coordinator.cluster_view import ClusterView
from coordinator.core import decide as core
from coordinator.core.draft import GroupDecision, look_again_at
from coordinator.core.events import (
    ClassicAnswer,
    ClassicRequest,
    ConnectionClosed,
    ConnectionId,
    DeletionAnswer,
    GroupEvent,
    HangUp,
    Heard,
    ItemFailed,
    ItemFinished,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    OffsetsOrphaned,
    Say,
    Saying,
    Swept,
    Sync,
    SyncAnswer,
    ToolRequest,
    Waiter,
)
from coordinator.core.expiry import offsets_in
from coordinator.core.memory import ClassicMemory, GroupState, take_over_what_was_heard
from coordinator.core.native import beats
from coordinator.core.native.sessions import LOOKED_AFTER_MAX
from coordinator.core.rebalance import RACK_AWARE, compute, interests
from coordinator.core.settings import GroupSettings
from coordinator.history import History
from coordinator.speech import Speech
from coordinator.store import GroupStore
from groups.core.classic import bytes_of
from groups.core.phases import Phase
from groups.core.records import GroupDeleted, GroupRecord, ItemAdopted
from groups.core.requests import GroupRequest
from groups.core.state import NATIVE, GroupRows
from muster.kernel.decision import Decision
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.member import RegisterConsumerRequest
from muster.messages.partitions import Partition
from runtime.ports import ConnectionLost, Entry, LaneLost, NodeContext, VersionConflict, is_unable
from runtime.turn import GaveUp, is_guilt

logger = logging.getLogger("muster.coordinator")

PHANTOMS_MAX = 64
"""How many groups of a shard may be in memory that no row holds: those whose first Register is under way."""

PINGED_TOGETHER_MS, PINGED_ON_MS = 100, 25
"""After pings the next look is not sooner: in a group of thousands, whose slots come each millisecond, all
that are due by then cost little more than one, and so do their answers. Sooner where more were due.
"""

PINGED_TOGETHER_PART = 60
"""Of the shortest session that is allowed, a third of which is between two pings."""

HASTEN_PINGS_MS = 1_000
"""A shorter stop only delays pings; after a longer one, or many that make as much, members are asked before
their own clocks are over. Not after each hiccup: to go through thousands of members takes milliseconds.
"""

TOPICS_OF_A_WEIGHT = 100
BYTES_OF_A_WEIGHT = 3_000
"""So many topics of a member's subscription, or bytes of a Kafka client's, weigh as much as its event: 100
topics are some 3 kB of journal, and a turn of 3 MB takes a third of a second on a busy machine.
"""

LOOKED_THROUGH_MAX = 200
"""Members, partitions, and topics by patterns, that a group's new owner looks through: half a millisecond."""

Finished = ItemFinished | ItemFailed
Said = (Heard, ConnectionClosed, Leave)
"""What callers wait for in their order, beside Joins and Syncs, which are asked for by type: thousands come
together. A tuple: to ask for a union's members costs three times as much.
"""

_OPEN_PHASES = (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)


class Groups:
    """The cache of one shard, and `runtime.ports.Subject` for its lane."""

    def __init__(
        self,
        node: NodeContext,
        store: GroupStore,
        settings: GroupSettings,
        view: ClusterView,
        callers: Callers,
        orders: Orders,
        speech: Speech,
    ) -> None:
        self.states: dict[str, GroupState] = {}
        self.rebalancing: dict[str, None] = {}
        """Groups in which a rebalance is open, or was when they were loaded last."""
        self._node = node
        self._store = store
        self._settings = settings
        self._view = view
        self._callers = callers
        self._orders = orders
        self._speech = speech
        self._say = speech.say
        part_ms = max(PINGED_ON_MS, settings.group_min_session_timeout_ms // PINGED_TOGETHER_PART)
        self._pinged_together_ms = min(PINGED_TOGETHER_MS, part_ms)
        self._deciding: dict[str, Sequence[GroupEvent]] = {}
        self._turn_over: Callable[[str], None] = lambda key: None
        self._refused: Callable[[GroupRequest], None] = lambda request: None
        self._is_waited_at: Callable[[Waiter], bool] = lambda waiter: True
        self._history: dict[str, History] = {}
        self._still_bound: dict[str, dict[str, ConnectionId]] = {}
        self._failures: dict[str, int] = {}
        """By group whose cache was dropped, how many rebalances in a row have failed by then."""
        self._adopted: dict[str, str] = {}
        self._failed_items: dict[str, ItemFailed] = {}
        """By group, the finished item that no turn could be taken with: it counts as failed."""
        self._phantoms: dict[str, None] = {}
        self._unloaded: set[str] = set()
        self._looked_at: dict[str, GroupRows] = {}
        self._committed_since: dict[str, set[Partition]] | None = None
        self._stood_still_ms = 0
        self._made_up_ms: dict[str, int] = {}
        """By group, how much of that its pings were hastened by; 0 if it is not there."""

    @property
    def store(self) -> GroupStore:
        return self._store

    def cached(self, key: str) -> GroupState | None:
        state = self.states.get(key)
        return None if state is None else self._made_up(key, state)

    def revive(
        self, key: str, loaded: GroupRows, now: Instant
    ) -> tuple[GroupState, Decision[GroupRecord, Saying]]:
        bound = {
            member_id: connection_id
            for member_id, connection_id in self._still_bound.get(key, {}).items()
            if self._is_open(connection_id)
        }
        self._made_up_ms[key] = self._stood_still_ms
        decision = core.load(loaded, now, self._settings, self._view.surroundings(), bound)
        if failures := self._failures.get(key):
            # Else what fails whenever it is written would be computed again without a pause, for ever.
            memory = structs.replace(decision.state.memory, failures=failures)
            decision = replace(decision, state=structs.replace(decision.state, memory=memory))
        return GroupState(loaded), decision

    def preload(self, loaded: GroupRows, now: Instant) -> bool:
        """Take rows that were read in bulk. True if something is to be asked, or put in order, in a turn.

        A turn may have loaded the group after that read: then its state is the newer one.
        """
        if loaded.group_id in self.states:
            return False
        try:
            settled = self._is_settled(loaded)
            state = core.preload(loaded, now, self._settings, self._view.surroundings(), settled=settled)
        except Exception:
            # Rows that nobody writes, or a mistake of ours: the other groups of the shard are served.
            logger.exception("group %s cannot be taken over", loaded.group_id)
            return self.leave_out(loaded.group_id)
        if state is not None:
            self.states[loaded.group_id] = state
            self._note_phase(loaded.group_id, state)
        else:
            self._unloaded.add(loaded.group_id)
        return state is None or look_again_at(state) is not None

    def leave_out(self, key: str) -> bool:
        """A group has rows that could not be read: it is not one that does not exist, and a turn tells so."""
        self._unloaded.add(key)
        return True

    def look_through(self, key: str, rows: GroupRows) -> None:
        """How old these rows are is handed in next: it counts for them alone, whatever their version."""
        self._looked_at[key] = rows

    @contextmanager
    def watching_commits(self) -> Iterator[None]:
        """Meanwhile offsets are looked for in the rows: what is committed by the time of the decision about
        them is newer than what was found.
        """
        self._committed_since = {}
        try:
            yield
        finally:
            self._committed_since = None

    def committed(self, key: str, partitions: Iterable[Partition]) -> None:
        """These offsets of a group are durable."""
        if self._committed_since is not None:
            self._committed_since.setdefault(key, set()).update(partitions)

    def _as_it_is(self, key: str, event: GroupEvent) -> GroupEvent:
        """Without what was committed after it was read: the number may be the same, the partition is not."""
        if isinstance(event, ItemFinished):
            failed = self._failed_items.get(key)
            return event if failed is None or failed.item_id != event.item_id else failed
        if not isinstance(event, OffsetsOrphaned) or not self._committed_since:
            return event
        since = self._committed_since.get(key, ())
        return OffsetsOrphaned(tuple(one for one in event.offsets if one[0] not in since))

    def _is_settled(self, rows: GroupRows) -> bool:
        """Whether a handler would find nothing to do, by the topics as this node knows them.

        If it knows them too late it hears of the change. The loop waits: what is large, or by racks, is left.
        """
        if rows.error or len(rows.members) > LOOKED_THROUGH_MAX or rows.assignor == RACK_AWARE:
            return False
        pairs = len(interests(rows)[1]) * len(self._view.layouts)
        if max(pairs, sum(map(len, rows.owned.values()))) > LOOKED_THROUGH_MAX:
            return False
        return not compute(rows, self._view.layouts, self._view.surroundings().matches).why

    def must_be_loaded(self, key: str) -> bool:
        """True for a group with rows that are not in the cache; of a loaded shard it knows all others."""
        return key in self._unloaded and key not in self.states

    def hear_at_once(self, key: str, event: Heard, now: Instant, *, repair: bool) -> None:
        """A sign of life of a member of a cached group, outside of a turn; see `in_turn`."""
        state = self.states[key]
        quietly = beats.answered(state, event, now, self._settings)
        if quietly is not None:
            self.states[key] = quietly
            return
        decision = core.hear_at_once(
            state, event, now, self._settings, self._view.surroundings(), repair=repair
        )
        self.states[key] = decision.state
        for saying in decision.commands:
            self._say(saying)

    def beat(self, key: str, now: Instant) -> Instant | None:
        state = self.states.get(key)
        if state is None or self.in_turn(key):
            return None
        pinged = beats.ping(self._made_up(key, state), now, self._view.surroundings())
        if pinged is None:
            return None
        self.states[key] = pinged.state
        try:
            for saying in pinged.pings:
                self._say(saying)
        except Exception:
            # As after a turn that could not be spoken: whoever was not asked would be taken for silent.
            logger.exception("members of %s could not be pinged", key)
            self.drop(key)
            return None
        again = look_again_at(pinged.state)
        pause_ms = self._pinged_together_ms if len(pinged.pings) < LOOKED_AFTER_MAX else PINGED_ON_MS
        return None if again is None else max(again, after(now, pause_ms))

    def time_stood_still(self, late_ms: int) -> tuple[str, ...]:
        """Members' own clocks went on meanwhile. Which groups must be asked anew, after the turns that are
        being written; all others are looked after when the lane comes to them.
        """
        self._stood_still_ms += late_ms
        return tuple(key for key in self._deciding if self._behind_ms(key) >= HASTEN_PINGS_MS)

    def postponed(self, key: str, at: Instant) -> Instant | None:
        state = self.states.get(key)
        if state is None or self.in_turn(key):
            return at
        made_up = self._made_up(key, state)
        return at if made_up is state else look_again_at(made_up)

    def _made_up(self, key: str, state: GroupState) -> GroupState:
        """Members are to be asked before their own clocks are over, whatever was given back to the lane."""
        behind_ms = self._behind_ms(key)
        if behind_ms < HASTEN_PINGS_MS:
            return state
        self._made_up_ms[key] = self._stood_still_ms
        if state.rows.protocol == NATIVE:
            state = self.states[key] = beats.hasten(state, behind_ms)
        return state

    def _behind_ms(self, key: str) -> int:
        return self._stood_still_ms - self._made_up_ms.get(key, 0)

    def in_turn(self, key: str) -> bool:
        """While a turn of the group is being written, its state is what the turn was decided on."""
        return key in self._deciding

    def on_turn_over(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the key whenever a turn was spoken, or came to nothing."""
        self._turn_over = listener

    def ask_who_waits(self, is_waited_at: Callable[[Waiter], bool]) -> None:
        """What tools ask is decided only as long as `is_waited_at` says that they wait."""
        self._is_waited_at = is_waited_at

    def on_refused(self, listener: Callable[[GroupRequest], None]) -> None:
        """Call `listener` with each operator's request with which no turn could be taken."""
        self._refused = listener

    def decide(
        self, key: str, state: GroupState, events: Sequence[GroupEvent], now: Instant
    ) -> Decision[GroupRecord, Saying]:
        self._deciding[key] = events
        looked_at = self._looked_at.pop(key, None)
        news = [
            event if type(event) in core.MOST_OF_ALL else self._as_it_is(key, event)
            for event in events
            if type(event) in core.MOST_OF_ALL or self._is_news(key, state, event, looked_at)
        ]
        return core.decide(state, news, now, self._settings, self._view.surroundings())

    def weight(self, event: GroupEvent) -> int:
        if type(event) is Join:
            return 1 + bytes_of(event.protocols) // BYTES_OF_A_WEIGHT
        if type(event) is Heard and isinstance(event.message, RegisterConsumerRequest):
            return 1 + len(event.message.topic_count) // TOPICS_OF_A_WEIGHT
        return 1

    def size(self, key: str) -> int:
        state = self.states.get(key)
        return 0 if state is None else len(state.rows.offsets)

    def _is_news(self, key: str, state: GroupState, event: GroupEvent, looked_at: GroupRows | None) -> bool:
        """A finished item may be read twice before it is adopted, or after its group was deleted; another
        adoption would find no row, and everything that is decided with it would be undone.
        """
        if isinstance(event, Finished):
            return state.rows.handler_asked and event.item_id != self._adopted.get(key)
        if isinstance(event, ToolRequest):
            # Whoever gave up may use it again by the time at which a database that stood still goes on.
            return self._is_waited_at(event.waiter)
        # What was committed since it was looked at is not old; a commit raises no version.
        return not isinstance(event, Swept) or state.rows is looked_at

    def before(self, key: str, state: GroupState) -> GroupRows:
        return state.rows

    def entry(self, key: str, events: Sequence[GroupEvent], decision: Decision[GroupRecord, Saying]) -> Entry:
        history = self._history.get(key)
        if history is None:
            before = self.states.get(key)
            history = self._history[key] = History((before or _state_after(decision)).rows)
        return history.entry(decision.records, _state_after(decision), self._node.now())

    def settle(self, key: str, state: GroupState, decision: Decision[GroupRecord, Saying]) -> None:
        after = _state_after(decision)
        self._still_bound.pop(key, None)
        self._failures.pop(key, None)
        self._unloaded.discard(key)
        if key in self.states:
            take_over_what_was_heard(self.states[key].classic, after.classic)
        for record in decision.records:
            if isinstance(record, ItemAdopted):
                self._adopted[key] = record.item_id
            elif self._committed_since is not None:
                self.committed(key, offsets_in(record))
        if any(isinstance(record, GroupDeleted) for record in decision.records):
            self._forget(key)
        else:
            self.states[key] = after
            self._note_phase(key, after)
            self._forget_phantoms(key, after)
        speech = self._speech
        for saying in (*decision.replies, *decision.commands):
            speech.say(saying)
        if decision.records:
            self._node.wake("group", key)
        self._done(self._deciding.pop(key, ()))
        self._turn_over(key)

    def _note_phase(self, key: str, state: GroupState) -> None:
        if state.rows.phase in _OPEN_PHASES:
            self.rebalancing[key] = None
        else:
            self.rebalancing.pop(key, None)

    def _done(self, events: Sequence[GroupEvent]) -> None:
        """These are durable, or refused: what their callers said after them may go on."""
        for event in events:
            if type(event) is Join or type(event) is Sync or isinstance(event, Said):
                self._orders.done(event.connection)

    def _forget_phantoms(self, key: str, state: GroupState) -> None:
        """A group that exists only because a stranger named it must not stay in our memory."""
        self._phantoms.pop(key, None)
        if state.rows.version == 0:
            self._phantoms[key] = None
            if len(self._phantoms) > PHANTOMS_MAX:
                self._forget(next(iter(self._phantoms)))

    def _forget(self, key: str) -> None:
        self.states.pop(key, None)
        self.rebalancing.pop(key, None)
        self._history.pop(key, None)
        self._adopted.pop(key, None)
        self._failed_items.pop(key, None)
        self._phantoms.pop(key, None)
        self._made_up_ms.pop(key, None)

    def drop(self, key: str) -> None:
        self._deciding.pop(key, None)
        # What it was told last may not have been written.
        self._history.pop(key, None)
        self._made_up_ms.pop(key, None)
        state = self.states.pop(key, None)
        if state is not None:
            self._unloaded.add(key)
            self._still_bound[key] = {member: one for one, member in state.memory.bound.items()}
            if state.memory.failures:
                self._failures[key] = state.memory.failures
            # A load knows of nobody who waits (design 6.3): whoever does is told to come again.
            for parked in _answers_to_all_parked(state.classic, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._say(parked)
        self._turn_over(key)

    def refuse(self, key: str, events: Sequence[GroupEvent], error: Exception) -> None:
        # The lane has told of it, sparingly.
        for event in events:
            if isinstance(event, Heard):
                self._say(HangUp(event.connection, ErrorCode.UNKNOWN_SERVER_ERROR, ""))
            elif isinstance(event, ClassicRequest | ToolRequest):
                self._say(Say(event.connection, refusal(event, error_of(error))))
            elif isinstance(event, GroupRequest):
                self._refused(event)
            elif isinstance(event, ItemFinished) and is_guilt(error):
                why = f"what it computed could not be used: {type(error).__name__}"
                self._failed_items[key] = ItemFailed(event.item_id, why)
        self._done(events)

    def forget(self) -> None:
        """The shard was given up: another node's cache is the one that counts."""
        self.states.clear()
        self.rebalancing.clear()
        self._history.clear()
        self._still_bound.clear()
        self._failures.clear()
        self._adopted.clear()
        self._failed_items.clear()
        self._phantoms.clear()
        self._unloaded.clear()
        self._looked_at.clear()
        self._committed_since = None
        self._deciding.clear()
        self._stood_still_ms = 0
        self._made_up_ms.clear()

    def _is_open(self, connection_id: ConnectionId) -> bool:
        caller = self._callers.get(connection_id)
        return caller is not None and not caller.closing


def _state_after(decision: Decision[Any, Any]) -> GroupState:
    assert isinstance(decision, GroupDecision)
    return decision.state


def refusal(event: ClassicRequest | ToolRequest, error: ErrorCode) -> ClassicAnswer:
    """What answers a Kafka client's request that is not decided."""
    if isinstance(event, Join):
        return JoinAnswer(event.waiter, error, event.member_id)
    if isinstance(event, Sync):
        return SyncAnswer(event.waiter, error)
    if isinstance(event, Leave):
        return LeaveAnswer(event.waiter, error)
    return DeletionAnswer(event.waiter, error)


def error_of(problem: Exception) -> ErrorCode:
    """What a Kafka client hears when nothing was written (conformance 9 to 11, 151)."""
    if isinstance(problem, LaneLost):
        return ErrorCode.NOT_COORDINATOR
    if isinstance(problem, GaveUp | VersionConflict | ConnectionLost) or is_unable(problem):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _answers_to_all_parked(memory: ClassicMemory, error: ErrorCode) -> Iterator[Say]:
    for member_id, parked in memory.joins.items():
        yield Say(parked.connection, JoinAnswer(parked.waiter, error, member_id))
    for parked in memory.syncs.values():
        yield Say(parked.connection, SyncAnswer(parked.waiter, error))
