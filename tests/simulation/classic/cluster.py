"""This room is one seed's cast of nodes and Kafka clients, and the checks across them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from coordinator.core.draft import GroupDecision
from coordinator.core.events import GroupEvent, JoinAnswer, SyncAnswer
from coordinator.core.memory import GroupState
from coordinator.core.settings import GroupSettings
from groups.core import records
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.instants import Instant
from tests.simulation.classic.client import PARTITIONS, Client
from tests.simulation.native import cluster as native
from tests.simulation.native.node import Node
from tests.simulation.native.world import SESSION_MS, World

CLOCKS_APART = 0.99
"""Clocks run at most a third of a percent fast or slow."""


class KafkaNode(Node):
    """A node whose clients speak Kafka: decisions are looked at as they pass."""

    def _watch(self) -> None:
        groups = self.groups
        decide, revive, settle = groups.decide, groups.revive, groups.settle

        def decided(key: str, state: GroupState, events: Sequence[GroupEvent], now: Instant) -> Any:
            self.decision = cast(GroupDecision, decide(key, state, events, now))
            return self.decision

        def revived(key: str, loaded: GroupRows, now: Instant) -> Any:
            state, decision = revive(key, loaded, now)
            self.decision = cast(GroupDecision, decision)
            return state, decision

        def settled(key: str, state: GroupState, decision: Any) -> None:
            self.settling = bool(decision.records)
            try:
                settle(key, state, decision)
            finally:
                self.settling = False

        for name, watched in (("decide", decided), ("revive", revived), ("settle", settled)):
            setattr(groups, name, watched)


class Checks:
    """What was written of each generation, beside what clients hear of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.leaders: dict[int, str] = {}
        self.assigned: dict[int, Mapping[str, bytes]] = {}
        self.replaced: dict[str, str] = {}

    def written(self, flushed: object) -> None:
        """The world tells it of offsets, of which there are none."""

    def committed(self, turn: Sequence[Any], before: GroupRows, rows: GroupRows) -> None:
        """A turn is durable."""
        generation = before.generation
        for record in turn:
            match record:
                case records.GenerationOpened():
                    self.world.forbid(record.generation != generation + 1, "a generation was left out")
                    generation = record.generation
                case records.ProtocolChosen(leader=leader) if leader:
                    if record.protocol_name is not None:
                        self.world.forbid(
                            generation in self.leaders, f"generation {generation} has two leaders"
                        )
                        self.leaders[generation] = leader
                case records.ClassicAssigned():
                    self.world.forbid(
                        generation in self.assigned, f"generation {generation} is assigned twice"
                    )
                    self.assigned[generation] = record.assignments
                case records.InstanceReplaced():
                    self.replaced[record.member.member_id] = record.old_member_id
                case records.MemberRemoved():
                    self._removed(record)
                case _:
                    pass
        classic = rows.classic
        if classic is not None:
            self.world.forbid(
                classic.leader is not None and classic.leader not in classic.members, "a stranger leads"
            )
            members = bool(classic.members)
            self.world.forbid(rows.phase is Phase.EMPTY and members, "an Empty group has members")

    def _removed(self, record: records.MemberRemoved) -> None:
        if record.why != "session over":
            return
        for client in self.cluster.alive():
            if client.member_id == record.member_id:
                silent = self.world.now - client.proved_at
                self.world.forbid(
                    silent < SESSION_MS * CLOCKS_APART, f"{client.name} expired after {silent:.0f} ms"
                )

    def joined(self, client: Client, answer: JoinAnswer) -> None:
        """A client hears of its generation."""
        self.world.forbid(
            answer.generation < client.generation, f"{client.name} hears of an older generation"
        )
        leader = self._first_id(answer.leader)
        expected = self._first_id(self.leaders.get(answer.generation, ""))
        self.world.forbid(leader != expected, f"{client.name} hears that {leader} leads, not {expected}")
        if answer.members:
            self.world.forbid(
                self._first_id(answer.member_id) != expected, "members are listed for a follower"
            )

    def synced(self, client: Client, answer: SyncAnswer) -> None:
        """A client hears what it is to read."""
        assigned = self.assigned.get(client.generation)
        self.world.forbid(assigned is None, f"{client.name} has an assignment that nobody wrote")
        names = [client.member_id]
        while names[-1] in self.replaced:
            names.append(self.replaced[names[-1]])
        given = next((assigned[name] for name in names if assigned and name in assigned), b"")
        self.world.forbid(answer.assignment != given, f"{client.name} has what another was given")

    def lives(self, client: Client) -> None:
        """A heartbeat was answered; the coordinator heard it no later than now, and not long before."""
        client.proved_at = max(client.proved_at, self.world.now - 2 * FLIGHT_MS)

    def _first_id(self, member_id: str) -> str:
        while member_id in self.replaced:
            member_id = self.replaced[member_id]
        return member_id

    def look(self) -> None:
        """Nobody of one generation reads what another of it reads."""
        held: dict[tuple[int, int], Client] = {}
        for client in self.cluster.alive():
            for share in client.shares:
                other = held.setdefault((client.generation, share), client)
                self.world.forbid(
                    other is not client
                    and other.member_id != client.member_id
                    and other.instance != client.instance,
                    f"{other.name} and {client.name} of one generation read partition {share}",
                )


FLIGHT_MS = 400


class KafkaWorld(World):
    """The world of one seed, in which turns are looked at as those of a classic group."""

    checks: Checks

    def turn_committed(self, node: Node, before: GroupRows, written: Sequence[Any]) -> None:
        super().turn_committed(node, before, written)
        self.checks.committed(written, before, self.rows.rows)


class Cluster:
    """The world and everybody in it; what `native.Faults` breaks of nodes it breaks here."""

    def __init__(self, seed: int) -> None:
        self.world = KafkaWorld(seed)
        delay = self.world.chance.choice((0, 300, 3_000))
        self.world.settings = GroupSettings(lease_ttl_ms=5_000, group_initial_rebalance_delay_ms=delay)
        self.checks = self.world.checks = Checks(self)
        self.nodes: list[Node] = []
        self.clients: list[Client] = []
        self._numbers = 0
        self.world.woken = self.woken
        for _ in range(2):
            self.start_node()

    start_node_name = "node"

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
            if client._seat is not None and client._seat.node is node:
                client.break_connection()
        self.world.later(self.world.chance.uniform(200, 5_000), self.start_node)

    def woken(self, name: str, key: str = "") -> None:
        for node in self.nodes:
            node.woken(name, key)

    def next_number(self) -> int:
        """Names connections and waiters."""
        self._numbers += 1
        return self._numbers

    def start(self, name: str, instance: str | None = None) -> Client:
        """A new process of this client."""
        client = Client(self, name, instance)
        self.clients.append(client)
        return client

    def alive(self) -> list[Client]:
        return [client for client in self.clients if not client.gone]

    def why_unsettled(self) -> str:
        """Empty when all who are alive share the topic in one generation."""
        owner, rows = self.owner, self.world.rows.rows
        if owner is None or owner.status != "up" or not owner.service.accepting:
            return "no owner"
        alive = self.alive()
        if not alive:
            members = rows.classic.members if rows.classic else {}
            return f"{sorted(members)} are still members" if members else ""
        if rows.phase is not Phase.STABLE or rows.classic is None:
            return f"the group is {rows.phase}"
        ids = sorted(client.member_id for client in alive)
        if sorted(rows.classic.members) != ids:
            return f"members are {sorted(rows.classic.members)}, alive are {ids}"
        if {client.generation for client in alive} != {rows.generation}:
            return "somebody is in another generation"
        shares = sorted(share for client in alive for share in client.shares)
        return "" if shares == list(range(PARTITIONS)) else f"read are {shares}"
