"""This room holds the cluster in memory while this node is its controller, and says what was decided.

The rules are `controller.core`'s; the lane writes (design chapters 4.1, 4.2). Everything here runs on the
node's loop and returns at once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from controller import journalling
from controller.core import events as told
from controller.core import leaving, reassignment
from controller.core import turn as core
from controller.core.draft import ClusterDecision
from controller.core.records import BrokerUnregistered, ClusterRecord
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, ClusterState, Memory
from controller.links import BrokerLink
from controller.pace import LinkPace
from controller.store import ControllerStore
from muster.kernel.decision import Decision
from muster.kernel.instants import Instant, after
from muster.messages import codec
from muster.messages.link.callers import CallerRow, frames_of
from muster.messages.link.condition import Condition
from muster.messages.link.from_broker import Wish
from muster.messages.link.rows import BrokerRow
from muster.messages.link.to_broker import Changes, Nodes, SnapshotChunk, ToBroker, WishAnswer
from runtime.ports import Entry, Lane, NodeContext, is_unable
from runtime.turn import MANY_RECORDS, GaveUp, NotSpoken, is_guilt

log = structlog.get_logger(__name__)

CLUSTER: Final = "cluster"
"""The one key of the controller's lane."""

HANDED_IN_KEPT: Final = 1_000
"""Work items of which it is remembered that the lane has them, or that they failed here."""

MOVES_REST_MS: Final = 30_000
"""After a turn without any event has failed plans and moves are left alone for so long."""


Unanswered = Callable[[str, WishAnswer | None], None]
"""Takes a request that no turn can be taken with, and what is to be said to it, if anything is."""


class Cluster:
    """The cache of the controller's lane, and `runtime.ports.Subject` for it."""

    def __init__(
        self,
        node: NodeContext,
        settings: ControllerSettings,
        unanswered: Unanswered = lambda *_: None,
        unregistered: Callable[[int], None] = lambda _: None,
        late: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`late` takes a request that a turn was not taken for, and that may have no answer yet."""
        self.links: dict[BrokerLink, LinkPace] = {}
        self.memory: Memory | None = None
        """Sessions and who waits; stays when the rows have to be read again."""
        self.lane: Lane | None = None
        """The queue of the lease while this node holds it."""
        self._node = node
        self._settings = settings
        self._unanswered = unanswered
        self._unregistered = unregistered
        self._late = late
        self._state: ClusterState | None = None
        self._handed_in: dict[str, None] = {}
        self._failed_items: dict[str, str] = {}
        """Finished work that no turn could be taken with, and what became of that."""
        self._moves_rest_until: Instant | None = None
        self._failed_alone = 0
        """How many turns without events have failed since one was written, or had nothing to write."""
        self._is_decided = False
        self._not_waiting: set[str] = set()
        """Requests that the turn in the making may not be taken for: they are answered, or withdrawn."""
        self._wishing: list[tuple[told.LinkId, Instant | None]] = []
        """The links on which something was wished that the turn in the making decides, and until when."""
        self._store = ControllerStore(self._not_waiting.update, self._is_wished)

    @property
    def store(self) -> ControllerStore:
        return self._store

    def cached(self, key: str) -> ClusterState | None:
        return self._state

    def revive(
        self, key: str, loaded: ClusterRows, now: Instant
    ) -> tuple[ClusterState, Decision[ClusterRecord, told.Saying]]:
        """Rows as stored, and the memory of this owner; without one this is a takeover."""
        if self.memory is not None:
            state = ClusterState(loaded, self.memory)
            return state, ClusterDecision(rows=loaded, memory=self.memory)
        state = ClusterState(loaded)
        epoch = self.lane.epoch if self.lane is not None else 0
        return state, self._decided(state, [told.TookOver(epoch)], now)

    def bound_to(self, link: BrokerLink) -> BrokerRow | None:
        """The broker whose session this link keeps, as it is stored."""
        if self.memory is None or self._state is None or self.memory.broker_of(link) is None:
            return None
        return self._state.rows.brokers.get(link.broker_id)

    @property
    def registered(self) -> Iterable[int]:
        """The brokers of the cluster, as last read."""
        return self._state.rows.brokers if self._state is not None else ()

    def version_of_topic(self, name: str) -> int | None:
        """The version of this topic's row; None: it is not known, or there is no such topic."""
        topics = self._state.rows.topics.values() if self._state is not None else ()
        return next((one.version for one in topics if one.name == name), None)

    def decide(
        self, key: str, state: ClusterState, events: Sequence[told.Event], now: Instant
    ) -> Decision[ClusterRecord, told.Saying]:
        wanted = self._wanted(events, now)
        state.memory.altering = [one for one in state.memory.altering if self._is_awaited(one.link)]
        going_on = (one.link for one in state.memory.altering)
        self._wishing += [(link, None) for link in going_on if not isinstance(link, told.RequestSeat)]
        decision = self._decided(state, wanted, now)
        self._is_decided = True
        return decision

    def _decided(self, state: ClusterState, events: Sequence[told.Event], now: Instant) -> ClusterDecision:
        until = self._moves_rest_until
        if until is None or until <= now:
            return core.decide(state, events, now, self._settings)
        decision = core.decide(state, events, now, self._settings, moves_rest=True)
        return replace(decision, look_again_at=min(until, decision.look_again_at or until))

    def _is_awaited(self, link: told.LinkId) -> bool:
        """False if a wish of before was withdrawn, or answered, or its link is gone: it goes no further."""
        if isinstance(link, told.RequestSeat):
            return link.id not in self._not_waiting
        return link in self.links

    def _wanted(self, events: Sequence[told.Event], now: Instant) -> Sequence[told.Event]:
        """Without requests that were withdrawn, or answered, since they were read, and each of them once.

        Nor what was wished on a link that is gone, or that nobody waits for any more: the broker has told
        whoever asked that nobody knows, and where the database stood still that was long ago. What brokers
        say of themselves still counts.
        """
        wanted, seen = [], set(self._not_waiting)
        self._wishing = []
        for event in events:
            seat = getattr(event, "link", None)
            if isinstance(seat, told.RequestSeat):
                if seat.id in seen:
                    continue
                seen.add(seat.id)
            elif isinstance(event, told.Heard) and isinstance(event.frame, Wish):
                if event.link not in self.links or (event.until is not None and event.until < now):
                    continue
                self._wishing.append((event.link, event.until))
            wanted.append(event)
        return wanted

    def _is_wished(self) -> bool:
        """Asked in the lane's thread, before the commit."""
        now = self._node.now()
        return all(link in self.links and (until is None or now <= until) for link, until in self._wishing)

    def weight(self, event: told.Event) -> int:
        return core.weight(event)

    def beat(self, key: str, now: Instant) -> Instant | None:
        """The controller does nothing by the clock that need not be written, or said to all."""
        return None

    def postponed(self, key: str, at: Instant) -> Instant | None:
        """It asks nobody by the clock: all that it waits for was given the time back."""
        return at

    def before(self, key: str, state: ClusterState) -> ClusterRows:
        return state.rows

    def entry(
        self, key: str, events: Sequence[told.Event], decision: Decision[ClusterRecord, told.Saying]
    ) -> Entry:
        assert isinstance(decision, ClusterDecision)
        # Of a large turn beside the loop, and always before the write: what does not fit the rows fails here.
        _ = decision.state
        if len(decision.records) >= MANY_RECORDS:
            _ = decision.texts
        # Who asked for what a turn goes on with is told by each of them.
        altering = self.memory.altering if self.memory is not None else ()
        going_on = [told.Heard(one.link, one.frame, one.fresh) for one in altering]
        return journalling.entry((*going_on, *events), decision.records)

    def settle(self, key: str, state: ClusterState, decision: Decision[ClusterRecord, told.Saying]) -> None:
        """It is durable: keep it, then say replies, then commands, then wake whoever reads these rows."""
        assert isinstance(decision, ClusterDecision)
        self._state, self.memory = decision.state, decision.state.memory
        if self._is_decided:
            # What was only loaded says nothing: it is what comes next that fails.
            self._is_decided, self._failed_alone = False, 0
        for request_id in self._not_waiting:
            self._late(request_id)
        self._not_waiting.clear()
        self._wishing = []
        for record in decision.records:
            if isinstance(record, BrokerUnregistered):
                self._unregistered(record.broker_id)
        now, encode = self._node.now(), decision.texts.encode
        for saying in (*decision.replies, *decision.commands):
            self._speak(saying, now, encode)
        for name in journalling.wake_names(decision.records):
            self._node.wake(name, str(decision.state.rows.metadata_version))

    def drop(self, key: str) -> None:
        """The rows may differ from the database's; sessions and links stay what they are."""
        self._state, self._is_decided = None, False
        self._wishing = []

    def refuse(self, key: str, events: Sequence[told.Event], error: Exception) -> None:
        """Nothing of `events` was written, but for NotSpoken: then any link may lack what was."""
        log.error("events could not be decided", events=[type(e).__name__ for e in events], exc_info=error)
        if isinstance(error, NotSpoken):
            self._hang_up_on_all()
        why = self._why(error)
        if not events or not is_guilt(error):
            # Else it is known that without these events a turn succeeds.
            self._begin_adopting_anew()
            self._end_altering(why)
        if not events and is_guilt(error):
            self._go_on_without_what_fails_by_itself()
        for event in events:
            if isinstance(event, told.ProposalsReady | told.PlanComputed):
                self._refuse_item(str(event.item_id), why if is_guilt(error) else "")
            elif isinstance(seat := getattr(event, "link", None), told.RequestSeat):
                saying = core.not_written(event, why)
                frame = saying.frame if isinstance(saying, told.Say) else None
                self._unanswered(seat.id, frame if isinstance(frame, WishAnswer) else None)
            elif (saying := core.not_written(event, why)) is not None:
                self._speak(saying, self._node.now())

    def _go_on_without_what_fails_by_itself(self) -> None:
        """A turn without events has failed, and so would any: nothing could be asked and nobody elected."""
        self._moves_rest_until = after(self._node.now(), MOVES_REST_MS)
        self._failed_alone += 1
        if self._failed_alone > 1:
            # It was not the moves. As a new owner would: sessions begin in full, and brokers say all again.
            self._failed_alone, self.memory = 0, None
            self._hang_up_on_all()

    def _hang_up_on_all(self) -> None:
        for link in tuple(self.links):
            link.hang_up("our own mistake")

    def _why(self, error: Exception) -> str:
        """What an operator is told, and what helps."""
        if isinstance(error, GaveUp):
            return "the database did not take it in time: ask for less at once, or later"
        name, node = type(error).__name__, self._node.node
        if is_unable(error):
            return f"the database cannot write now ({name}): look after it, then ask again"
        return f"this failed by a mistake of ours ({name}), and would again; the log of {node} says how"

    def _refuse_item(self, item_id: str, why: str) -> None:
        """The desk brings it again: if it is guilty, as work that failed."""
        self._handed_in.pop(item_id, None)
        if why:
            self._failed_items[item_id] = why
            if len(self._failed_items) > HANDED_IN_KEPT:
                self._failed_items.pop(next(iter(self._failed_items)))

    def _begin_adopting_anew(self) -> None:
        """What one turn left to the next may be what spoils it: the desk brings it again by itself."""
        if self.memory is not None:
            events = [one.event.item_id for one in self.memory.adopting]
            for item_id in (*events, *(one.event.item_id for one in self.memory.adding_steps)):
                self._handed_in.pop(str(item_id), None)
            self.memory.adopting, self.memory.adding_steps = [], []

    def _end_altering(self, why: str) -> None:
        """Requests that turns go on with: what is not done of them is not, and whoever asked is told."""
        if self.memory is not None:
            altering, self.memory.altering = self.memory.altering, []
            for one in altering:
                answer = reassignment.not_written(one.frame, why, one.results)
                if isinstance(one.link, told.RequestSeat):
                    self._unanswered(one.link.id, answer)
                else:
                    self._speak(told.Say(one.link, answer), self._node.now())

    def _speak(
        self, saying: told.Saying, now: Instant, encode: Callable[[ToBroker], bytes] = codec.encode
    ) -> None:
        link = saying.link
        assert isinstance(link, BrokerLink)
        match saying:
            case told.Say():
                if isinstance(saying.frame, Changes | SnapshotChunk):
                    pace = self.links.get(link)
                    if pace is not None:
                        pace.said(saying.frame.metadata_version, now)
                link.say(saying.frame, encode)
            case told.HangUp():
                link.hang_up(saying.reason)

    # ------------------------------------------------------------------------------ for the service

    def is_first(self, item_id: str) -> bool:
        """True once for each finished work item: the lane keeps it until it is adopted."""
        if item_id in self._handed_in:
            return False
        self._handed_in[item_id] = None
        if len(self._handed_in) > HANDED_IN_KEPT:
            self._handed_in.pop(next(iter(self._handed_in)))
        return True

    def why_failed(self, item_id: str) -> str:
        """Why no turn could be taken with this finished work; empty: none has failed with it."""
        return self._failed_items.get(item_id, "")

    def heard(self, link: BrokerLink, metadata_version: int, condition: Condition | None) -> bool:
        """A ping: liveness takes no turn, sessions are memory of the owner. False: nobody's link."""
        pace, now = self.links.get(link), None if self._node.frozen else self._node.now()
        if self.memory is None or pace is None:
            return False
        if not core.heard(self.memory, link, metadata_version, now, self._settings, condition):
            return False
        pace.applied(metadata_version)
        return True

    @property
    def lets_somebody_go(self) -> bool:
        """True if the last ping was what a broker that leaves still waited for: a turn says so."""
        return self.memory is not None and leaving.is_anybody_released(self.memory)

    def tell_nodes(self, nodes: Nodes) -> None:
        """Say to each bound link who the nodes are and what they coordinate, if it was told another."""
        for link, pace in self.links.items():
            if pace.nodes != nodes and self.memory is not None and self.memory.broker_of(link) is not None:
                pace.nodes = nodes
                link.say(nodes)

    def tell_callers(self, callers: tuple[CallerRow, ...] | None) -> None:
        """Say to each bound link who may come in, if it was told another; None: it is not known here."""
        if callers is None:
            return
        for link, pace in self.links.items():
            others = pace.callers is not callers and pace.callers != callers
            if others and self.memory is not None and self.memory.broker_of(link) is not None:
                pace.callers = callers
                for frame in frames_of(callers):
                    link.say(frame)

    def postpone(self, by_ms: int) -> None:
        """Time stood still: that was nobody's silence."""
        if self.memory is not None:
            core.postpone(self.memory, by_ms)

    def forget(self) -> None:
        """The lease was given up: another node's cache is the one that counts."""
        self.lane = self._state = self.memory = None
        self.links.clear()
        self._handed_in.clear()
        self._failed_items.clear()
        self._moves_rest_until = None
        self._failed_alone = 0
