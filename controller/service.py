"""This room runs the controller while this node holds its lease: it takes links in and does the duties.

What happens goes to the lane as events of `controller.subject` (design chapters 4.1, 4.2, 7). Everything here
runs on the node's loop and returns at once; SQL waits in `NodeContext.query` or in the lane.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid4

import msgspec
import structlog

from controller import configuration, store, store_conditions, store_moves
from controller.configuration import ServiceSettings
from controller.core import events as told
from controller.core.plans import COMPUTE_PLAN
from controller.core.proposing import LeaderProposal, Task
from controller.core.requests import KIND as REQUEST
from controller.core.requests import Asked
from controller.enrolment import Enrolment
from controller.heard import BrokersHeard
from controller.links import BrokerLink
from controller.pace import ArrivalNotes, ConditionNotes, LinkPace, ProgressNotes
from controller.presence import Presence
from controller.subject import CLUSTER, Cluster
from kafkaserver.admin.asking import ANSWER_GRACE_S, waits_s
from muster.kernel.instants import Instant, after, elapsed_ms
from muster.kernel.topology import Unread
from muster.messages.link.from_broker import (
    BrokerHello,
    BrokerPing,
    FromBroker,
    LookForCaller,
    RemovePartitions,
    Wish,
)
from muster.messages.link.rows import REPLICATION_LISTENER, BrokerRow, NodeRow
from muster.messages.link.to_broker import (
    BrokerPingAnswer,
    CallerLookedFor,
    Nodes,
    NotController,
    ReassignmentResult,
)
from runtime import work
from runtime.inbox import RequestInbox
from runtime.making_way import Heard
from runtime.ports import (
    CONTROLLER_LANE,
    SHARD_COUNT,
    Connection,
    ConnectionLost,
    Lane,
    LaneLost,
    LaneService,
    NodeContext,
    shard_lane,
)
from runtime.requests import WITHDRAWN
from runtime.work_table import FinishedItem, RequestRow

log = structlog.get_logger(__name__)

PROGRESS_INTERVAL_MS: Final = 1_000
ENROLMENT_INTERVAL_MS: Final = 10_000
RELOAD_AT_MOST_EVERY_MS: Final = 500
"""A wrong secret makes this node read the hashes again, but not more often."""

LONG_QUIET_MS: Final = 1 << 40

LOOKS_OF_ONE_LINK: Final = 100
"""So many callers are looked for at once for one broker; for more than a door lets wait none asks."""
LOOK_INTERVAL_S: Final = 0.02
ENDS_TIMEOUT_S: Final = 2.0
"""For so long at most every linked broker is waited for to say how far its logs are."""
AGAIN_S: Final = 0.5
"""After which a question is put again to a database that was away."""

FindUnread: TypeAlias = Callable[[Connection, str, int], Sequence[Unread]]
"""What groups have not read of a topic's partitions from this one on."""


def build(node: NodeContext, find_unread: FindUnread) -> Mapping[str, LaneService]:
    """The services of this room, by the name of their lane. Who knows of groups is told: they are above."""
    return {CONTROLLER_LANE: ControllerService(node, configuration.from_environment(), find_unread)}


class ControllerService:
    """LaneService of the lane `controller`, and what the broker door asks."""

    def __init__(self, node: NodeContext, settings: ServiceSettings, find_unread: FindUnread) -> None:
        self._node = node
        self._settings = settings
        self._find_unread = find_unread
        self._requests = RequestInbox(REQUEST, self._asked, node)
        late = partial(self._requests.give_up, why=WITHDRAWN)
        self.cluster = Cluster(node, settings.core, self._requests.give_up, self._revoke, late)
        self._accepts = False
        self._enrolment = Enrolment()
        self._enrolment_at = Instant(-ENROLMENT_INTERVAL_MS)
        self._enrolment_is_of: Instant | None = None
        """When the read began that brought it."""
        self._reading_enrolment = 0
        self._revoked = 0
        """How many brokers were unregistered here."""
        self._progress = ProgressNotes()
        self._conditions = ConditionNotes()
        self._arrivals = ArrivalNotes()
        self._moved_at = Instant(0)
        self._presence = Presence()
        self._heard = BrokersHeard()
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------------------ LaneService

    async def accept(self, lane: Lane) -> None:
        """Load; every registered broker counts as just heard; links are bound from now on."""
        self._forget()
        self.cluster.lane = lane
        await self._load_enrolment()
        # The cache is empty, so this turn loads the rows and takes over (replication.md, takeover).
        await lane.submit_turn(self.cluster, CLUSTER)
        self._accepts = self.cluster.lane is lane
        log.info("controller accepts links", epoch=lane.epoch)

    async def wind_down(self) -> None:
        """Bind no new link; what was told so far is still decided."""
        self._accepts = False

    async def give_up(self, new_owner: str | None) -> None:
        """Send every broker to the next controller and forget everything."""
        links = list(self.cluster.links)
        self._forget()
        for link in links:
            link.say(NotController(controller_address=new_owner or ""))
            link.hang_up("this node is not the controller any more")

    def _forget(self) -> None:
        self._accepts = False
        self._requests.forget()
        self.cluster.forget()
        self._progress = ProgressNotes()
        self._conditions = ConditionNotes()
        self._arrivals = ArrivalNotes()

    def freeze(self) -> None:
        """Nothing to do: the lane decides nothing, so nothing is said; pings are answered when it thaws."""

    def thaw(self, late_ms: int) -> None:
        self.cluster.postpone(late_ms)

    def tick(self, now: Instant) -> None:
        self.cluster.tell_nodes(nodes_and_owners(self._node))
        self.cluster.tell_callers(self._node.kafka_callers)
        for link, pace in self.cluster.links.items():
            if pace.is_late(now, self._settings.ack_timeout_ms):
                log.error("broker is behind", broker=link.broker_id, link=link.number, **pace.figures(now))
                link.hang_up("controller.ack.timeout.ms is over")
        if self._progress.is_due(now, PROGRESS_INTERVAL_MS):
            self._start(self._note_progress())
        if self._conditions.is_due(now, PROGRESS_INTERVAL_MS):
            self._start(self._note_conditions())
        if self._arrivals.is_due(now, PROGRESS_INTERVAL_MS):
            self._start(self._note_arrivals())
        self._read_enrolment_again(now)

    def woken(self, name: str, key: str) -> None:
        if not self._accepts:
            return
        if name == "work":
            kind, _, item_key = key.partition(" ")
            if kind == REQUEST and self.cluster.lane is not None:
                self._requests.look(self.cluster.lane, item_key)
            elif kind == COMPUTE_PLAN or kind in set(Task):
                self._start(self._hand_in_finished(kind, item_key))

    def quiet_ms(self, now: Instant) -> int:
        return elapsed_ms(self._moved_at, now) if self.cluster.links else LONG_QUIET_MS

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
            self._read_enrolment_again(self._node.now())
            return True
        # While the database stands still, strangers would leave two reads a second with it.
        if (
            self._reading_enrolment
            or elapsed_ms(self._enrolment_at, self._node.now()) < RELOAD_AT_MOST_EVERY_MS
        ):
            return False
        self._enrolment_at = self._node.now()
        await self._load_enrolment()
        return self._enrolment.admits(broker_id, secret)

    async def controller_address(self) -> str:
        return self._node.owner_address(CONTROLLER_LANE) or ""

    def came(self, broker_id: int) -> None:
        """It counts by a secret that was read of late: nobody tells others than the controller that one was
        taken back, and who was taken out of the cluster must not move the controller.
        """
        now, read_at = self._node.now(), self._enrolment_is_of
        if read_at is not None and elapsed_ms(read_at, now) < ENROLMENT_INTERVAL_MS:
            self._heard.came(broker_id, now)

    def heard(self) -> Heard:
        """Which brokers come to this node, and which the controller hears that it may be."""
        linked = (link.broker_id for link in self.cluster.links)
        return self._heard.of(linked, self._node.now(), self.cluster.registered)

    def link_opened(self, link: BrokerLink, hello: BrokerHello) -> None:
        self._heard.opened(link.broker_id, self._node.now())
        self.cluster.links[link] = LinkPace()
        self._tell(told.Hello(link, hello))
        self._start(self._presence.meet(link.broker_id, hello.endpoints.get(REPLICATION_LISTENER, "")))

    def link_heard(self, link: BrokerLink, frame: FromBroker) -> None:
        self._heard.heard(link.broker_id, self._node.now())
        if isinstance(frame, BrokerPing):
            self._pinged(link, frame)
        elif isinstance(frame, LookForCaller):
            self._start(self._look_for_caller(link, frame))
        else:
            until = None
            if isinstance(frame, Wish):
                until = after(self._node.now(), round((waits_s(frame) + ANSWER_GRACE_S) * 1_000))
            self._tell(told.Heard(link, frame, uuid4(), until=until))

    def link_closed(self, link: BrokerLink) -> None:
        if self.cluster.links.pop(link, None) is not None and self.cluster.lane is not None:
            row = self.cluster.bound_to(link)
            self._tell(told.LinkClosed(link))
            if row is not None and self._accepts:
                self._start(self._tell_when_gone(row))

    async def _look_for_caller(self, link: BrokerLink, frame: LookForCaller) -> None:
        """How often the database is asked the node bounds; what it has found since is told in any case."""
        pace = self.cluster.links.get(link)
        if pace is None:
            return
        pace.looks += 1
        try:
            if pace.looks <= LOOKS_OF_ONE_LINK:
                await self._node.find_caller(frame.name, frame.peer)
        finally:
            pace.looks -= 1
        self.cluster.tell_callers(self._node.kafka_callers)
        link.say(CallerLookedFor(number=frame.number))

    async def _tell_when_gone(self, row: BrokerRow) -> None:
        """Until its patience ends anyway, look whether the process of this broker has ended."""
        address = row.endpoints.get(REPLICATION_LISTENER, "")
        within_ms = self._settings.core.closed_link_timeout_ms
        if await self._presence.until_gone(row.broker_id, address, within_ms) and self._accepts:
            self._tell(told.BrokerGone(row.broker_id, row.broker_epoch))

    def _pinged(self, link: BrokerLink, ping: BrokerPing) -> None:
        """Liveness takes no turn: sessions are memory of the owner. A frozen node answers nothing, but keeps
        what is said: the link may live on, and there it is said once.
        """
        if not self.cluster.heard(link, ping.metadata_version, ping.condition):
            return
        self._progress.add(ping.high_watermarks)
        if ping.condition is not None:
            self._conditions.add(link.broker_id, ping.condition)
        self._arrivals.add(link.broker_id, ping.arriving)
        if self._node.frozen:
            return
        if self.cluster.lets_somebody_go:
            self._tell(told.TimePassed())
        if ping.losses:
            self._tell(told.Heard(link, ping, uuid4()))
        age_ms = elapsed_ms(self._node.kafka_callers_at, self._node.now())
        link.say(BrokerPingAnswer(number=ping.number, callers_age_ms=age_ms))

    def _tell(self, event: told.Event) -> None:
        """Queue an event for the next turn; without a lane nobody decides, and links are hung up."""
        self._moved_at = self._node.now()
        try:
            if self.cluster.lane is None:
                raise LaneLost("not the controller")
            self.cluster.lane.hand_in(self.cluster, CLUSTER, event)
        except LaneLost:
            link = getattr(event, "link", None)
            if isinstance(link, BrokerLink):
                link.hang_up("this node is not the controller any more")

    def _asked(self, row: RequestRow) -> None:
        """A request waits for its turn. Raises msgspec.ValidationError."""
        heard = heard_from(row)
        if isinstance(heard.frame, RemovePartitions) and not heard.frame.force:
            self._start(self._look_before_it_is_heard(row.id, heard, heard.frame))
        else:
            self._tell(heard)

    async def _look_before_it_is_heard(
        self, request_id: str, heard: told.Heard, wish: RemovePartitions
    ) -> None:
        try:
            await self._look_what_is_unread(heard, wish)
        except Exception:
            # Nobody else has it: whoever asked would hear nothing, and the next owner meet it again.
            log.exception("what is unread could not be found", request=request_id, topic=wish.topic)
            self._requests.give_up(request_id)

    async def _look_what_is_unread(self, heard: told.Heard, wish: RemovePartitions) -> None:
        """Hand the wish in with what was found of the topic as it was then; another owner looks by itself."""
        lane = self.cluster.lane
        if wish.expected_version is None:
            seen = self.cluster.version_of_topic(wish.topic)
            heard = replace(heard, frame=msgspec.structs.replace(wish, expected_version=seen))
        if not wish.validate_only:
            await self._hear_how_far_logs_are()

        def find(connection: Connection) -> Sequence[Unread]:
            return self._find_unread(connection, wish.topic, wish.partition_count)

        while self.cluster.lane is lane:
            try:
                unread = tuple(await self._node.query(find))
            except ConnectionLost:
                await asyncio.sleep(AGAIN_S)
                continue
            if self.cluster.lane is lane:
                self._tell(replace(heard, unread=unread))
            return

    async def _hear_how_far_logs_are(self) -> None:
        """Store the high watermarks that every linked broker states from now on: one ping of each."""
        waited_for = {link: pace.pings for link, pace in self.cluster.links.items()}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENDS_TIMEOUT_S):
                while waited_for or self._progress.is_being_written:
                    await asyncio.sleep(LOOK_INTERVAL_S)
                    waited_for = {
                        link: pings
                        for link, pings in waited_for.items()
                        if link in self.cluster.links and self.cluster.links[link].pings == pings
                    }
                await self._note_progress()

    # ------------------------------------------------------------------------------ duties

    def _start(self, duty: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(duty)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a duty of the controller failed", exc_info=error)

    def _read_enrolment_again(self, now: Instant) -> None:
        if not self._reading_enrolment and elapsed_ms(self._enrolment_at, now) >= ENROLMENT_INTERVAL_MS:
            self._enrolment_at = now
            self._start(self._load_enrolment())

    async def _load_enrolment(self) -> None:
        self._reading_enrolment += 1
        try:
            revoked = -1
            while revoked != self._revoked:
                # What was read while a broker was unregistered may still hold its secret.
                revoked, began_at = self._revoked, self._node.now()
                enrolment = await self._node.query(Enrolment.load)
            self._enrolment, self._enrolment_is_of = enrolment, began_at
        except ConnectionLost:
            log.warning("secrets of brokers not read again: no database")
        finally:
            self._reading_enrolment -= 1

    def _revoke(self, broker_id: int) -> None:
        """A broker was unregistered: what was read of its secret before that counts no more."""
        self._revoked += 1
        self._enrolment.revoke(broker_id)

    async def _note_progress(self) -> None:
        progress, noted = self._progress, self._progress.take(self._node.now())
        try:
            await self._node.query(lambda connection: store.note_progress(connection, noted))
        except ConnectionLost:
            progress.give_back(noted)
        except Exception:
            # Given back it would spoil the next note, too; brokers say again what changes.
            log.exception("progress could not be noted", partitions=len(noted))
            progress.done()
        except BaseException:
            # Who waits for it no longer does not know whether it was written: twice is as good as once.
            progress.give_back(noted)
            raise
        else:
            progress.done()
            self._node.wake("progress")

    async def _note_conditions(self) -> None:
        conditions, said = self._conditions, self._conditions.take(self._node.now())
        try:
            await self._node.query(lambda connection: store_conditions.note(connection, said))
            self._node.wake("progress")
            if said.logs or said.begun:
                self._node.wake("logs")
        except ConnectionLost:
            conditions.give_back(said)
        finally:
            conditions.done()

    async def _note_arrivals(self) -> None:
        arrivals, said = self._arrivals, self._arrivals.take(self._node.now())
        try:
            await self._node.query(lambda connection: store_moves.note_arrivals(connection, said))
            self._node.wake("progress")
        except ConnectionLost:
            log.warning("progress of reassignments not written: no database")
        finally:
            arrivals.done()

    async def _hand_in_finished(self, kind: str, key: str) -> None:
        """Hand finished work items to the lane, each once: the lane keeps it until it is adopted."""
        lane = self.cluster.lane
        if lane is None:
            return
        try:
            finished = await lane.read(lambda connection: work.finished(connection, kind, [key]))
        except LaneLost:
            return
        for item in finished:
            if not self.cluster.is_first(item.id):
                continue
            if why := self.cluster.why_failed(item.id):
                item = replace(item, result=None, error=why)
            self._tell(_finished(item))


def heard_from(row: RequestRow) -> told.Heard:
    """A request's row as its turn hears it, with what was done of it. Raises msgspec.ValidationError."""
    wish = msgspec.convert(row.payload, Asked, str_keys=True).wish
    begun = msgspec.convert(row.result or (), tuple[ReassignmentResult, ...])
    return told.Heard(told.RequestSeat(row.id, row.principal, row.reason), wish, uuid4(), begun=begun)


def _finished(item: FinishedItem) -> told.ProposalsReady | told.PlanComputed:
    """What a worker computed, as the lane hears it; what cannot be read has failed."""
    try:
        return _read(item)
    except (msgspec.ValidationError, AttributeError, TypeError) as problem:
        log.error("finished work cannot be read", item=item.id, kind=item.kind, error=str(problem))
        return _read(replace(item, result=None, error=f"what was computed cannot be read: {problem}"))


def _read(item: FinishedItem) -> told.ProposalsReady | told.PlanComputed:
    if item.kind == COMPUTE_PLAN:
        result = item.result or {}
        failure = item.error or result.get("failure", "")
        parts, cost = tuple(result.get("parts", ())), result.get("cost", {})
        return told.PlanComputed(item.id, UUID(item.key), parts, cost, failure)
    # A computation that failed proposes nothing; the turn then decides by itself.
    proposals = msgspec.convert(item.result or [], tuple[LeaderProposal, ...])
    return told.ProposalsReady(item.id, Task(item.kind), item.key, proposals)


def nodes_and_owners(node: NodeContext) -> Nodes:
    """Who the nodes are and which shards of groups they hold, as the last look showed."""
    owners = node.owners()
    held = (owners.get(shard_lane(shard)) for shard in range(SHARD_COUNT))
    return Nodes(
        nodes=tuple(NodeRow(one.node, one.address, one.node_id, one.kafka) for one in node.live_nodes()),
        owners=tuple(owner.node_id if owner is not None else 0 for owner in held),
    )
