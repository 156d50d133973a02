"""This room is a simulated node: the coordinator's real shells on the real lanes, streams, turns and leases.

Simulated are its loop and threads, the database (`runtime.memory`, and the rows of the group in it), the
websocket server's frames, and what `node.duties` does by the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from access.grants import Role
from access.tokens import Caller
from coordinator import cluster_view
from coordinator.callers import Callers
from coordinator.commits import Commit
from coordinator.core.draft import GroupDecision
from coordinator.core.events import GroupEvent, Heard
from coordinator.core.memory import GroupState
from coordinator.door import ConsumerDoor
from coordinator.service import Premises, ShardService
from coordinator.settings import CoordinatorSettings
from coordinator.sockets import TEXT_EXTENSION, ConsumerSocket
from coordinator.speech import Speech
from groups.core.state import GroupRows
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.member import PingResponse
from runtime.desk import WorkDesk
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.ports import Connection as DatabaseConnection
from runtime.side import SideLink
from tests.simulation.looping import SimulatedThread
from tests.simulation.native.aged import AgedStore, of_short_memory
from tests.simulation.native.network import Connection, Truth
from tests.simulation.native.rows import GROUP, LANE, GroupsDatabase, Store
from tests.simulation.node_process import NodeProcess

if TYPE_CHECKING:
    from tests.simulation.native.cluster import Cluster

SWEEP_MS = 1_000
OUR_MISTAKE = "a mistake of ours, injected"
Result = TypeVar("Result")


class Node(NodeProcess):
    """One node process, and NodeContext for its shard. `status`: up, paused, over."""

    tokens_known = True
    store_kind = Store

    def __init__(self, cluster: Cluster, number: int) -> None:
        name = f"node-{number}"
        super().__init__(cluster.world, name, f"ws://{name}")
        self.cluster, self.world = cluster, cluster.world
        self.fails = 0
        self.loses_words = self.settling = False
        self.store = (AgedStore if self.world.is_ageing else self.store_kind)(self)
        self.database = GroupsDatabase(self.world.rows, self)
        self.decision: GroupDecision | None = None
        self.decided_on: Sequence[GroupEvent] = ()
        self.lines: dict[str, Line] = {}
        self.loop.perform(self._begin)

    # -- the process ------------------------------------------------------------------------

    def _begin(self) -> None:
        world = self.world
        threads = partial(SimulatedThread, world, self.loop)
        premises = Premises(cast(Any, self), self._settings())
        premises.store = self.store
        if world.is_wordy:
            premises.speech = SlowSpeech(premises.callers, self.now, self)
        self.service = ShardService(int(LANE.rpartition("/")[2]), premises)
        if world.commits_in_portions:
            self.service._commits.portion = 1
        # Pages are no part of the simulation.
        self.service._waits.look = lambda *_: False  # type: ignore[method-assign]
        self.groups = self.service._groups
        self._watch()
        self.door = ConsumerDoor(cast(Any, self), {LANE: self.service})
        self.freshness = Freshness(self.now, world.settings.lease_ttl_ms)
        self.side = SideLink(self.database, lambda: self.keeper.run, "queries", threads)
        self.desk = WorkDesk(
            self.side.query,
            world.workers,
            world.workers,
            self.now,
            lambda: self.keeper.accepted,
            self._finished,
        )
        self.keeper = LeaseKeeper(
            self.database,
            self.name,
            self.address,
            {LANE: self.service},
            self.freshness,
            self.now,
            on_offered=self.desk.offered,
            leave=self._leave,
            threads=threads,
        )
        self.loop.create_task(self.keeper.keep(), name="keeper")
        self._swept_at = self.now()
        self._begin_duties()

    def _settings(self) -> CoordinatorSettings:
        settings = CoordinatorSettings(group=self.world.settings, offset_commit_interval_ms=700)
        return of_short_memory(settings) if self.world.is_ageing else settings

    def _sweep(self, now: Instant) -> None:
        if elapsed_ms(self._swept_at, now) >= SWEEP_MS:
            self._swept_at = now
            self.desk.look()

    def _finished(self, lane: str, kind: str, key: str) -> None:
        if lane in self.keeper.accepted:
            self.service.woken("work", f"{kind} {key}")

    def woken(self, name: str, key: str = "") -> None:
        """A notification reaches the process."""
        self.loop.perform(self._woken, name, key)

    def _woken(self, name: str, key: str) -> None:
        for service in self.keeper.running():
            service.woken(name, key)

    def _leave(self, reason: str) -> None:
        self.world.tell(f"  {self.name} leaves: {reason}")
        self.crash()

    # -- faults -----------------------------------------------------------------------------

    def crash(self) -> None:
        """kill −9: memory and sockets are gone; the database sees its connections end."""
        self.status = "over"
        self.close_door()
        for line in self.lines.values():
            line.connection.break_link(200)
        self.database.break_all()
        self.loop.end()

    def close_door(self) -> None:
        """Connections of its peers break, and nobody listens there any more (`runtime.vigils`)."""
        if self.world.is_watchful:
            self.refuse(self.cluster.nodes)

    def may_fail(self) -> None:
        """Asked by whatever is written: our own mistake."""
        if self.fails:
            self.fails -= 1
            self.world.tell(f"  {self.name}: a transaction is rolled back by a mistake")
            raise RuntimeError(OUR_MISTAKE)

    # -- NodeContext ------------------------------------------------------------------------

    async def query(self, function: Callable[[DatabaseConnection], Result]) -> Result:
        """What a shard asks of the other tables: how many partitions topics have, and what operators wish."""
        if self.world.is_operated and function.__module__ != cluster_view.__name__:
            return await self.side.query(function)
        await asyncio.sleep(0.002)
        return cast(Result, (dict(self.world.layouts), ()))

    def wake(self, name: str, key: str = "") -> None:
        """Pages would hear of it."""

    kafka_callers = None
    kafka_callers_at = Instant(0)

    def verify_token(self, presented: str) -> Caller:
        return Caller(presented, Role.CONSUMER, presented)

    # -- websockets -------------------------------------------------------------------------

    def open(self, connection: Connection) -> None:
        """The server accepts a websocket."""
        line = self.lines[connection.id] = Line(self, connection)
        self.loop.perform(line.begin)

    def frame_arrived(self, connection: Connection, text: str, truth: Truth) -> None:
        if connection.id in self.lines:
            self.loop.perform(self.lines[connection.id].hear, text, truth)

    def connection_lost(self, connection: Connection) -> None:
        if connection.id in self.lines:
            self.loop.perform(self.lines[connection.id].lose)

    # -- what the world watches -------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Under which it believes to serve the group; 0: it does not."""
        lane = self.service._lane
        return lane.epoch if lane is not None else 0

    @property
    def state(self) -> GroupState | None:
        """The group in this node's memory."""
        return self.groups.states.get(GROUP)

    def _watch(self) -> None:
        """Look at each decision and each commit as it passes; nothing of it is changed."""
        groups, service, cluster = self.groups, self.service, self.cluster
        decide, revive, settle = groups.decide, groups.revive, groups.settle
        hear, commit, hear_at_once = service.hear, service.commit, groups.hear_at_once
        commit_batch = service._commits.committed

        def decided(key: str, state: GroupState, events: Sequence[GroupEvent], now: Instant) -> Any:
            self.decision, self.decided_on = cast(GroupDecision, decide(key, state, events, now)), events
            cluster.checks.left_a_trace(self, state, events, now, self.decision)
            return self.decision

        def revived(key: str, loaded: GroupRows, now: Instant) -> Any:
            state, decision = revive(key, loaded, now)
            self.decision, self.decided_on = cast(GroupDecision, decision), ()
            return state, decision

        def settled(key: str, state: GroupState, decision: Any) -> None:
            cluster.checks.decided(state, decision, self.decided_on)
            self.settling = bool(decision.records)
            try:
                settle(key, state, decision)
            finally:
                self.settling = False
            cluster.checks.remembered(self)

        def committed(rows: Mapping[Any, Any]) -> None:
            commit_batch(rows)
            cluster.checks.remembered(self)

        def heard(caller: Any, key: str, message: Any, client_host: str = "") -> bool:
            cluster.checks.heard(message)
            return hear(caller, key, message, client_host)

        def heard_at_once(key: str, event: Heard, at: Instant, *, repair: bool) -> None:
            hear_at_once(key, event, at, repair=repair)
            if isinstance(event.message, PingResponse) and key in groups.states:
                cluster.checks.noted(event.message, groups.states[key])

        def asked(one: Commit) -> bool:
            return commit(cluster.checks.watched(one))

        for owner, name, watched in (
            (groups, "decide", decided),
            (groups, "revive", revived),
            (groups, "settle", settled),
            (groups, "hear_at_once", heard_at_once),
            (service, "hear", heard),
            (service, "commit", asked),
            (service._commits, "committed", committed),
        ):
            setattr(owner, name, watched)


class SlowSpeech(Speech):
    """What a node says where many more are told in one turn than the simulation has members: any slice may be
    over, and all that happens elsewhere comes between two of them.
    """

    def __init__(self, callers: Callers, now: Callable[[], Instant], node: Node) -> None:
        super().__init__(callers, now)
        self._node = node

    def _is_slice_over(self) -> bool:
        return super()._is_slice_over() or self._node.world.chance.random() < 0.5

    def _rest(self, go_on: Callable[[], None]) -> None:
        chance = self._node.world.chance
        long = chance.random() < 0.2 and not self._node.world.quiet
        self._node.loop.call_later(chance.uniform(0.05, 0.8) if long else 0.002, go_on)


class Line:
    """The server's end of one websocket: an ASGI scope, and the short way for texts (TextLine)."""

    def __init__(self, node: Node, connection: Connection) -> None:
        self.node, self.connection = node, connection
        self._hear: Callable[[str], float] | None = None
        self._closed = False

    def begin(self) -> None:
        """Run the application."""
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._events.put_nowait({"type": "websocket.connect"})
        headers = [(b"authorization", b"Bearer " + self.connection.id.encode())]
        scope = {"headers": headers, "client": ("10.0.0.1", 1), "extensions": {TEXT_EXTENSION: self}}
        serving = ConsumerSocket(self.node.door)(scope, self._events.get, self._send)
        self.node.loop.create_task(serving).add_done_callback(self._end)

    def hear_by(self, hear: Callable[[str], float], fits: Callable[[int], bool], whose: str) -> None:
        self._hear = hear

    def say_now(self, payload: bytes) -> bool:
        if self.node.loses_words and self.node.settling:
            self.node.loses_words = False
            self.node.world.tell(f"  {self.node.name}: its words are lost after the commit")
            raise RuntimeError(OUR_MISTAKE)
        self._say(payload)
        return True

    def rest(self) -> Callable[[], None]:
        """Nobody here says so much."""
        return lambda: None

    def cut_off_within(self, seconds: float) -> None:
        self.node.loop.call_later(seconds, self._close)

    def hear(self, text: str, truth: Truth) -> None:
        if self._hear is not None and not self._closed:
            with self.node.cluster.checks.hearing(self.connection, text, truth):
                self._hear(text)

    def lose(self) -> None:
        self._events.put_nowait({"type": "websocket.disconnect"})

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.send":
            self._say(message["text"].encode())
        elif message["type"] == "websocket.close":
            self._close()

    def _say(self, payload: bytes) -> None:
        if not self._closed:
            self.connection.to_member(payload)

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self.connection.close_by_owner()

    def _end(self, serving: asyncio.Future[None]) -> None:
        del self.node.lines[self.connection.id]
        if not self.node.loop.over:
            self._close()
            if not serving.cancelled() and (error := serving.exception()) is not None:
                self.node.world.break_off(f"a websocket failed: {error!r}", error)
