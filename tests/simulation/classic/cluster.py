"""This room is one seed's cast of nodes and Kafka clients, and the checks across them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

from coordinator import cluster_view
from coordinator.commits import Commit
from coordinator.core.draft import GroupDecision
from coordinator.core.events import ClassicRequest, GroupEvent, Waiter
from coordinator.core.memory import ClassicMemory, GroupState
from coordinator.core.settings import GroupSettings
from coordinator.settings import CoordinatorSettings
from coordinator.store_offsets import GroupOffsets
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.ids import TopicName
from muster.kernel.instants import Instant
from muster.messages.partitions import Partition
from runtime.ports import Connection as DatabaseConnection
from tests.simulation.classic.checks import Checks
from tests.simulation.classic.client import Client
from tests.simulation.classic.ledger import Ledger
from tests.simulation.classic.operators import Operators
from tests.simulation.classic.reader import NEVER_READ, PARTITIONS
from tests.simulation.classic.seat import Seat
from tests.simulation.native import aged
from tests.simulation.native import cluster as native
from tests.simulation.native.node import Node
from tests.simulation.native.topics import layout
from tests.simulation.native.world import World

BOUNDED_IN_EACH = 8
"""One world of so many bounds what all members state of themselves, by LITTLE_METADATA_BYTES."""

LITTLE_METADATA_BYTES = 300

Result = TypeVar("Result")


class KafkaNode(Node):
    """A node whose clients speak Kafka: decisions are looked at as they pass."""

    store_kind = aged.AgedStore
    cluster: Cluster  # type: ignore[assignment]

    def _settings(self) -> CoordinatorSettings:
        return aged.of_short_memory(super()._settings())

    async def query(self, function: Callable[[DatabaseConnection], Result]) -> Result:
        if function.__module__ == cluster_view.__name__:
            return await super().query(function)
        return await self.side.query(function)

    def _watch(self) -> None:
        groups, checks = self.groups, self.cluster.checks
        decide, revive, settle, preload = groups.decide, groups.revive, groups.settle, groups.preload

        def decided(key: str, state: GroupState, events: Sequence[GroupEvent], now: Instant) -> Any:
            self.decision, self.decided_on = cast(GroupDecision, decide(key, state, events, now)), events
            checks.decided(self, self.decision)
            checks.left_a_trace(self, state, events, now, self.decision)
            return self.decision

        def revived(key: str, loaded: GroupRows, now: Instant) -> Any:
            state, decision = revive(key, loaded, now)
            self.decision, self.decided_on = cast(GroupDecision, decision), ()
            checks.loaded()
            return state, decision

        def preloaded(loaded: GroupRows, now: Instant) -> bool:
            checks.loaded()
            return preload(loaded, now)

        def settled(key: str, state: GroupState, decision: Any) -> None:
            self.settling = bool(decision.records)
            try:
                settle(key, state, decision)
            finally:
                self.settling = False

        for name, watched in (
            ("decide", decided),
            ("revive", revived),
            ("preload", preloaded),
            ("settle", settled),
        ):
            setattr(groups, name, watched)
        self._watch_who_waits()

    def _watch_who_waits(self) -> None:
        """Whoever waits for what will not be decided any more is told, at once."""
        groups, service = self.groups, self.service
        drop, refuse, give_up = groups.drop, groups.refuse, service.give_up
        commits = service._commits
        add = commits.add

        def dropped(key: str) -> None:
            state = groups.states.get(key)
            memory = ClassicMemory() if state is None else state.classic
            drop(key)
            parked = {one.waiter for one in (*memory.joins.values(), *memory.syncs.values())}
            self.world.forbid(parked & self._waited_for(), "a cache was dropped, and who is parked waits on")

        def refused(key: str, events: Sequence[GroupEvent], error: Exception) -> None:
            refuse(key, events, error)
            asked = {event.waiter for event in events if isinstance(event, ClassicRequest)}
            self.world.forbid(asked & self._waited_for(), "a turn came to nothing, and who asked waits on")

        def queued(commit: Commit) -> bool:
            self.cluster.ledger.queued(commit)
            return add(commit)

        async def gave_up(new_owner: str | None) -> None:
            await give_up(new_owner)
            self.world.forbid(self._waited_for(), "the shard is another's, and somebody waits on here")

        for owner, name, watched in (
            (groups, "drop", dropped),
            (groups, "refuse", refused),
            (service, "give_up", gave_up),
            (commits, "add", queued),
        ):
            setattr(owner, name, watched)

    def _waited_for(self) -> set[Waiter]:
        """Of whoever has all that was said to it."""
        premises = self.service.premises
        seats = [seat for seat in premises.callers.of_shard(self.service.shard) if isinstance(seat, Seat)]
        unsaid = {to for to, _, _ in premises.speech._unsaid}
        return {waiter for seat in seats if seat.id not in unsaid for waiter in seat.waiting}


class KafkaWorld(World):
    """The world of one seed, in which turns are looked at as those of a classic group."""

    may_age = False
    checks: Checks
    ledger: Ledger

    def turn_committed(self, node: Node, before: GroupRows, written: Sequence[Any]) -> None:
        super().turn_committed(node, before, written)
        self.ledger.turn(node, before, written, self.rows.rows)

    def batch_committed(self, node: Node, written: GroupOffsets) -> None:
        self.ledger.batch(written, self.rows.rows)
        self.checks.batch(self.rows.rows)


class Cluster:
    """The world and everybody in it; what `native.Faults` breaks of nodes it breaks here."""

    def __init__(self, seed: int) -> None:
        self.world = KafkaWorld(seed)
        chance = self.world.chance
        self.world.settings = GroupSettings(
            lease_ttl_ms=5_000,
            group_initial_rebalance_delay_ms=chance.choice((0, 300, 3_000)),
            group_max_size=chance.choice((100, 100, 100, 3)),
            group_max_metadata_bytes=LITTLE_METADATA_BYTES if seed % BOUNDED_IN_EACH == 6 else 100_000,
        )
        self.world.layouts[TopicName(NEVER_READ)] = layout(NEVER_READ, 100, 1)
        self.checks = self.world.checks = Checks(self)
        self.ledger = self.world.ledger = Ledger(self)
        self.operators = Operators(self)
        self.nodes: list[Node] = []
        self.clients: list[Client] = []
        self._numbers = 0
        self.world.woken = self.woken
        for _ in range(2):
            self.start_node()

    @property
    def owner(self) -> Node | None:
        """Whoever holds the lease, by the database."""
        return native.Cluster.owner.fget(self)  # type: ignore[attr-defined, no-any-return]

    def start_node(self) -> None:
        """One more process; its name was never used before."""
        self.nodes.append(KafkaNode(cast(Any, self), len(self.nodes) + 1))
        self.world.tell(f"  {self.nodes[-1].name} starts")

    def crash(self, node: Node) -> None:
        """It dies, and after a while another starts in its place."""
        node.crash()
        for client in self.alive():
            if client.seat is not None and client.seat.node is node:
                client.break_connection()
        self.world.later(self.world.chance.uniform(200, 5_000), self.start_node)

    def drain(self, node: Node) -> None:
        """It gives its leases away and ends, and after a while another starts in its place."""
        node.drain(lambda: None if node.status == "over" else self.crash(node))

    def woken(self, name: str, key: str = "") -> None:
        for node in self.nodes:
            node.woken(name, key)

    def next_number(self) -> int:
        """Names connections and waiters."""
        self._numbers += 1
        return self._numbers

    # -- topics -----------------------------------------------------------------------------

    def partition(self, topic: str, number: int) -> Partition:
        """As whoever commits finds it by name: a topic that was made anew has another id."""
        return Partition(topic, self.world.layouts[TopicName(topic)].topic_id, number)

    def topic_ids(self) -> frozenset[UUID]:
        """Of the topics that there are."""
        return frozenset(one.topic_id for one in self.world.layouts.values())

    def make_anew(self, topic: str) -> None:
        """Somebody deletes a topic, and creates another one of its name."""
        self.world.layouts[TopicName(topic)] = layout(topic, 100 + self.next_number(), 1)
        self.woken("topics")

    # -- clients ----------------------------------------------------------------------------

    def start(self, name: str, instance: str | None = None) -> Client:
        """A new process of this client."""
        client = Client(self, name, instance)
        self.clients.append(client)
        return client

    def alive(self) -> list[Client]:
        return [client for client in self.clients if not client.gone]

    def is_rebalancing(self) -> bool:
        """Whether somebody is waited for, by the rows."""
        return self.world.rows.rows.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)

    def nobody_comes(self) -> bool:
        """Nobody who is alive can be a member."""
        return not self.alive()

    def why_unsettled(self) -> str:
        """Empty when all who are alive share the topic in one generation."""
        owner, rows = self.owner, self.world.rows.rows
        if owner is None or owner.status != "up" or not owner.service.accepting:
            return "no owner"
        if rows.members:
            return f"{sorted(rows.members)} are native members"
        if owner.state is not None and owner.state.classic.pending:
            return f"{sorted(owner.state.classic.pending)} have ids and do not join"
        if unanswered := self.operators.unanswered():
            return f"nobody answered {unanswered}"
        if open_commits := self.ledger.unanswered():
            return f"nobody answered commits of {open_commits}"
        if orphans := self.ledger.orphans():
            return f"offsets of deleted topics stay: {orphans}"
        alive = self.alive()
        if not alive:
            members = rows.classic.members if rows.classic else {}
            return f"{sorted(members)} are still members" if members else ""
        if rows.phase is not Phase.STABLE or rows.classic is None:
            return f"the group is {rows.phase}"
        ids = sorted(client.member_id for client in alive)
        if sorted(rows.classic.members) != ids:
            return f"members are {sorted(rows.classic.members)}, alive are {ids}"
        if any(client.mute for client in alive):
            return "somebody hangs"
        if {client.generation for client in alive} != {rows.generation}:
            return "somebody is in another generation"
        if not all(client.reader.ready for client in alive):
            return "somebody does not know where to begin"
        shares = sorted(share for client in alive for share in client.shares)
        return "" if shares == list(range(PARTITIONS)) else f"read are {shares}"
