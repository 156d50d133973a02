"""This room runs the controller while this node holds its lease: links in, turns, frames out, duties.

The rules are `controller.core`'s; the lane writes (design chapters 4.1, 4.2, 7). Everything here runs on the
node's loop and returns at once; SQL waits in `NodeContext.query` or in the lane.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec
import structlog

from controller import configuration, journalling, store
from controller.configuration import ServiceSettings
from controller.core import creation
from controller.core import decide as core
from controller.core import events as told
from controller.core.decide import ClusterDecision
from controller.core.proposing import LeaderProposal, Task
from controller.core.records import ClusterRecord
from controller.core.state import ClusterRows, ClusterState, Memory
from controller.enrolment import Enrolment
from controller.links import BrokerLink
from controller.pace import LinkPace, ProgressNotes
from muster.kernel.decision import Decision
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterPartition,
    BrokerHello,
    BrokerPing,
    CreateTopics,
    FromBroker,
)
from muster.messages.link.rows import NodeRow
from muster.messages.link.to_broker import BrokerPingAnswer, Changes, NotController, SnapshotChunk
from runtime import work
from runtime.ports import (
    CONTROLLER_LANE,
    ConnectionLost,
    Entry,
    Lane,
    LaneLost,
    LaneService,
    NodeContext,
)
from runtime.turn import NotSpoken

log = structlog.get_logger(__name__)

CLUSTER: Final = "cluster"
"""The one key of the controller's lane."""

PROGRESS_INTERVAL_MS: Final = 1_000
ENROLMENT_INTERVAL_MS: Final = 10_000
RELOAD_AT_MOST_EVERY_MS: Final = 500
"""A wrong secret makes this node read the hashes again, but not more often."""

HANDED_IN_KEPT: Final = 1_000
"""Work items of which it is remembered that the lane has them."""

LONG_QUIET_MS: Final = 1 << 40


def build(node: NodeContext) -> Mapping[str, LaneService]:
    """The services of this room, by the name of their lane."""
    return {CONTROLLER_LANE: ControllerService(node, configuration.from_environment())}


class ControllerService:
    """LaneService of the lane `controller`, the Subject of its turns, and what the broker door asks."""

    def __init__(self, node: NodeContext, settings: ServiceSettings) -> None:
        self._node = node
        self._settings = settings
        self._lane: Lane | None = None
        self._state: ClusterState | None = None
        self._memory: Memory | None = None
        self._links: dict[BrokerLink, LinkPace] = {}
        self._accepts = False
        self._enrolment = Enrolment()
        self._enrolment_at = Instant(-ENROLMENT_INTERVAL_MS)
        self._progress = ProgressNotes()
        self._handed_in: dict[str, None] = {}
        self._moved_at = Instant(0)
        self._tasks: set[asyncio.Task[None]] = set()
        self.store = store.ControllerStore()

    # ------------------------------------------------------------------------------ LaneService

    async def accept(self, lane: Lane) -> None:
        """Load; every registered broker counts as just heard; links are bound from now on."""
        self._forget()
        self._lane = lane
        await self._load_enrolment()
        # The cache is empty, so this turn loads the rows and takes over (replication.md, takeover).
        await lane.submit_turn(self, CLUSTER)
        self._accepts = self._lane is lane
        log.info("controller accepts links", epoch=lane.epoch)

    async def wind_down(self) -> None:
        """Bind no new link; what was told so far is still decided."""
        self._accepts = False

    async def give_up(self, new_owner: str | None) -> None:
        """Send every broker to the next controller and forget everything."""
        links = list(self._links)
        self._forget()
        for link in links:
            link.say(NotController(controller_address=new_owner or ""))
            link.hang_up("this node is not the controller any more")

    def _forget(self) -> None:
        self._accepts = False
        self._lane = self._state = self._memory = None
        self._links.clear()
        self._handed_in.clear()
        self._progress = ProgressNotes()

    def freeze(self) -> None:
        """Nothing to do: the lane decides nothing, so nothing is said; pings are answered when it thaws."""

    def thaw(self, late_ms: int) -> None:
        if self._memory is not None:
            core.postpone(self._memory, late_ms)

    def tick(self, now: Instant) -> None:
        for link, pace in self._links.items():
            if pace.is_late(now, self._settings.ack_timeout_ms):
                log.error("broker is behind", broker=link.broker_id, link=link.number, **pace.figures(now))
                link.hang_up("controller.ack.timeout.ms is over")
        if self._progress.is_due(now, PROGRESS_INTERVAL_MS):
            self._start(self._note_progress())
        if elapsed_ms(self._enrolment_at, now) >= ENROLMENT_INTERVAL_MS:
            self._enrolment_at = now
            self._start(self._load_enrolment())

    def woken(self, name: str, key: str) -> None:
        if not self._accepts:
            return
        if name == "work":
            kind, _, item_key = key.partition(" ")
            if kind in set(Task):
                self._start(self._hand_in_finished(kind, item_key))

    def quiet_ms(self, now: Instant) -> int:
        return elapsed_ms(self._moved_at, now) if self._links else LONG_QUIET_MS

    # ------------------------------------------------------------------------------ the door

    @property
    def knows_secrets(self) -> bool:
        """False until enrolment was read (links.Controller)."""
        return self._enrolment.is_loaded

    @property
    def accepts_links(self) -> bool:
        return self._accepts and not self._node.frozen

    async def admits(self, broker_id: int, secret: str) -> bool:
        """True if this is the secret of an enrolled broker; a fresh enrolment is seen within 0.5 s."""
        if self._enrolment.admits(broker_id, secret):
            return True
        if elapsed_ms(self._enrolment_at, self._node.now()) < RELOAD_AT_MOST_EVERY_MS:
            return False
        self._enrolment_at = self._node.now()
        await self._load_enrolment()
        return self._enrolment.admits(broker_id, secret)

    async def controller_address(self) -> str:
        return self._node.owner_address(CONTROLLER_LANE) or ""

    def link_opened(self, link: BrokerLink, hello: BrokerHello) -> None:
        self._links[link] = LinkPace()
        self._tell(told.Hello(link, hello))

    def link_heard(self, link: BrokerLink, frame: FromBroker) -> None:
        match frame:
            case BrokerPing():
                self._pinged(link, frame)
            case AlterPartition():
                self._tell(told.Proposed(link, frame))
            case CreateTopics():
                self._tell(told.TopicsWanted(link, frame, tuple(uuid4() for _ in frame.topics)))
            case AllocateProducerIds():
                self._tell(told.ProducerIdsWanted(link, frame))
            case BrokerHello():
                link.hang_up("a second hello")

    def link_closed(self, link: BrokerLink) -> None:
        if self._links.pop(link, None) is not None and self._lane is not None:
            self._tell(told.LinkClosed(link))

    def _pinged(self, link: BrokerLink, ping: BrokerPing) -> None:
        """Liveness takes no turn: sessions are memory of the owner. A frozen node answers nothing."""
        now = self._node.now()
        pace = self._links.get(link)
        if self._memory is None or pace is None or self._node.frozen:
            return
        if not core.heard(self._memory, link, now, self._settings.core):
            return
        pace.applied(ping.metadata_version)
        self._progress.add(ping.high_watermarks)
        nodes = tuple(NodeRow(node.node, node.address) for node in self._node.live_nodes())
        link.say(BrokerPingAnswer(number=ping.number, nodes=nodes))

    def _tell(self, event: told.Event) -> None:
        """Queue an event for the next turn; without a lane nobody decides, and links are hung up."""
        self._moved_at = self._node.now()
        try:
            if self._lane is None:
                raise LaneLost("not the controller")
            self._lane.hand_in(self, CLUSTER, event)
        except LaneLost:
            link = getattr(event, "link", None)
            if isinstance(link, BrokerLink):
                link.hang_up("this node is not the controller any more")

    # ------------------------------------------------------------------------------ Subject

    def cached(self, key: str) -> ClusterState | None:
        return self._state

    def revive(
        self, key: str, loaded: ClusterRows, now: Instant
    ) -> tuple[ClusterState, Decision[ClusterRecord, told.Saying]]:
        """Rows as stored, and the memory of this owner; without one this is a takeover."""
        if self._memory is not None:
            return ClusterState(loaded, self._memory), ClusterDecision(memory=self._memory)
        state = ClusterState(loaded)
        epoch = self._lane.epoch if self._lane is not None else 0
        return state, core.decide(state, [told.TookOver(epoch)], now, self._settings.core)

    def decide(
        self, key: str, state: ClusterState, events: Sequence[told.Event], now: Instant
    ) -> Decision[ClusterRecord, told.Saying]:
        return core.decide(state, events, now, self._settings.core)

    def before(self, key: str, state: ClusterState) -> ClusterRows:
        return state.rows

    def entry(
        self, key: str, events: Sequence[told.Event], decision: Decision[ClusterRecord, told.Saying]
    ) -> Entry:
        return journalling.entry(events, decision.records)

    def settle(self, key: str, state: ClusterState, decision: Decision[ClusterRecord, told.Saying]) -> None:
        """It is durable: keep it, then say replies, then commands, then wake whoever reads these rows."""
        assert isinstance(decision, ClusterDecision)
        core.settle(state, decision)
        self._state, self._memory = state, state.memory
        now = self._node.now()
        for saying in (*decision.replies, *decision.commands):
            self._speak(saying, now)
        for name in journalling.wake_names(decision.records):
            self._node.wake(name, str(state.rows.metadata_version))

    def drop(self, key: str) -> None:
        """The rows may differ from the database's; sessions and links stay what they are."""
        self._state = None

    def refuse(self, key: str, events: Sequence[told.Event], error: Exception) -> None:
        """Nothing of `events` was written, but for NotSpoken: then any link may lack what was."""
        log.error("events could not be decided", events=[type(e).__name__ for e in events], exc_info=error)
        if isinstance(error, NotSpoken):
            for link in tuple(self._links):
                link.hang_up("our own mistake")
        self._begin_adopting_anew()
        for event in events:
            match event:
                case told.ProposalsReady():
                    self._handed_in.pop(str(event.item_id), None)
                case told.TopicsWanted():
                    # What the database finds too large it finds so again: hanging up would help nobody.
                    self._speak(creation.not_written(event), self._node.now())
                case told.Hello() | told.LinkClosed() | told.Proposed() | told.ProducerIdsWanted():
                    self._speak(told.HangUp(event.link, "our own mistake"), self._node.now())

    def _begin_adopting_anew(self) -> None:
        """What one turn left to the next may be what spoils it: the desk brings it again by itself."""
        if self._memory is not None:
            for event in self._memory.adopting:
                self._handed_in.pop(str(event.item_id), None)
            self._memory.adopting = []

    def _speak(self, saying: told.Saying, now: Instant) -> None:
        link = saying.link
        assert isinstance(link, BrokerLink)
        match saying:
            case told.Say():
                if isinstance(saying.frame, Changes | SnapshotChunk):
                    pace = self._links.get(link)
                    if pace is not None:
                        pace.said(saying.frame.metadata_version, now)
                link.say(saying.frame)
            case told.HangUp():
                link.hang_up(saying.reason)

    # ------------------------------------------------------------------------------ duties

    def _start(self, duty: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(duty)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a duty of the controller failed", exc_info=error)

    async def _load_enrolment(self) -> None:
        try:
            self._enrolment = await self._node.query(Enrolment.load)
        except ConnectionLost:
            log.warning("secrets of brokers not read again: no database")

    async def _note_progress(self) -> None:
        noted = self._progress.take(self._node.now())
        try:
            await self._node.query(lambda connection: store.note_progress(connection, noted))
        except ConnectionLost:
            self._progress.give_back(noted)
        else:
            self._progress.done()
            self._node.wake("progress")

    async def _hand_in_finished(self, kind: str, key: str) -> None:
        """Hand finished work items to the lane, each once: the lane keeps it until it is adopted."""
        lane = self._lane
        if lane is None:
            return
        try:
            finished = await lane.read(lambda connection: work.finished(connection, kind, [key]))
        except LaneLost:
            return
        for item in finished:
            if item.id in self._handed_in:
                continue
            self._handed_in[item.id] = None
            if len(self._handed_in) > HANDED_IN_KEPT:
                self._handed_in.pop(next(iter(self._handed_in)))
            # A computation that failed proposes nothing; the turn then decides by itself.
            proposals = msgspec.convert(item.result or [], tuple[LeaderProposal, ...])
            self._tell(told.ProposalsReady(item.id, Task(item.kind), item.key, proposals))
