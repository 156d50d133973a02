"""This room holds the leases of a node: it takes and accepts them, gives them away, and says good-bye.

Which ones, and when, `runtime.leases` knows, who looks at all of them (leases.md section 3).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from muster.kernel.instants import Instant, after
from runtime import metrics
from runtime.database import LeaseRow
from runtime.failpoints import passing
from runtime.lanes import HeldLane, Lanes
from runtime.ports import LaneLost, LaneService, LiveNode
from runtime.refusals import OnRefused, Refused, tell_nobody
from runtime.rests import Rests

WIND_DOWN_S = 2.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Holding:
    """A lease that this node holds: its lane, and the service that runs on it."""

    lane: HeldLane
    service: LaneService
    accepting: "asyncio.Task[None] | None" = None
    accepted: bool = False
    giving: bool = False


class Holdings:
    """What this node holds, by the name of the lease; `services` has one service for each lease there is."""

    def __init__(
        self,
        services: Mapping[str, LaneService],
        clock: Callable[[], Instant],
        look_soon: Callable[[], None],
        on_moved: Callable[[], None],
        owner_address: Callable[[str], str | None],
        on_refused: OnRefused = tell_nobody,
    ) -> None:
        self.held: dict[str, Holding] = {}
        self._services = dict(services)
        self._index = {name: number for number, name in enumerate(services)}
        self._clock = clock
        self._look_soon = look_soon
        self._on_moved = on_moved
        self._owner_address = owner_address
        self._on_refused = on_refused
        self._rests = Rests()
        self._rest_until: dict[str, Instant] = {}
        self._taking: set[str] = set()
        self._parting: set[str] = set()
        self._moved_at: dict[str, Instant] = {}
        self._moves: set[asyncio.Task[None]] = set()
        self._farewells: set[asyncio.Task[None]] = set()

    # --- what others ask ------------------------------------------------------------------------------------

    @property
    def accepted(self) -> frozenset[str]:
        """The leases under which this node accepts work now."""
        return frozenset(name for name, holding in self.held.items() if holding.accepted)

    def running(self) -> Sequence[LaneService]:
        """The services whose lease is held and whose `accept` has returned."""
        return [holding.service for holding in self.held.values() if holding.accepted]

    def moving_since(self, sent_at: Instant) -> set[str]:
        """Leases of which a look that was sent then says nothing: they are, or were since, on the move."""
        moved = {name for name, moved_at in self._moved_at.items() if moved_at >= sent_at}
        return self._taking | self._parting | moved

    @property
    def giving(self) -> int:
        """How many are being given away."""
        return sum(holding.giving for holding in self.held.values())

    def quiet_ms(self, now: Instant) -> dict[str, int]:
        """For how long nothing has moved in each that may be given away."""
        return {
            name: holding.service.quiet_ms(now)
            for name, holding in self.held.items()
            if holding.accepted and not holding.giving
        }

    # --- the moves ------------------------------------------------------------------------------------------

    def take(self, lanes: Lanes, leases: Sequence[LeaseRow]) -> None:
        """Take these, but those that rest, and accept work under each."""
        now = self._clock()
        for lease in leases:
            if lease.name in self._services and self._rest_until.get(lease.name, now) <= now:
                self._taking.add(lease.name)
                self._move(self._take(lanes, lease))

    def give_soon(self, name: str, to: LiveNode) -> None:
        """Give one away meanwhile."""
        self._move(self.give(name, to))

    async def cut_short(self) -> None:
        """Our run has ended: forget all of them, and what was under way; then `part` with each."""
        await _cancel(self._moves)
        self._taking.clear()

    async def stop(self) -> None:
        """End what is under way."""
        await _cancel(self._moves | self._farewells)

    async def _take(self, lanes: Lanes, lease: LeaseRow) -> None:
        name = lease.name
        try:
            lane = await lanes.take(name, self._index[name], lease.epoch, lease.run, lambda: self._lost(name))
            if lane is None:
                self._look_soon()
                return
            metrics.takeovers.labels("free" if lease.run is None else "ended run").inc()
            holding = self.held[name] = Holding(lane, self._services[name])
        finally:
            self._taking.discard(name)
        log.info("lease taken", lane=name, epoch=lane.epoch, of=lease.run)
        holding.accepting = self._move(self._accept(name, holding))

    async def _accept(self, name: str, holding: Holding) -> None:
        passing("lease.accept")
        try:
            await holding.service.accept(holding.lane)
        except Exception as error:
            if holding.lane.is_lost or (holding.giving and isinstance(error, LaneLost)):
                # It is somebody else's, or about to be: whoever gives it away tells the service.
                return
            log.exception("a service could not accept its lane", lane=name, error=str(error))
            # Somebody else may be able to; who cannot must not take it over and over.
            self._rest_until[name] = after(self._clock(), self._rests.after(name, error))
            self._on_refused(Refused(name, "", (), error))
            holding.accepting = None
            await self.give(name, None)
            return
        holding.accepted = True
        self._rests.went_well(name)
        self._on_moved()

    async def give(self, name: str, to: LiveNode | None) -> None:
        """Leave a lease on purpose: wind down, resign, tell the members where to go."""
        holding = self.held.get(name)
        if holding is None or holding.giving:
            return
        holding.giving = True
        try:
            if holding.accepted:
                await asyncio.wait_for(holding.service.wind_down(), WIND_DOWN_S)
        except Exception as error:
            log.warning("wind down failed", lane=name, error=repr(error))
        await holding.lane.resign()
        if self.held.get(name) is not holding:
            # Lost before it could be given: whoever saw that shows the members where to go.
            return
        self._moved_at[name] = self._clock()
        del self.held[name]
        log.info("lease given away", lane=name, to=to.node if to else None)
        farewell = self._part(name, holding, to.address if to else None)
        self._on_moved()
        # Whoever ends this move does not end that: a service that forgot half could never be used again.
        await asyncio.shield(farewell)

    def _lost(self, name: str) -> None:
        """A fence, a read or a take showed that the lease is not ours any more."""
        holding = self.held.pop(name, None)
        self._moved_at[name] = self._clock()
        if holding is not None:
            log.warning("lease lost", lane=name)
            self._part(name, holding, self._owner_address(name))
        self._look_soon()

    def _part(self, name: str, holding: Holding, new_owner: str | None) -> "asyncio.Task[None]":
        self._parting.add(name)
        task = asyncio.create_task(self.tell_given_up(name, holding, new_owner))
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)
        return task

    async def tell_given_up(self, name: str, holding: Holding, new_owner: str | None) -> None:
        """The service hears that the lease is gone, and who serves its callers now."""
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
