"""This room keeps a node's run alive, takes leases and gives them away (leases.md sections 3 and 5)."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from muster.kernel.instants import Instant, elapsed_ms
from runtime import metrics
from runtime.database import Database, Link, Look, Said
from runtime.failpoints import passing
from runtime.freshness import LEASE_TTL_MS, Freshness
from runtime.holdings import WIND_DOWN_S, Holdings
from runtime.judging import LONGEST_GAP_MS, Judge
from runtime.lanes import Lanes
from runtime.making_way import NOBODY, Heard, MakingWay
from runtime.ports import (
    CONTROLLER_LANE,
    ConnectionLost,
    LaneService,
    LiveNode,
    VersionConflict,
    lost_where_nothing_is_done,
)
from runtime.refusals import OnRefused, tell_nobody
from runtime.sharing import best, to_give, to_take
from runtime.threads import OneThread, Threads
from runtime.work_table import Offered

RECONNECT_S = 0.1
TRIES_A_LINE = 300
"""An outage is said once, then every half minute."""

STUCK_EXIT_CODE = 70

DOUBT_EVERY_MS = 100
"""Thousands of members may ask at once for a node that died; it is looked for no more often."""

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


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
        on_refused: OnRefused = tell_nobody,
        keep_vigil: Callable[[Mapping[str, str]], None] = lambda addresses: None,
        heard: Callable[[], Heard] = lambda: NOBODY,
    ) -> None:
        self._database = database
        self._node = node
        self._address = address
        self._kafka = kafka
        self._node_id = 0
        self._freshness = freshness
        self._clock = clock
        self._on_offered = on_offered
        self._on_refused = on_refused
        self._on_moved = on_moved
        self._keep_vigil = keep_vigil
        self._heard = heard
        self._making_way = MakingWay()
        self._holdings = Holdings(services, clock, self.look_soon, on_moved, self.owner_address, on_refused)
        self._leave = leave
        self._judge = Judge()
        self._threads = threads
        self._thread = threads("session")
        self._link: Link | None = None
        self._sent_at: Instant | None = None
        self._renewed_at: Instant | None = None
        self._failed_renewals = 0
        self._trouble = ""
        self._asked_at: Instant | None = None
        """Since when the session's connection owes an answer."""
        self._renewing_since: Instant | None = None
        self._look_now = asyncio.Event()
        self._looked_at = clock()
        self._standing = _Standing()
        self._free_since: dict[str, Instant] = {}
        self._connecting = asyncio.Lock()
        self._frozen_since: Instant | None = None
        self._draining = False
        self._giving_way: tuple[str, asyncio.Task[None]] | None = None
        """The run that is being ended, or was, and what ends it."""
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
        return self._holdings.accepted

    @property
    def held(self) -> frozenset[str]:
        """The leases that this node holds, accepted or not yet."""
        return frozenset(self._holdings.held)

    def service(self, lane: str) -> LaneService | None:
        """The service of a lane that is held and accepted here."""
        holding = self._holdings.held.get(lane)
        return holding.service if holding is not None and holding.accepted else None

    def live_nodes(self) -> tuple[LiveNode, ...]:
        """Nodes as the last look showed them, sorted by name (NodeContext.live_nodes)."""
        return self._standing.nodes

    def owners(self) -> Mapping[str, LiveNode]:
        """Who holds which lease (NodeContext.owners)."""
        return self._standing.owners

    def owner_address(self, lane: str) -> str | None:
        """Where members of this lane should connect (NodeContext.owner_address)."""
        if lane in self._holdings.held:
            # Known before the next look shows it: thousands may wait for it.
            return self._address
        owner = self._standing.owners.get(lane)
        if owner is None or owner.run == self.run:
            return None
        return owner.address

    def running(self) -> Sequence[LaneService]:
        """The services whose lease is held and whose `accept` has returned."""
        return self._holdings.running()

    def look_soon(self) -> None:
        """Leases have moved: look at them now instead of in up to 0.4 s."""
        self._look_now.set()

    def doubt_owner(self) -> None:
        """Somebody looks for an owner who is elsewhere, and who may be dead (NodeContext.doubt_owner)."""
        if elapsed_ms(self._looked_at, self._clock()) >= DOUBT_EVERY_MS:
            self.look_soon()

    def refused(self, run: str) -> None:
        """A connection to this peer broke, and its address refuses: its process may have ended (`vigils`)."""
        log.info("peer hung up, and nobody listens there", peer=run)
        self._judge.refused(run, self._clock())
        self.look_soon()

    # --- life -----------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Renew every 0.4 s and act on what the look shows, until cancelled."""
        while True:
            if self._lanes is None:
                await self._begin_run()
            self._looked_at = sent_at = self._clock()
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
            now = self._clock()
            rest_s = (self._judge.look_after_ms(now) - elapsed_ms(sent_at, now)) / 1000
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`, which in Python 3.11 forgets a cancellation that comes with what it awaits.
                async with asyncio.timeout(max(rest_s, 0.0)):
                    await self._look_now.wait()
                await asyncio.sleep(0.02)
            self._look_now.clear()

    def watch(self, now: Instant) -> None:
        """Called every 100 ms: freeze when the last renewal is too old, exit when nothing commits."""
        metrics.lease_age_ms.set(self._freshness.age_ms)
        metrics.leases_held.set(len(self._holdings.held))
        if self._freshness.frozen:
            if self._frozen_since is None:
                self._freeze(now)
        elif self._stuck_ms(now) >= LEASE_TTL_MS:
            self._leave("a lane connection commits nothing though renewals do")
        elif self._lacks_a_connection(now):
            self._give_way()
        if self._sent_at is not None and elapsed_ms(self._sent_at, now) >= LEASE_TTL_MS and self._link:
            # Whoever waits behind a network that swallows everything would wait for ever.
            self._link.shut()

    def frozen_ms(self, now: Instant) -> int:
        """For how long this node has been frozen; 0 if it is not."""
        return 0 if self._frozen_since is None else elapsed_ms(self._frozen_since, now)

    def postpone(self, late_ms: int) -> None:
        """The loop stood still: give the time back, unless a thaw will, which counts from the freezing.

        A lane that woke up first may have noticed that the renewal is old; that alone gives nothing back.
        """
        if self._lanes is not None:
            self._lanes.stood_still(late_ms)
        if self._frozen_since is not None:
            return
        for holding in self._holdings.held.values():
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
        gifts = [self._holdings.give(name, best(others, name)) for name in list(self._holdings.held)]
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*gifts), 2 * WIND_DOWN_S)
        self._left = True
        with contextlib.suppress(ConnectionLost, asyncio.TimeoutError):
            await asyncio.wait_for(self._session(lambda link: link.leave(self.run)), WIND_DOWN_S)
        self._on_moved()

    async def stop(self) -> None:
        """Close every connection. Leases that are still held are free as soon as somebody ends the run."""
        await self._holdings.stop()
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
        except ConnectionLost as error:
            self._trouble = f"no run can begin: {error}"
            await asyncio.sleep(RECONNECT_S)
            return
        self._trouble = ""
        self._judge.begin_again()
        offered, threads = self._on_offered, self._threads
        place = (self._database, self._node, self.run, self._freshness, self._clock)
        self._lanes = Lanes(*place, offered, threads, on_refused=self._on_refused)
        self._lanes.start()
        log.info("run began", run=self.run, node=self._node)

    async def _renew(self) -> Look | None:
        passing("lease.renew")
        self._sent_at = sent_at = self._clock()
        said = Said(self._heard().came, self._making_way.made_way_for)
        try:
            look = await self._session(lambda link: link.renew(self.run, said))
        except ConnectionLost as error:
            if self._failed_renewals % TRIES_A_LINE == 0:
                log.warning("session connection lost", error=str(error), tries=self._failed_renewals)
            self._failed_renewals += 1
            self._trouble = f"renewals fail: {error}"
            await asyncio.sleep(RECONNECT_S)
            return None
        finally:
            self._sent_at = None
        self._failed_renewals = 0
        self._trouble = ""
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

    def _lacks_a_connection(self, now: Instant) -> bool:
        """A lane has got no connection for so long though renewals go through, and others may have some."""
        if self._lanes is None or self._renewing_since is None or not self._holdings.held:
            return False
        waits_ms = min(self._lanes.unlinked_ms, elapsed_ms(self._renewing_since, now))
        return waits_ms >= LEASE_TTL_MS and any(node.run != self.run for node in self._standing.nodes)

    def _give_way(self) -> None:
        """End our own run, as another node would: whoever can serves its leases; if nobody can, we again."""
        if self._giving_way is None or self._giving_way[0] != self.run:
            log.error("no connection for a lane can be made: others may serve its leases", run=self.run)
            self._giving_way = self.run, asyncio.create_task(self._end_own_run(self.run))

    async def _end_own_run(self, run: str) -> None:
        try:
            await self._session(lambda link: link.leave(run))
        except (ConnectionLost, VersionConflict):
            self._giving_way = None
        else:
            # The next renewal finds it ended.
            self.look_soon()

    async def _session(self, function: Callable[[Link], Result]) -> Result:
        """Run `function` on the session connection. Raises ConnectionLost; the next call connects again."""
        # A full disk, or a server that only reads: as one that is away, the node freezes and goes on.
        with lost_where_nothing_is_done():
            async with self._connecting:
                if self._link is None:
                    run = self.run
                    self._link = await self._thread.run(lambda: self._database.connect(run, "session"))
                    self._judge.begin_again()
                link = self._link
            self._asked_at = self._clock()
            try:
                return await self._thread.run(lambda: function(link))
            except ConnectionLost:
                if self._link is link:
                    self._link = None
                self._thread.run(link.close)
                raise
            finally:
                self._asked_at = None

    async def _run_has_ended(self) -> None:
        """Somebody judged us dead: drop everything, hang up on everybody, begin a new run."""
        log.warning("run has ended", run=self.run)
        self._trouble = "another node has ended its run"
        self._freshness.forget()
        lanes, self._lanes = self._lanes, None
        holdings, self._holdings.held = self._holdings.held, {}
        for holding in holdings.values():
            holding.lane.abandon()
        await self._holdings.cut_short()
        if lanes is not None:
            await lanes.stop()
        for name, holding in holdings.items():
            await self._holdings.tell_given_up(name, holding, None)
        if self._link is not None:
            # Its name tells the old run, by which it would be ended.
            self._thread.run(self._link.close)
            self._link = None

    # --- freezing -------------------------------------------------------------------------------------------

    def _freeze(self, now: Instant) -> None:
        self._freshness.freeze()
        self._frozen_since = now
        metrics.frozen.set(1)
        log.warning("frozen", age_ms=self._freshness.age_ms, why=self.why_frozen(now))
        for service in self.running():
            service.freeze()

    def why_frozen(self, now: Instant) -> str:
        """What an operator is to look at: the database, who holds a lock there, or this machine."""
        if self._trouble:
            return self._trouble
        if self._asked_at is not None:
            return f"the database has not answered for {elapsed_ms(self._asked_at, now)} ms"
        if self._renewed_at is None:
            return "this process has not renewed yet"
        return "no renewal was sent: this process stood still"

    def _thaw(self) -> None:
        late_ms = 0 if self._frozen_since is None else elapsed_ms(self._frozen_since, self._clock())
        was_frozen, self._frozen_since = self._frozen_since is not None, None
        if was_frozen:
            log.warning("thawed", late_ms=late_ms)
            # Whoever is in `accept` has armed timers, too.
            for holding in self._holdings.held.values():
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
        holdings = self._holdings
        busy = holdings.held.keys() | holdings.moving_since(sent_at)
        free_for = {name: elapsed_ms(since, self._clock()) for name, since in self._free_since.items()}
        holdings.take(self._lanes, to_take(look.leases, self.run, busy, nodes, free_for))
        quiet_ms = holdings.quiet_ms(self._clock())
        if self._make_way(look, sent_at, holds=CONTROLLER_LANE in quiet_ms):
            # Its nodes are those of before; to the best of them it would go by what is half told.
            quiet_ms.pop(CONTROLLER_LANE, None)
        if len(nodes) < 2:
            return
        for name, node in to_give(quiet_ms, self.run, nodes, holdings.giving):
            holdings.give_soon(name, node)

    def _make_way(self, look: Look, sent_at: Instant, *, holds: bool) -> bool:
        """Leave the controller to a node that brokers come to, if they do not come here; whether it is, or
        was, to be told to whom.
        """
        heard, was_for = self._heard(), self._making_way.made_way_for
        controller = next((row.run for row in look.leases if row.name == CONTROLLER_LANE), None) or ""
        to = self._making_way.look(self.run, look.peers, heard, sent_at, controller, holds=holds)
        if self._making_way.made_way_for != was_for:
            self.look_soon()
        if to is not None:
            told = {"came_there": sorted(to.came), "linked_here": sorted(heard.linked - heard.silent)}
            log.warning("makes way as controller: brokers reach another node", to=to.node, **told)
            self._holdings.give_soon(CONTROLLER_LANE, to.as_node())
        return bool(was_for or self._making_way.made_way_for)

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
        place = (self.run, self._node, self._address, self._draining, self._node_id, self._kafka)
        me = LiveNode(*place, self._making_way.made_way_for)
        by_run = {node.run: node for node in (me, *(peer.as_node() for peer in look.peers))}
        nodes = tuple(sorted(by_run.values(), key=lambda node: (node.node, node.run)))
        # Who seems dead at this look is named to nobody: it is back at the next, or another has taken over.
        there = {peer.run for peer in look.peers if peer.there} | {self.run}
        owners = {row.name: by_run[row.run] for row in look.leases if not row.free and row.run in there}
        owners.update({name: me for name in self._holdings.held})
        self._standing = _Standing(look, nodes, owners)
        now = self._clock()
        free = {lease.name for lease in look.leases if lease.free}
        self._free_since = {name: self._free_since.get(name, now) for name in free}
        self._keep_vigil({peer.run: peer.address for peer in look.peers})
