"""This room watches who holds the controller's lease, and on what ground it moves, for what must never be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from muster.messages.link.to_broker import HelloAccepted, HelloRefused, NotController, ToBroker
from runtime.database import Peer
from runtime.freshness import LEASE_TTL_MS
from runtime.making_way import SETTLE_MS, Heard

if TYPE_CHECKING:
    from tests.simulation.leases.cluster import Cluster, Reach
    from tests.simulation.leases.node import ControllersNode

EVIDENCE_MS: Final = 16_000
"""So old may be what way is made for: a silent link (6 s), and a round of nodes that swallow (8 s)."""

CLOCKS_APART: Final = 0.995


class Move(NamedTuple):
    """The controller's lease went from one node to another."""

    at: float
    origin: str
    to: str


class Checks:
    """What was seen of one world. `made_way`: the moves that a controller began, as brokers reach another."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.moves: list[Move] = []
        self.made_way: list[Move] = []
        self._holder = ""
        self._taken_by, self._taken_at = "", 0.0
        self._run_of: dict[int, str] = {}
        """By epoch, who wrote or said anything under it."""
        self._lost_at: dict[str, float] = {}
        """Runs that were ended, or whose lease another has taken."""

    # -- the lease --------------------------------------------------------------------------

    def taken(self, node: ControllersNode, old_run: str | None, old_epoch: int) -> None:
        """It is durable: this node's run has the lease."""
        run, epoch = self.cluster.rows.lease
        assert run is not None
        self.world.forbid(epoch != old_epoch + 1, "a take did not raise the epoch by one")
        if old_run is not None and old_run != run:
            self._lost_at.setdefault(old_run, self.world.now)
        if self._taken_by != run:
            # Else it took it from itself, as the outcome of a commit was unknown.
            self._taken_by, self._taken_at = run, self.world.now
        if self._holder != node.name:
            self.world.tell(f"  {node.name} is the controller, epoch {epoch}")
            if self._holder:
                self.moves.append(Move(self.world.now, self._holder, node.name))
            self._holder = node.name

    def run_ended(self, run: str) -> None:
        """A node ended the run of a peer."""
        self._lost_at.setdefault(run, self.world.now)
        self.world.tell(f"  a run of {self.cluster.rows.node_of(run)} is ended")

    def written(self, node: ControllersNode, run: str, epoch: int) -> None:
        """A turn is durable."""
        holder = self.cluster.rows.lease
        self.world.forbid(holder != (run, epoch), f"{node.name} wrote under epoch {epoch}, which is past")
        self._acts(node, run, epoch)
        self.cluster.note_reach()

    def said(self, node: ControllersNode, frame: ToBroker) -> None:
        """A node says something on a link that was opened to the controller."""
        lane = node.service.cluster.lane
        if isinstance(frame, NotController | HelloRefused):
            return
        self.world.forbid(lane is None, f"{node.name} says {type(frame).__name__}, and has no lease")
        assert lane is not None
        run = node.keeper.run
        if isinstance(frame, HelloAccepted):
            self._acts(node, run, lane.epoch)
        late_ms = self.world.now - self._lost_at.get(run, self.world.now)
        self.world.forbid(
            late_ms > LEASE_TTL_MS / CLOCKS_APART,
            f"{node.name} says {type(frame).__name__} {late_ms:.0f} ms after it lost the lease",
        )

    def _acts(self, node: ControllersNode, run: str, epoch: int) -> None:
        first = self._run_of.setdefault(epoch, run)
        self.world.forbid(first != run, f"{node.name} acts under epoch {epoch}, as another did")

    # -- making way -------------------------------------------------------------------------

    def makes_way(self, node: ControllersNode, to: Peer, heard: Heard) -> None:
        """The controller is about to be given away, as more brokers come to another node."""
        world = self.world
        here, there = sorted(heard.linked - heard.silent), sorted(to.came)
        world.tell(f"  {node.name} makes way for {to.node}, hears {here}, there {there}")
        held_ms = world.now - self._taken_at + node.leapt_ms
        world.forbid(held_ms < SETTLE_MS * CLOCKS_APART, f"{node.name} makes way after {held_ms:.0f} ms")
        grounds = self.cluster.reached_since(world.now - EVIDENCE_MS)
        world.forbid(
            not any(_is_a_ground(one, node.name, to.node, then) for one in grounds for then in grounds),
            f"{node.name} makes way for {to.node}, and nobody was reached there who was not here",
        )
        world.forbid(self.cluster.is_fair, f"{node.name} makes way, and nothing was broken")
        self.made_way.append(Move(world.now, node.name, to.node))

    # -- how it must be in the end ----------------------------------------------------------

    def moves_since(self, since: float) -> list[Move]:
        return [move for move in self.moves if move.at > since]

    def why_unlinked(self) -> str:
        """Empty when a controller serves, and all brokers that reach it have their link there."""
        controller = self.cluster.controller
        if controller is None or controller.status != "up" or not controller.is_controller:
            return "there is no controller"
        reached = self.cluster.reached[-1].by_node.get(controller.name, frozenset())
        for broker_id in sorted(reached):
            link = self.cluster.brokers[broker_id].link
            if not link.bound or link.connected_to != controller.address:
                why = link.why_unlinked if not link.bound else f"it is linked to {link.connected_to}"
                return f"broker {broker_id} has no link to {controller.name}: {why}"
        return ""

    def why_unjust(self) -> str:
        """Empty when no node is reached by more brokers that cannot come to the controller than it hears."""
        controller, now = self.cluster.controller, self.cluster.reached[-1]
        if controller is None:
            return "nobody is the controller"
        for name in sorted(now.by_node):
            if name != controller.name and _is_a_ground(now, controller.name, name):
                here, there = (sorted(now.by_node.get(one, ())) for one in (controller.name, name))
                return f"{controller.name} is reached by {here}, and {name} by {there}"
        return ""


def _is_a_ground(reach: Reach, controller: str, other: str, then: Reach | None = None) -> bool:
    """Whether the other node was reached by more brokers that cannot come to the controller than it hears:
    registered ones, and of as many, of all. `then`: the moment of which the other's row tells, if another:
    that a broker came is told for longer than one is heard that says nothing.
    """
    here = reach.by_node.get(controller, frozenset())
    came = (then or reach).by_node.get(other, frozenset()) - here
    registered = reach.registered
    gain = (len(came & registered) - len(here & registered), len(came) - len(here))
    return gain > (0, 0)
