"""This room composes a node: one event loop with its doors, lanes, leases, duties and spare process."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog
import uvicorn
from django.conf import settings

import config.celery
import controller.configuration
import controller.routing
import controller.service
import coordinator.routing
import coordinator.service
import groups.unread
from access.bounded_http import bounded
from access.peers import strangers_per_address
from coordinator.door import ConsumerDoor
from gateway.listener import NodeListener
from kafkaserver import addresses, open_files
from kafkaserver.guard import Belief, Guard
from kafkaserver.limits import client_limits
from muster.kernel.addresses import place_of_websocket
from node import doors
from node.context import NodeHeart
from node.duties import Duties
from node.handshakes import PatientHttp
from node.spare import Spare
from node.websocket import TextWebSocket
from runtime import clock, seen
from runtime.desk import WorkDesk
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.ports import SHARD_COUNT, LaneService
from runtime.postgres import Postgres
from runtime.publishing import Publisher, prepare_celery
from runtime.refusals import RefusalNotes
from runtime.side import SideLink
from runtime.vigils import Vigils
from runtime.wake import Listener

LANES_IN_ALL = SHARD_COUNT + 1
LARGEST_FRAME_BYTES = 4 * 1024 * 1024
"""Above what any door accepts; each door has its own, smaller limit."""

CLOSE_S = 3
DRAIN_MS = 1_000
"""So long answers of the Kafka listener may take to leave."""

log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    """Uvicorn without its own signals: the node drains before its sockets close."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the node."""
        yield


class Node:
    """One node process, from its first lease to its last."""

    def __init__(self) -> None:
        open_files.allow_many_files()
        # Whoever publishes in another thread finds the application that knows our Redis.
        config.celery.app.set_default()
        self._freshness = Freshness(clock.now)
        database = Postgres(settings.DATABASE_DIRECT_URL, settings.MUSTER_NODE_NAME)
        name, address = settings.MUSTER_NODE_NAME, settings.MUSTER_NODE_ADDRESS
        self.heart = NodeHeart(name, address, self._freshness)
        shards = coordinator.service.build(self.heart)
        leader = controller.service.build(self.heart, groups.unread.find)
        services: dict[str, LaneService] = {**leader, **shards}
        guard = _kafka_guard()
        limits = client_limits(
            settings.MUSTER_NODE_KAFKA_CONNECTIONS,
            settings.MUSTER_STRANGERS_PER_ADDRESS,
            settings.MUSTER_KAFKA_CONNECTIONS_PER_ADDRESS,
        )
        static_configs = controller.configuration.from_environment().core.static_configs
        self._kafka = NodeListener(self.heart, shards, limits, guard, static_configs)
        self._publisher = Publisher(prepare=prepare_celery)
        self._spare = Spare()
        self.heart.queries = SideLink(database, lambda: self.keeper.run, "queries")
        self.heart.wakes = SideLink(database, lambda: self.keeper.run, "wakes")
        self._desk = WorkDesk(
            self.heart.query,
            self._publisher,
            self._spare,
            clock.now,
            lambda: self.keeper.accepted,
            lambda lane, kind, key: self._duties.work_finished(lane, kind, key),
        )
        refusals = RefusalNotes(name)
        self.keeper = self.heart.keeper = LeaseKeeper(
            database,
            name,
            address,
            services,
            self._freshness,
            clock.now,
            on_offered=self._desk.offered,
            on_moved=lambda: self.heart.wake("leases"),
            kafka=self._hold_kafka_address(),
            on_refused=refusals.add,
            keep_vigil=self._keep_vigil,
            heard=controller.routing.service_of(leader).heard,
        )
        self._vigils: Vigils[str] = Vigils(
            lambda run: self.keeper.doubt_owner(), lambda run: self.keeper.refused(run)
        )
        members = ConsumerDoor(self.heart, shards)
        self._duties = Duties(
            self.heart, self.keeper, self._desk, self._freshness, self._kafka, members, refusals
        )
        self._listener = Listener(
            settings.DATABASE_DIRECT_URL, seen.as_node(name, "listener"), self._duties.woken, database.check
        )
        self._server = _Server(
            _server_settings(
                doors.application(
                    doors.Probes(self.heart, self.why_not_ready),
                    coordinator.routing.application(members),
                    controller.routing.application(self.heart, leader),
                )
            )
        )

    def _hold_kafka_address(self) -> str:
        """Where Kafka clients will be taken; the system chooses the port if 0 was asked.

        Raises CannotListenError.
        """
        host, port = settings.MUSTER_NODE_KAFKA_LISTEN
        with addresses.named("MUSTER_NODE_KAFKA_LISTEN", host, port):
            bound = self._kafka.bind(host, port)
        if settings.MUSTER_NODE_KAFKA_ADDRESS:
            return str(settings.MUSTER_NODE_KAFKA_ADDRESS)
        return f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"

    def _keep_vigil(self, addresses: Mapping[str, str]) -> None:
        self._vigils.keep({run: place_of_websocket(address) for run, address in addresses.items()})

    def why_not_ready(self) -> str:
        """Empty if every lane is accepted, by us or by whoever holds its lease; else what is missing."""
        if self.keeper.draining:
            return "draining"
        if self._freshness.frozen:
            # What stands behind a colon may name the database and its user, and anybody may ask here.
            return f"frozen: {self.keeper.why_frozen(clock.now()).partition(':')[0]}"
        if not self.heart.tokens_known:
            return "tokens are not loaded"
        held, accepted = self.keeper.held, self.keeper.accepted
        if held != accepted:
            return f"{len(held - accepted)} lanes are loading"
        if len(self.keeper.owners()) < LANES_IN_ALL:
            return f"{LANES_IN_ALL - len(self.keeper.owners())} lanes have no owner"
        return ""

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain. Raises what the heart cannot go on with."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for ending in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(ending, stopping.set)
        self._spare.start()
        self._listener.start()
        parts = [
            asyncio.create_task(self.keeper.keep(), name="keeper"),
            asyncio.create_task(self._duties.run(), name="duties"),
            asyncio.create_task(self._server.serve(), name="server"),
        ]
        self.heart.start(self.heart.refresh_tokens())
        waiting = asyncio.create_task(stopping.wait(), name="stopping")
        try:
            done, _ = await asyncio.wait([*parts, waiting], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {waiting}:
                task.result()
            log.info("node drains")
            await self.keeper.drain()
        finally:
            waiting.cancel()
            await self._close(parts)

    async def _close(self, parts: "list[asyncio.Task[Any]]") -> None:
        self._server.should_exit = True
        await asyncio.gather(asyncio.wait([parts[-1]], timeout=CLOSE_S + 1), self._kafka.drain(DRAIN_MS))
        self._desk.stop()
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        self._vigils.keep({})
        self.heart.stop()
        self._publisher.stop()
        await self.keeper.stop()
        self.heart.queries.stop()
        self.heart.wakes.stop()
        await asyncio.gather(self._spare.stop(), self._listener.stop())
        log.info("node stopped")


def _kafka_guard() -> Guard:
    """What Kafka clients have to prove, as the settings say. Raises SettingError."""
    guard = Guard.of(
        settings.MUSTER_KAFKA_SASL,
        settings.MUSTER_KAFKA_TLS_CERTIFICATE,
        settings.MUSTER_KAFKA_TLS_KEY,
        Belief(settings.MUSTER_KAFKA_CALLERS_MAX_AGE_MS, settings.MUSTER_KAFKA_CALLERS_MAX_AGE_STANDING_MS),
    )
    guard.refuse_open_door("MUSTER_NODE_KAFKA_LISTEN", settings.MUSTER_NODE_KAFKA_LISTEN[0])
    return guard


def _server_settings(application: doors.Application) -> uvicorn.Config:
    listen = urlsplit(f"//{settings.MUSTER_NODE_LISTEN}")
    addresses.refuse_what_cannot_be_listened_on(
        "MUSTER_NODE_LISTEN", listen.hostname or "127.0.0.1", listen.port or 0
    )
    return uvicorn.Config(
        application,
        host=listen.hostname or "127.0.0.1",
        port=listen.port or 0,
        http=bounded(strangers_per_address(), PatientHttp),
        ws=TextWebSocket,
        ws_ping_interval=None,
        ws_ping_timeout=None,
        ws_per_message_deflate=False,
        ws_max_size=LARGEST_FRAME_BYTES,
        lifespan="off",
        loop="none",
        backlog=open_files.backlog(),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=CLOSE_S,
    )
