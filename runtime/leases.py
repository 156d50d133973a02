"""This room keeps a node's run alive, takes leases and gives them away (leases.md sections 3 and 5)."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from muster.kernel.instants import Instant, elapsed_ms
from runtime import metrics
from runtime.database import Database, LeaseRow, Link, Look
from runtime.failpoints import passing
from runtime.freshness import LEASE_TTL_MS, Freshness
from runtime.judging import LONGEST_GAP_MS, LOOK_EVERY_MS, Judge
from runtime.lanes import HeldLane, Lanes
from runtime.ports import ConnectionLost, LaneService, LiveNode, VersionConflict
from runtime.sharing import best, to_give, to_take
from runtime.threads import OneThread, Threads
from runtime.work_table import Offered

RECONNECT_S = 0.1
TRIES_A_LINE = 300
"""An outage is said once, then every half minute."""

WIND_DOWN_S = 2.0
STUCK_EXIT_CODE = 70

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Holding:
    """A lease that this node holds: its lane, and the service that runs on it."""

    lane: HeldLane
    service: LaneService
    accepting: "asyncio.Task[None] | None" = None
    accepted: bool = False
    giving: bool = False


@dataclass(slots=True)
class _Standing:
    """What the last look showed, in the words that others ask in."""

    look: Look = field(default_factory=lambda: Look(None, (), ()))
    nodes: tuple[LiveNode, ...] = ()
    owners: Mapping[str, LiveNode] = field(default_factory=dict)


def leave_the_process(reason: str) -> None:
    """End at once: whatever is cached or half done here is worth nothing (leases.md section 3, last row)."""
    log.critical("node exits", reason=reason)
    os._exit(STUCK_EXIT_CODE)


class LeaseKeeper:
    """Renews, looks, judges, takes and gives, for one node. `services` holds one for each lease there is."""

    def __init__(
        self,
        database: Database,
        node: str,
        address: str,
        services: Mapping[str, LaneService],
        freshness: Freshness,
        clock: Callable[[], Instant],
        on_offered: Callable[[Sequence[Offered]], None] = lambda items: None,
        on_moved: Callable[[], None] = lambda: None,
        leave: Callable[[str], None] = leave_the_process,
        threads: Threads = OneThread,
        kafka: str = "",
    ) -> None:
        self._database = database
        self._node = node
        self._address = address
        self._kafka = kafka
        self._node_id = 0
        self._services = dict(services)
        self._index = {name: number for number, name in enumerate(services)}
        self._freshness = freshness
        self._clock = clock
        self._on_offered = on_offered
        self._on_moved = on_moved
        self._leave = leave
        self._judge = Judge()
        self._threads = threads
        self._thread = threads("session")
        self._link: Link | None = None
        self._sent_at: Instant | None = None
        self._renewed_at: Instant | None = None
        self._failed_renewals = 0
        self._renewing_since: Instant | None = None
        self._look_now = asyncio.Event()
        self._standing = _Standing()
        self._free_since: dict[str, Instant] = {}
        self._holdings: dict[str, _Holding] = {}
        self._taking: set[str] = set()
        self._parting: set[str] = set()
        self._moved_at: dict[str, Instant] = {}
        self._moves: set[asyncio.Task[None]] = set()
        self._farewells: set[asyncio.Task[None]] = set()
        self._connecting = asyncio.Lock()
        self._frozen_since: Instant | None = None
        self._draining = False
        self._left = False
        self.run = ""
        self._lanes: Lanes | None = None

    # --- what others ask ------------------------------------------------------------------------------------

    @property
    def draining(self) -> bool:
        """True while this node gives its leases away."""
        return self._draining

    @property
    def accepted(self) -> frozenset[str]:
        """The leases under which this node accepts work now."""
        return frozenset(name for name, holding in self._holdings.items() if holding.accepted)

    @property
    def held(self) -> frozenset[str]:
        """The leases that this node holds, accepted or not yet."""
        return frozenset(self._holdings)

    def service(self, lane: str) -> LaneService | None:
        """The service of a lane that is held and accepted here."""
        holding = self._holdings.get(lane)
        return holding.service if holding is not None and holding.accepted else None

    def live_nodes(self) -> tuple[LiveNode, ...]:
        """Nodes as the last look showed them, sorted by name (NodeContext.live_nodes)."""
        return self._standing.nodes

    def owners(self) -> Mapping[str, LiveNode]:
        """Who holds which lease (NodeContext.owners)."""
        return self._standing.owners

    def owner_address(self, lane: str) -> str | None:
        """Where members of this lane should connect (NodeContext.owner_address)."""
        owner = self._standing.owners.get(lane)
        if owner is None or (owner.run == self.run and lane not in self._holdings):
            return None
        return owner.address

    def running(self) -> Sequence[LaneService]:
        """The services whose lease is held and whose `accept` has returned."""
        return [holding.service for holding in self._holdings.values() if holding.accepted]

    def look_soon(self) -> None:
        """Leases have moved: look at them now instead of in up to 0.4 s."""
        self._look_now.set()

    # --- life -----------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Renew every 0.4 s and act on what the look shows, until cancelled."""
        while True:
            if self._lanes is None:
                await self._begin_run()
            sent_at = self._clock()
            look = await self._renew()
            if look is None:
                continue
            if self._left:
                return
            if look.renewals is None:
                await self._run_has_ended()
                continue
            await self._act(look, sent_at)
            # Two looks that say "gone" must lie 0.4 s apart; an early one for the leases' sake counts less.
            rest_s = (LOOK_EVERY_MS - elapsed_ms(sent_at, self._clock())) / 1000
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`, which in Python 3.11 forgets a cancellation that comes with what it awaits.
                async with asyncio.timeout(max(rest_s, 0.0)):
                    await self._look_now.wait()
                await asyncio.sleep(0.02)
            self._look_now.clear()

    def watch(self, now: Instant) -> None:
        """Called every 100 ms: freeze when the last renewal is too old, exit when nothing commits."""
        metrics.lease_age_ms.set(self._freshness.age_ms)
        metrics.leases_held.set(len(self._holdings))
        if self._freshness.frozen:
            if self._frozen_since is None:
                self._freeze(now)
        elif self._stuck_ms(now) >= LEASE_TTL_MS:
            self._leave("a lane connection commits nothing though renewals do")
        if self._sent_at is not None and elapsed_ms(self._sent_at, now) >= LEASE_TTL_MS and self._link:
            # Whoever waits behind a network that swallows everything would wait for ever.
            self._link.shut()

    def postpone(self, late_ms: int) -> None:
        """The loop stood still: give the time back, unless a thaw will, which counts from the freezing.

        A lane that woke up first may have noticed that the renewal is old; that alone gives nothing back.
        """
        if self._frozen_since is not None:
            return
        for holding in self._holdings.values():
            try:
                holding.service.thaw(late_ms)
            except Exception:
                log.exception("service could not postpone", late_ms=late_ms)

    async def drain(self) -> None:
        """Give every lease away, then end this run; a few seconds at most."""
        self._draining = True
        with contextlib.suppress(ConnectionLost, asyncio.TimeoutError):
            await asyncio.wait_for(self._session(lambda link: link.drain(self.run)), WIND_DOWN_S)
        others = [node for node in self._standing.nodes if node.run != self.run]
        gifts = [self._give(name, best(others, name)) for name in list(self._holdings)]
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*gifts), 2 * WIND_DOWN_S)
        self._left = True
        with contextlib.suppress(ConnectionLost, asyncio.TimeoutError):
            await asyncio.wait_for(self._session(lambda link: link.leave(self.run)), WIND_DOWN_S)
        self._on_moved()

    async def stop(self) -> None:
        """Close every connection. Leases that are still held are free as soon as somebody ends the run."""
        await _cancel(self._moves | self._farewells)
        if self._lanes is not None:
            await self._lanes.stop()
        if self._link is not None:
            self._link.shut()
            self._thread.run(self._link.close)
        self._thread.stop()

    # --- the run --------------------------------------------------------------------------------------------

    async def _begin_run(self) -> None:
        """A new run with a new id; a run that has ended never renews again."""
        self.run = secrets.token_hex(8)
        try:
            told = (self.run, self._node, self._address, self._kafka)
            self._node_id = await self._session(lambda link: link.begin_run(*told))
        except ConnectionLost:
            await asyncio.sleep(RECONNECT_S)
            return
        self._judge.begin_again()
        offered, threads = self._on_offered, self._threads
        place = (self._database, self._node, self.run, self._freshness, self._clock)
        self._lanes = Lanes(*place, offered, threads)
        self._lanes.start()
        log.info("run began", run=self.run, node=self._node)

    async def _renew(self) -> Look | None:
        passing("lease.renew")
        self._sent_at = sent_at = self._clock()
        try:
            look = await self._session(lambda link: link.renew(self.run))
        except ConnectionLost as error:
            if self._failed_renewals % TRIES_A_LINE == 0:
                log.warning("session connection lost", error=str(error), tries=self._failed_renewals)
            self._failed_renewals += 1
            await asyncio.sleep(RECONNECT_S)
            return None
        finally:
            self._sent_at = None
        self._failed_renewals = 0
        if look.renewals is not None:
            self._freshness.confirm(sent_at)
            self._count_renewal()
            if self._frozen_since is not None or self._freshness.announced:
                self._thaw()
        return look

    def _count_renewal(self) -> None:
        now = self._clock()
        if self._renewed_at is None or elapsed_ms(self._renewed_at, now) > LONGEST_GAP_MS:
            self._renewing_since = now
        self._renewed_at = now

    def _stuck_ms(self, now: Instant) -> int:
        """For how long a lane has waited while renewals went through: an outage of the database is no
        reason to leave, and the lanes connect again no earlier than the session does.
        """
        if self._lanes is None or self._renewing_since is None:
            return 0
        return min(self._lanes.stuck_ms, elapsed_ms(self._renewing_since, now))

    async def _session(self, function: Callable[[Link], Result]) -> Result:
        """Run `function` on the session connection. Raises ConnectionLost; the next call connects again."""
        async with self._connecting:
            if self._link is None:
                run = self.run
                self._link = await self._thread.run(lambda: self._database.connect(run, "session"))
                self._judge.begin_again()
            link = self._link
        try:
            return await self._thread.run(lambda: function(link))
        except ConnectionLost:
            if self._link is link:
                self._link = None
            self._thread.run(link.close)
            raise
        except VersionConflict as conflict:
            raise ConnectionLost(str(conflict)) from conflict

    async def _run_has_ended(self) -> None:
        """Somebody judged us dead: drop everything, hang up on everybody, begin a new run."""
        log.warning("run has ended", run=self.run)
        self._freshness.forget()
        lanes, self._lanes = self._lanes, None
        holdings, self._holdings = self._holdings, {}
        for holding in holdings.values():
            holding.lane.abandon()
        await _cancel(self._moves)
        self._taking.clear()
        if lanes is not None:
            await lanes.stop()
        for name, holding in holdings.items():
            await self._tell_given_up(name, holding, None)
        if self._link is not None:
            # Its name tells the old run, by which it would be ended.
            self._thread.run(self._link.close)
            self._link = None

    # --- freezing -------------------------------------------------------------------------------------------

    def _freeze(self, now: Instant) -> None:
        self._freshness.freeze()
        self._frozen_since = now
        metrics.frozen.set(1)
        log.warning("frozen", age_ms=self._freshness.age_ms)
        for service in self.running():
            service.freeze()

    def _thaw(self) -> None:
        late_ms = 0 if self._frozen_since is None else elapsed_ms(self._frozen_since, self._clock())
        was_frozen, self._frozen_since = self._frozen_since is not None, None
        if was_frozen:
            log.warning("thawed", late_ms=late_ms)
            # Whoever is in `accept` has armed timers, too.
            for holding in self._holdings.values():
                holding.service.thaw(late_ms)
        metrics.frozen.set(0)
        self._freshness.thaw()

    # --- leases ---------------------------------------------------------------------------------------------

    async def _act(self, look: Look, sent_at: Instant) -> None:
        """Judge, then take and give, on what one look showed."""
        if self._freshness.frozen:
            return
        for verdict in self._judge.look(look.peers, sent_at):
            look = await self._end(look, verdict.run, verdict.renewals, verdict.why)
        self._remember(look)
        there = {peer.run for peer in look.peers if peer.there} | {self.run}
        nodes = [node for node in self._standing.nodes if node.run in there]
        if self._draining or self._lanes is None:
            return
        moved = {name for name, moved_at in self._moved_at.items() if moved_at >= sent_at}
        busy = self._taking | self._parting | moved
        free_for = {name: elapsed_ms(since, self._clock()) for name, since in self._free_since.items()}
        for lease in to_take(look.leases, self.run, self._holdings.keys() | busy, nodes, free_for):
            if lease.name in self._services:
                self._taking.add(lease.name)
                self._move(self._take(self._lanes, lease))
        moving = sum(holding.giving for holding in self._holdings.values())
        if len(nodes) < 2:
            return
        movable = {
            name: holding.service.quiet_ms(self._clock())
            for name, holding in self._holdings.items()
            if holding.accepted and not holding.giving
        }
        for name, node in to_give(movable, self.run, nodes, moving):
            self._move(self._give(name, node))

    async def _end(self, look: Look, run: str, renewals: int, why: str) -> Look:
        """End a peer's run, unless it renewed meanwhile; the look as it is after that."""
        self._judge.forget(run)
        passing("lease.end")
        try:
            ended = await self._session(lambda link: link.end_run(run, renewals))
        except ConnectionLost:
            return look
        log.warning("peer judged", peer=run, why=why, ended=ended)
        if not ended:
            return look
        metrics.runs_ended.labels(why).inc()
        return replace(
            look,
            peers=tuple(peer for peer in look.peers if peer.run != run),
            leases=tuple(replace(row, free=row.free or row.run == run) for row in look.leases),
        )

    def _remember(self, look: Look) -> None:
        me = LiveNode(self.run, self._node, self._address, self._draining, self._node_id, self._kafka)
        by_run = {node.run: node for node in (me, *(peer.as_node() for peer in look.peers))}
        nodes = tuple(sorted(by_run.values(), key=lambda node: (node.node, node.run)))
        owners = {row.name: by_run[row.run] for row in look.leases if not row.free and row.run in by_run}
        owners.update({name: me for name in self._holdings})
        self._standing = _Standing(look, nodes, owners)
        now = self._clock()
        free = {lease.name for lease in look.leases if lease.free}
        self._free_since = {name: self._free_since.get(name, now) for name in free}

    async def _take(self, lanes: Lanes, lease: LeaseRow) -> None:
        name = lease.name
        try:
            lane = await lanes.take(name, self._index[name], lease.epoch, lease.run, lambda: self._lost(name))
            if lane is None:
                self.look_soon()
                return
            metrics.takeovers.labels("free" if lease.run is None else "ended run").inc()
            holding = self._holdings[name] = _Holding(lane, self._services[name])
        finally:
            self._taking.discard(name)
        log.info("lease taken", lane=name, epoch=lane.epoch, of=lease.run)
        holding.accepting = self._move(self._accept(name, holding))

    async def _accept(self, name: str, holding: _Holding) -> None:
        passing("lease.accept")
        try:
            await holding.service.accept(holding.lane)
        except Exception as error:
            if holding.lane.is_lost:
                return
            log.exception("a service could not accept its lane", lane=name, error=str(error))
            holding.accepting = None
            await self._give(name, None)
            return
        holding.accepted = True
        self._on_moved()

    async def _give(self, name: str, to: LiveNode | None) -> None:
        """Leave a lease on purpose: wind down, resign, tell the members where to go."""
        holding = self._holdings.get(name)
        if holding is None or holding.giving:
            return
        holding.giving = True
        try:
            if holding.accepted:
                await asyncio.wait_for(holding.service.wind_down(), WIND_DOWN_S)
        except Exception as error:
            log.warning("wind down failed", lane=name, error=repr(error))
        await holding.lane.resign()
        if self._holdings.get(name) is not holding:
            # Lost before it could be given: whoever saw that shows the members where to go.
            return
        self._moved_at[name] = self._clock()
        del self._holdings[name]
        self._parting.add(name)
        log.info("lease given away", lane=name, to=to.node if to else None)
        self._on_moved()
        await self._tell_given_up(name, holding, to.address if to else None)

    def _lost(self, name: str) -> None:
        """A fence, a read or a take showed that the lease is not ours any more."""
        holding = self._holdings.pop(name, None)
        self._moved_at[name] = self._clock()
        if holding is not None:
            log.warning("lease lost", lane=name)
            self._parting.add(name)
            task = asyncio.create_task(self._tell_given_up(name, holding, self.owner_address(name)))
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)
        self.look_soon()

    async def _tell_given_up(self, name: str, holding: _Holding, new_owner: str | None) -> None:
        accepting = holding.accepting
        if accepting is not None and accepting is not asyncio.current_task():
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        holding.accepted = False
        try:
            await holding.service.give_up(new_owner)
        except Exception:
            log.exception("a service could not give up its lane", lane=name)
        finally:
            # Only now may the lease be taken again: the service of a lane is one and the same, and a
            # farewell to its old lane that came late would leave the new one with nobody to serve it.
            self._parting.discard(name)

    def _move(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Something that the end of our run cuts short."""
        task = asyncio.create_task(work)
        self._moves.add(task)
        task.add_done_callback(self._moved)
        return task

    def _moved(self, task: "asyncio.Task[None]") -> None:
        self._moves.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("lease task failed", error=repr(error), exc_info=error)


async def _cancel(tasks: set["asyncio.Task[None]"]) -> None:
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
