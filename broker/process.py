"""This room composes one broker: data plane, listeners, link, followers, duties, from start to clean stop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final
from uuid import uuid4

import structlog

from broker.callers import ToldCallers
from broker.condition import BrokerCondition
from broker.core.cluster_view import ClusterView, Heeded
from broker.core.peer_proof import ReplicationKey
from broker.core.replica_log import PartitionKey
from broker.departure import Departure
from broker.folder import DataFolder, FolderError
from broker.forwarding import Forwarding
from broker.health import HealthDoor
from broker.held_notes import HeldNotes
from broker.hosted import HostedPartition
from broker.link import ControllerLink, LinkEnded
from broker.listener import ClientListener
from broker.log.outcomes import StorageFailed
from broker.log.shelf import LogShelf
from broker.metadata import ClientMetadata
from broker.plane_settings import of_the_plane
from broker.replicas import DataPlane
from broker.replication import Replication
from broker.replication_listener import ReplicationListener
from broker.samples import samples_of_clients, samples_of_guard, samples_of_replicas
from broker.settings import Address, BrokerSettings
from broker.shown_logs import ShownLogs
from kafkaserver.addresses import named
from kafkaserver.guard import Guard
from kafkaserver.quotas import ClientQuotas
from muster.kafkawire.api_table import shapes_loaded
from muster.kernel.addresses import is_loopback
from muster.kernel.instants import Instant, elapsed_ms
from muster.kernel.security_protocols import PLAINTEXT, SSL
from muster.kernel.topic_configs import MIN_INSYNC_REPLICAS
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link import rows
from muster.messages.link.callers import Callers
from muster.messages.link.from_broker import (
    AlterPartition,
    BrokerHello,
    BrokerPing,
    HighWatermark,
    IsrProposal,
    UnusableLogs,
)
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.to_broker import (
    AlterPartitionAnswer,
    BrokerPingAnswer,
    CallerLookedFor,
    Changes,
    HelloAccepted,
    MayLeave,
    Nodes,
    SnapshotChunk,
    ToBroker,
    WishAnswer,
)

log = structlog.get_logger(__name__)

OBEY_AT_ONCE_MS: Final = 20
"""For so long rows are obeyed before the loop may do something else."""
LOOKS_AT_THE_CLOCK: Final = 16  # after so many rows: to look costs as much as to obey a row without news
DRAIN_MS: Final = 1_000
FLUSH_INTERVAL_S: Final = 5.0
SHAPE_INTERVAL_S: Final = 0.05
"""Between two shapes of requests that are loaded ahead; each takes some milliseconds."""
RETENTION_INTERVAL_S: Final = 300.0
COMPACTION_INTERVAL_S: Final = 15.0
WATCH_INTERVAL_S: Final = 1.0
ERASE_INTERVAL_S: Final = 10.0


def clock_ms() -> Instant:
    """Milliseconds of this process's monotonic clock."""
    return Instant(time.monotonic_ns() // 1_000_000)


def wall_clock_ms() -> int:
    """Milliseconds since 1970; for retention only."""
    return time.time_ns() // 1_000_000


class BrokerProcess:
    """One broker; it is the Hearer of its own link.

    Nothing is believed before the first snapshot: until then clients are refused at the door, and
    followers for every partition.
    """

    def __init__(self, settings: BrokerSettings, folder: DataFolder, guard: Guard | None = None) -> None:
        self._settings = settings
        self._folder = folder
        self._incarnation = str(uuid4())
        self._cluster_id = ""
        self._applied_version = 0
        self._snapshot_obeyed = False
        self._known = ClusterView(settings.broker_id)
        self._metadata = ClientMetadata(self._known)
        shelf = LogShelf(folder.partitions, folder.stopped_cleanly, same_boot=folder.same_boot)
        shelf.scan(folder.lose_tail)
        self._plane = DataPlane(settings.broker_id, shelf, of_the_plane(settings), clock_ms, wall_clock_ms)
        self._plane.on_may_grow = self._may_grow
        self._plane.on_trouble = self._state_unusable
        self._states_unusable = False
        self._nodes_configs: dict[str, str] = {}
        """What the nodes' environment says of configs that the controller obeys, too."""
        self._growing: dict[PartitionKey, HostedPartition] = {}
        self._untold: dict[PartitionKey, HighWatermark] = {}
        self._link = ControllerLink(settings, self)
        self._plane.losses.begin(HeldNotes(folder.path), self._link.ping_soon, shelf.may_lack)
        self._departure = Departure(self._link.send, clock_ms)
        self._forwarding = Forwarding(self._link.send)
        self._shown_logs = ShownLogs(self._plane, self._link.send)
        self._followers = Replication(self._plane, settings, missed := self._metadata.missed)
        self._guard = guard or Guard()
        limits = settings.client_limits
        self._quotas = ClientQuotas()
        self._condition = BrokerCondition(self._plane, self._quotas, clock_ms)
        slots = settings.max_incremental_fetch_session_cache_slots
        self._clients = ClientListener(
            self._plane, self._forwarding, limits, self._guard, self._quotas, self._known, slots, missed
        )
        self._callers = ToldCallers(self._guard, self._clients.know_callers, self._link.send, clock_ms)
        # On loopback nobody listens in, and without TLS the kernel sends records by itself.
        host = settings.replication_listen.host
        self._peers_certificate = None if is_loopback(host) else self._guard.certificate
        self._peers = ReplicationListener(self._plane, settings.peer_limits, self._peers_certificate)
        self._health = HealthDoor(self.ailment, self.samples)
        self._endpoints: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------------------ life

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set and others lead what they can. Raises CannotListenError."""
        settings, peers = self._settings, self._settings.replication_listen
        with named("MUSTER_BROKER_LISTEN", *settings.listen):
            port = self._clients.bind(*settings.listen)
        with named("MUSTER_BROKER_REPLICATION_LISTEN", *peers):
            peers_port = self._peers.listen(*peers)
        self._endpoints = {
            rows.CLIENT_LISTENER: str(settings.address or Address(settings.listen.host, port)),
            rows.REPLICATION_LISTENER: str(settings.replication_address or Address(peers.host, peers_port)),
        }
        if self._peers_certificate is not None:
            self._endpoints[rows.REPLICATION_SECURITY] = SSL
        if self._guard.protocol != PLAINTEXT:
            self._endpoints[rows.CLIENT_SECURITY] = self._guard.protocol
        if settings.http_listen is not None:
            with named("MUSTER_BROKER_HTTP_LISTEN", *settings.http_listen):
                await self._health.open(*settings.http_listen)
        log.info("broker started", **self._endpoints, lost_tail=self._folder.lost_tail)
        stopped = asyncio.create_task(stop.wait())
        link = asyncio.create_task(self._open_and_link(), name="link")
        self._tasks = [link, *(asyncio.create_task(duty) for duty in self._duties())]
        try:
            # No task but `stopped` ends by itself: one that does has met a mistake of ours.
            done, _ = await asyncio.wait((stopped, *self._tasks), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await self._departure.until_allowed(settings.controlled_shutdown_timeout_ms, self._tasks)
        finally:
            stopped.cancel()
            await self._stop()

    async def _open_and_link(self) -> None:
        """No hello before every log is open: what is found damaged must be confessed with it."""
        await self._plane.open_logs()
        await self._link.run()

    async def _stop(self) -> None:
        """Hang up first, so that leaders move while the logs are made durable.

        Nothing is taken from then on: what had arrived already would be appended behind the clean mark.
        """
        self._clients.stop_taking()
        self._peers.stop_taking()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._followers.close()
        is_clean = await self._plane.close()
        await asyncio.gather(self._clients.drain(DRAIN_MS), self._peers.drain(DRAIN_MS))
        await self._health.close()
        if is_clean:
            self._folder.note_version(self._applied_version)
            self._folder.mark_clean()
        log.info("broker stopped", clean=is_clean)

    def _duties(self) -> Iterable[Coroutine[Any, Any, None]]:
        settings = self._settings
        yield _after_each(settings.replica_lag_time_max_ms / 2000, self._look_at_followers)
        yield _after_each(settings.high_watermark_checkpoint_interval_ms / 1000, self._checkpoint)
        yield _after_each(RETENTION_INTERVAL_S, self._plane.upkeep.apply_retention)
        yield _every(WATCH_INTERVAL_S, lambda: self._guard.watch(clock_ms(), self._clients.server))
        yield _after_each(COMPACTION_INTERVAL_S, self._plane.cleaner.clean_dirty)
        yield self._plane.upkeep.watch_room()
        yield _after_each(ERASE_INTERVAL_S, self._plane.upkeep.erase_old)
        yield self._flush()

    # ------------------------------------------------------------------------------ Hearer

    def hello(self) -> BrokerHello:
        self._known.open_link()
        self._snapshot_obeyed = False
        return BrokerHello(
            broker_id=self._settings.broker_id,
            incarnation=self._incarnation,
            endpoints=self._endpoints,
            rack=self._settings.rack,
            cluster_id=self._cluster_id or self._folder.cluster_id or self._settings.cluster_id,
            broker_epoch=self._followers.broker_epoch,
            lost_tail=self._folder.lost_tail or len(self._plane.damaged) > MAX_ROWS_PER_FRAME,
            unusable_logs=self._plane.troubles.whole(),
            damaged_logs=self._plane.damaged[:MAX_ROWS_PER_FRAME],
            metadata_version=self._applied_version,
            highest_leader_epoch=self._plane.highest_leader_epoch,
            highest_broker_epoch=self._followers.broker_epoch,
            highest_metadata_version=max(self._applied_version, self._folder.metadata_version),
            protocol=LINK_PROTOCOL,
            leaving=self._departure.wanted,
            static_configs=self._plane.topics.static,
        )

    def accepted(self, frame: HelloAccepted) -> None:
        # The answer comes after the commit, so a lost tail is known to the controller from here on.
        self._folder.registered(frame.cluster_id)
        self._plane.confessed()
        # A node of before says only this one.
        least = {MIN_INSYNC_REPLICAS: str(frame.min_insync_replicas)}
        self._nodes_configs = frame.static_configs or least
        self._know_levels()
        self._cluster_id = frame.cluster_id
        self._departure.linked(frame.protocol)
        self._forwarding.linked(frame.protocol)
        self._shown_logs.linked(frame.protocol)
        self._callers.linked(frame.protocol)
        try:
            key = ReplicationKey(frame.cluster_id, bytes.fromhex(frame.replication_key))
        except ValueError as error:
            raise LinkEnded(f"a replication key that is none: {error}") from error
        self._followers.know_self(frame.broker_epoch, key)
        self._peers.key = key
        self._plane.tell_all_high_watermarks()
        self._condition.begin()
        self._untold.clear()

    async def obey(self, frame: ToBroker) -> None:
        if isinstance(frame, WishAnswer):
            self._forwarding.hear(frame)
            return
        match frame:
            case BrokerPingAnswer():
                # It was heard: the session goes on. Whoever sent it knows how old its look at tokens is.
                self._guard.confirmed(Instant(clock_ms() - frame.callers_age_ms))
            case MayLeave():
                self._departure.allowed()
            case Nodes():
                self._know_nodes(frame)
            case Callers():
                self._callers.hear(frame)
            case CallerLookedFor():
                self._callers.looked_for(frame)
            case SnapshotChunk() | Changes() | AlterPartitionAnswer():
                await self._heed(frame)
            case _:
                raise LinkEnded(f"{type(frame).__name__} out of place")

    def ping(self, number: int) -> BrokerPing:
        for said in self._plane.changed_high_watermarks():
            self._untold[PartitionKey(said.topic_id, said.partition)] = said
        first = [key for key, _ in zip(self._untold, range(MAX_ROWS_PER_FRAME), strict=False)]
        return BrokerPing(
            number=number,
            metadata_version=self._applied_version,
            high_watermarks=tuple(self._untold.pop(key) for key in first),
            condition=self._condition.news() if self._snapshot_obeyed else None,
            arriving=self._followers.arriving(),
            losses=self._plane.losses.reports() if self._snapshot_obeyed else (),
        )

    def link_lost(self) -> None:
        self._departure.unlinked()
        self._forwarding.link_lost()
        self._callers.link_lost()
        self._clients.owners_doubted()

    # ------------------------------------------------------------------------------ rows

    async def _heed(self, frame: SnapshotChunk | Changes | AlterPartitionAnswer) -> None:
        heeded = self._known.obey(frame)
        if heeded.hang_up:
            raise LinkEnded(heeded.hang_up)
        self._plane.losses.hear(frame, self._known.partitions)
        if isinstance(frame, SnapshotChunk) and not frame.last:
            return
        self._metadata.forget(heeded.deleted_topics, heeded.shrunk_topics)
        self._know_levels()
        self._plane.know_topics(heeded.topics)
        if heeded.quotas_changed:
            self._quotas.know(self._known.quotas.values())
        others_live = self._metadata.know_brokers()
        everything = others_live or heeded.from_snapshot
        self._plane.leaving = self._metadata.leaving
        if others_live:
            self._plane.know_live(self._metadata.live)
        self._followers.know_brokers(self._known.brokers.values())
        self._plane.broker_epochs = {row.broker_id: row.broker_epoch for row in self._known.brokers.values()}
        # Clients may be told of new leaders first: a leader that has not heard of it refuses them once.
        self._plane.view = self._metadata.renew(self._cluster_id, None if everything else heeded.told)
        await self._perform(heeded)
        self._shown_logs.show(heeded.rows)
        self._applied_version = self._known.metadata_version
        self._clients.applied(self._applied_version)
        if heeded.from_snapshot:
            await self._snapshot_applied()
        elif not heeded.answers:
            self._link.ping_soon()

    def _know_levels(self) -> None:
        """What holds for topics that set nothing: it costs a look where it is as before."""
        known = self._known
        self._plane.know_levels(known.own_configs, known.cluster_configs, self._nodes_configs)

    def _know_nodes(self, frame: Nodes) -> None:
        """Where the controller may be, and who coordinates which groups, for clients to be told."""
        self._link.learn_nodes(tuple(node.address for node in frame.nodes if node.address))
        self._known.nodes = frame
        self._plane.view = self._metadata.renew(self._cluster_id, ())
        self._clients.owners_told()

    async def _perform(self, heeded: Heeded) -> None:
        """Let each replica obey; a link that breaks in between is made good by the next snapshot."""
        for _ in ("worded", "sent"):
            # What the frame before this one answered a client leaves first: there may be thousands of rows.
            await asyncio.sleep(0)
        rested_at = clock_ms()
        for key in heeded.deleted:
            # Before the rows: a topic that was made anew may have the name, and so the folders.
            self._plane.stop(*key, is_deleted=True)
            self._followers.look_at(PartitionKey(*key))
            rested_at = await _rest(rested_at, self._plane.led_epochs.save)
        for number, row in enumerate(heeded.rows):
            if self._plane.obey(row, from_snapshot=heeded.from_snapshot):
                self._followers.look_at(PartitionKey(*row.key))
            if number % LOOKS_AT_THE_CLOCK == 0:
                rested_at = await _rest(rested_at, self._plane.led_epochs.save)
        for answer in heeded.answers:
            key = PartitionKey(answer.topic_id, answer.partition)
            hosted = self._plane.hear_answer(*key, answer.base_version, answer.row)
            self._followers.look_at(key)
            if hosted is not None and hosted.replica.may_grow:
                self._may_grow(hosted)
        for gone in heeded.gone:
            self._stop_replica(PartitionKey(*gone))
        self._plane.led_epochs.save()
        self._plane.forget_topics(heeded.deleted_topics)

    def _stop_replica(self, key: PartitionKey) -> None:
        row = self._known.partitions.get(key)
        if row is None or not self._plane.obey(row, from_snapshot=True):
            self._plane.stop(*key)
        self._followers.look_at(key)

    async def _snapshot_applied(self) -> None:
        self._snapshot_obeyed = True
        if self._plane.troubles.has_news:
            # A log failed behind the hello, when there was no link yet, or there were too many for it.
            self._state_unusable()
        for stray in self._known.strays(self._plane.keys_on_disk):
            self._stop_replica(PartitionKey(*stray))
        self._forwarding.link_ready()
        # Not before: who knows no topic yet would tell clients that theirs does not exist.
        self._clients.accept()
        await self._look_at_followers()
        self._link.ping_soon()

    # ------------------------------------------------------------------------------ in-sync replicas

    @property
    def _may_propose(self) -> bool:
        """Every row of the snapshot is obeyed: one that is still to come would end an open proposal."""
        return self._snapshot_obeyed and self._link.bound

    def _may_grow(self, hosted: HostedPartition) -> None:
        """A follower caught up; whoever else does in this loop turn is proposed in the same frame."""
        if not self._may_propose:
            return
        if not self._growing:
            asyncio.get_running_loop().call_soon(self._propose_growth)
        self._growing[hosted.key] = hosted

    def _propose_growth(self) -> None:
        growing, self._growing = self._growing, {}
        ready = self._may_propose
        asked = (self._plane.proposal(hosted, link_ready=ready) for hosted in growing.values())
        self._send_proposals([proposal for proposal in asked if proposal is not None])

    async def _look_at_followers(self) -> None:
        await self._plane.upkeep.propose(lambda: self._may_propose, self._send_proposals)

    def _send_proposals(self, proposals: list[IsrProposal]) -> None:
        for at in range(0, len(proposals), MAX_ROWS_PER_FRAME):
            part = tuple(proposals[at : at + MAX_ROWS_PER_FRAME])
            self._link.send(AlterPartition(proposals=part))

    # ------------------------------------------------------------------------------ logs in trouble

    def _state_unusable(self) -> None:
        """A log failed, or is in use again: the controller is told once for all of this loop turn."""
        if not self._states_unusable:
            self._states_unusable = True
            asyncio.get_running_loop().call_soon(self._say_unusable)

    def _say_unusable(self) -> None:
        self._states_unusable = False
        # Without a link nothing is lost: the next hello states them all.
        while self._link.bound and self._plane.troubles.has_news:
            news = self._plane.troubles.news()
            if news.failed or news.usable:
                self._link.send(UnusableLogs(failed=news.failed, usable=news.usable))

    # ------------------------------------------------------------------------------ duties

    async def _checkpoint(self) -> None:
        try:
            await asyncio.to_thread(self._folder.note_version, self._applied_version)
            await self._plane.upkeep.checkpoint()
        except (FolderError, StorageFailed) as error:
            log.error("checkpoint failed", reason=str(error))

    async def _flush(self) -> None:
        for _ in shapes_loaded():
            await asyncio.sleep(SHAPE_INTERVAL_S)
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_S)
            await self._plane.upkeep.flush_full_segments()

    # ------------------------------------------------------------------------------ probes

    def ailment(self) -> str:
        """Why this broker is not ready; "" if it is."""
        if self._departure.wanted:
            return "it is about to stop"
        if not self._link.bound:
            return f"no link to the controller: {self._link.why_unlinked}"
        return "" if self._snapshot_obeyed else "the snapshot is not applied yet"

    def samples(self) -> dict[str, float]:
        """What /metrics shows."""
        return {
            "muster_broker_metadata_version": self._applied_version,
            "muster_broker_linked": int(self._link.bound),
            **samples_of_guard(self._guard),
            **samples_of_replicas(self._plane, self._followers),
            **samples_of_clients(self._clients, self._quotas),
        }


async def _every(interval_s: float, duty: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(interval_s)
        duty()


async def _after_each(interval_s: float, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(interval_s)
        await work()


async def _rest(rested_at: Instant, before: Callable[[], None]) -> Instant:
    """Let the loop do something else if rows were obeyed for long, `before` comes first; when that was."""
    if elapsed_ms(rested_at, clock_ms()) < OBEY_AT_ONCE_MS:
        return rested_at
    before()
    await asyncio.sleep(0)
    return clock_ms()
