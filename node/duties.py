"""This room does what a node does by the clock: ticks, sweeps, retention; and maps wake names to services."""

import asyncio

import structlog
from django.conf import settings

from access.forgetting import forget_events, forget_tokens
from controller.store_forgetting import forget_losses, forget_moves, forget_plans
from coordinator.door import ConsumerDoor
from gateway.listener import NodeListener
from muster.kernel.instants import Instant, elapsed_ms
from node.context import TOKENS_EVERY_MS, NodeHeart
from node.sending_on import SendingOn, is_ready
from runtime import clock, journal, metrics, refusals
from runtime.desk import WorkDesk
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.ports import CONTROLLER_LANE, DUE, EVERYTHING, Connection, ConnectionLost

TICK_MS = 100
LATE_MS = 100
SWEEP_MS = 1_000
FORGET_EVERY_MS = 600_000

_FORGET = (
    journal.forget,
    journal.forget_adopted_work,
    forget_moves,
    forget_plans,
    forget_losses,
    forget_events,
    forget_tokens,
)

log = structlog.get_logger(__name__)


class Duties:
    """Ticks every 100 ms, sweeps every second; whatever the loop was late by is given back to everybody."""

    def __init__(
        self,
        heart: NodeHeart,
        keeper: LeaseKeeper,
        desk: WorkDesk,
        freshness: Freshness,
        kafka: NodeListener,
        members: ConsumerDoor,
        refused: refusals.RefusalNotes,
    ) -> None:
        self._heart = heart
        self._keeper = keeper
        self._desk = desk
        self._kafka = kafka
        self._members = members
        self._freshness = freshness
        self._refused = refused
        self._sending_on = SendingOn(
            lambda: [one.address for one in heart.live_nodes() if one.address != heart.address],
            lambda: kafka.server.hang_up("this node is frozen, and another serves"),
            lambda address: is_ready(address, settings.MUSTER_KAFKA_TLS_CA or None),
        )
        self._swept_at = clock.now()
        self._tokens_at = clock.now()
        self._forgot_at = clock.now()

    async def run(self) -> None:
        """Tick until cancelled."""
        expected = Instant(clock.now())
        self._freshness.tick(expected)
        while True:
            expected = Instant(expected + TICK_MS)
            await asyncio.sleep(max(expected - clock.now(), 0) / 1000)
            now = clock.now()
            late_ms = elapsed_ms(expected, now)
            metrics.loop_lag_ms.observe(late_ms)
            if late_ms > LATE_MS:
                log.warning("loop was late", late_ms=late_ms)
                self._keeper.postpone(late_ms)
                expected = now
            self._freshness.tick(now)
            self._keeper.watch(now)
            self._sending_on.tick(self._keeper.frozen_ms(now))
            if not self._freshness.frozen:
                self._tick(now)

    def woken(self, name: str, key: str) -> None:
        """A notification came: look at what it names, and tell the services."""
        if name in ("leases", EVERYTHING):
            self._keeper.look_soon()
        if name in ("tokens", EVERYTHING):
            self._heart.start(self._heart.refresh_tokens())
        if name in (DUE, EVERYTHING):
            self._desk.look()
        self._kafka.woken(name)
        for service in self._keeper.running():
            try:
                service.woken(name, key)
            except Exception:
                log.exception("service could not be woken", wake=name, key=key)

    def work_finished(self, lane: str, kind: str, key: str) -> None:
        """The sweep found a done item that was not adopted."""
        service = self._keeper.service(lane)
        if service is not None:
            service.woken("work", f"{kind} {key}")

    def _tick(self, now: Instant) -> None:
        for service in self._keeper.running():
            try:
                service.tick(now)
            except Exception:
                log.exception("service could not tick")
        self._kafka.tick(now)
        self._members.tick()
        if elapsed_ms(self._swept_at, now) >= SWEEP_MS:
            self._swept_at = now
            self._desk.look()
            if self._refused.is_due:
                self._heart.start(self._refused.write(self._heart.query))
        # A node that knows no tokens lets nobody in: it asks more often than one whose tokens may be old.
        every_ms = TOKENS_EVERY_MS if self._heart.tokens_known else SWEEP_MS
        if elapsed_ms(self._tokens_at, now) >= every_ms:
            self._tokens_at = now
            self._heart.start(self._heart.refresh_tokens())
        if elapsed_ms(self._forgot_at, now) >= FORGET_EVERY_MS and CONTROLLER_LANE in self._keeper.accepted:
            self._forgot_at = now
            self._heart.start(self._forget())

    async def _forget(self) -> None:
        """Delete what is old, a batch at a time, so that nobody waits long for a lock."""
        try:
            for task in _FORGET:
                while await self._heart.query(task) >= journal.BATCH_ROWS:
                    await asyncio.sleep(0.1)
            await self._heart.query(_forget_ended_runs)
            await self._heart.query(refusals.forget)
        except ConnectionLost as error:
            log.info("retention was cut short", error=str(error))


def _forget_ended_runs(connection: Connection) -> int:
    return journal.forget_ended_runs(connection)
