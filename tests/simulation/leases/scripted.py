"""This room plays what happened once, or what one rule is there for, in a world of a known shape."""

from __future__ import annotations

from collections.abc import Callable

from runtime.freshness import LEASE_TTL_MS
from runtime.ports import CONTROLLER_LANE
from runtime.sharing import weight
from tests.simulation.leases.cluster import Cluster, Place, Shape
from tests.simulation.leases.runner import simulated
from tests.simulation.leases.wires import BOTH, TO_NODE
from tests.simulation.timeline import Violation

SEED = 1
SETTLED_MS = 12_000
"""After a controller began: it is looked for by everybody for ten seconds."""

LEFT_MS = 12_000
"""Brokers leave a silent controller, are heard at another for two seconds, and it has the lease."""

ALL_QUIET_MS = 33_000
"""The lease would go to its best node, if that is another."""

Script = Callable[[Cluster], None]


def violation_of(script: Script) -> str:
    """What must never be, as it came to be in this script; empty if nothing did."""
    with simulated(SEED, SCRIPTS[script]) as cluster:
        try:
            script(cluster)
        except Violation as found:
            return str(found)
        return ""


def nobody_reaches_the_controller(cluster: Cluster) -> None:
    """It makes way once, and the lease stays there when all is quiet."""
    origin = _begun(cluster)
    _cut(origin)
    _pass(cluster, LEFT_MS)
    _must_have_left(cluster, origin)
    _pass(cluster, ALL_QUIET_MS)
    _must_have_moved(cluster, 1)


def the_controller_is_heard_and_hears_nobody(cluster: Cluster) -> None:
    """What brokers say is lost, and what they are told arrives: their links stay open."""
    origin = _begun(cluster)
    _cut(origin, frozenset({TO_NODE}))
    _pass(cluster, LEFT_MS)
    _must_have_left(cluster, origin)
    _must_have_moved(cluster, 1)


def one_after_the_other_is_not_reached(cluster: Cluster) -> None:
    """Whoever made way first still says for whom, when that one makes way in turn, and not too early."""
    first = _begun(cluster)
    _cut(first, refuses=True)
    _pass(cluster, LEFT_MS / 2)
    second = _controllers_place(cluster)
    _cut(second, refuses=True)
    _pass(cluster, SETTLED_MS + LEFT_MS)
    _must_have_left(cluster, first)
    _must_have_left(cluster, second)
    _pass(cluster, ALL_QUIET_MS)
    _must_have_moved(cluster, 2)


def most_reach_a_node_that_is_not_the_best(cluster: Cluster) -> None:
    """The better one of two others is reached by fewer brokers."""
    origin = _begun(cluster)
    others = [place.name for place in cluster.places if place is not origin]
    best = max(others, key=lambda name: weight(name, CONTROLLER_LANE))
    _cut(next(place for place in cluster.places if place.name == best), brokers=2)
    _cut(origin)
    _pass(cluster, LEFT_MS + SETTLED_MS)
    _must_have_left(cluster, origin)
    _must_have_moved(cluster, 1)


def whom_way_was_made_for_dies(cluster: Cluster) -> None:
    """A third node takes it, not the best one, which brokers do not reach."""
    origin = _begun(cluster)
    _cut(origin)
    _pass(cluster, LEFT_MS)
    second = cluster.controller
    assert second is not None
    second.end(is_powered=True)
    cluster.note_reach()
    _pass(cluster, LEFT_MS)
    _must_have_left(cluster, origin)
    _must_have_moved(cluster, 2)


def brokers_reach_now_one_and_now_the_other(cluster: Cluster) -> None:
    """Who made way is the controller once more, whenever the other one is not reached any more."""
    origin = _begun(cluster)
    away, there = origin, next(place for place in cluster.places if place is not origin)
    for times in range(1, 4):
        _cut(away)
        _pass(cluster, SETTLED_MS + LEFT_MS)
        _must_have_left(cluster, away)
        _must_have_moved(cluster, times)
        _mend(away)
        away, there = there, away


def newcomers_reach_another_node_alone(cluster: Cluster) -> None:
    """They are more than the brokers that hold the partitions, and get no controller for that."""
    origin = _begun(cluster)
    for broker_id in cluster.newcomers:
        origin.paths[broker_id].lose(frozenset(BOTH), refuses=True)
        cluster.start_broker(broker_id)
    _pass(cluster, LEFT_MS)
    _must_have_moved(cluster, 0)


def as_many_reach_another_node(cluster: Cluster) -> None:
    """A network that is cut through the middle: two of four brokers on each side."""
    origin = _begun(cluster)
    _cut(origin, refuses=True, brokers=len(cluster.broker_ids) // 2)
    _pass(cluster, 2 * LEFT_MS)
    _must_have_moved(cluster, 0)


def the_database_stands_still(cluster: Cluster) -> None:
    """All brokers leave a controller that is frozen, and are back when it goes on."""
    _begun(cluster)
    cluster.rows.stands_still = True
    _pass(cluster, 9_000)
    cluster.rows.stands_still = False
    _pass(cluster, LEFT_MS)
    _must_have_moved(cluster, 0)


def the_controller_hears_nothing_of_the_database(cluster: Cluster) -> None:
    """It says nothing any more when another may be the controller, though brokers reach it as before."""
    origin = _begun(cluster)
    assert origin.node is not None
    origin.node.hangs = True
    cluster.note_reach()
    _pass(cluster, 2.5 * LEASE_TTL_MS)
    _must_have_left(cluster, origin)
    origin.node.hangs = False
    cluster.note_reach()
    _pass(cluster, LEFT_MS)
    _must_have_moved(cluster, 1)


def brokers_come_and_go_at_another_node(cluster: Cluster) -> None:
    """One comes there all the time, the others when their way to the controller breaks for a moment."""
    origin = _begun(cluster)
    last = origin.paths[cluster.broker_ids[-1]]
    last.lose(frozenset(BOTH), refuses=True)
    for _ in range(3):
        _cut(origin, refuses=True)
        _pass(cluster, 1_200)
        _mend(origin)
        last.lose(frozenset(BOTH), refuses=True)
        _pass(cluster, 3_000)
    _pass(cluster, LEFT_MS)
    _must_have_moved(cluster, 0)


def the_controller_is_not_reached_for_a_moment(cluster: Cluster) -> None:
    """Longer than brokers are believed to be on their way, and shorter than it takes to make way."""
    origin = _begun(cluster)
    _cut(origin, refuses=True)
    _pass(cluster, 4_400)
    _mend(origin)
    _pass(cluster, LEFT_MS)
    _must_have_moved(cluster, 0)


def brokers_that_came_to_another_node_die(cluster: Cluster) -> None:
    """While everybody still looks for a controller that has just begun; one broker is left, and is linked."""
    for place in cluster.places:
        cluster.start_node(place)
    _pass(cluster, 1_000)
    origin = _controllers_place(cluster)
    _cut(origin, refuses=True, brokers=2)
    for broker_id in cluster.broker_ids:
        cluster.start_broker(broker_id)
    _pass(cluster, 2_000)
    for broker_id in cluster.broker_ids[:2]:
        cluster.brokers[broker_id].end(is_powered=True)
    cluster.note_reach()
    _pass(cluster, SETTLED_MS + LEFT_MS)
    _must_have_moved(cluster, 0)


def the_other_node_hangs(cluster: Cluster) -> None:
    """Brokers had come there; nobody makes way for it, as what its row says may be long past."""
    origin = _begun(cluster)
    _cut(origin, refuses=True)
    _pass(cluster, 1_500)
    other = next(place for place in cluster.places if place is not origin)
    assert other.node is not None
    other.node.pause()
    cluster.note_reach()
    _pass(cluster, 5_000)
    cluster.world.forbid(cluster.checks.made_way, f"way is made for {other.name}, which hangs")


# -- steps ---------------------------------------------------------------------------------


def _begun(cluster: Cluster) -> Place:
    """All nodes and all registered brokers run; the controller is the best node, and has settled."""
    for place in cluster.places:
        cluster.start_node(place)
    for broker_id in cluster.broker_ids:
        if broker_id not in cluster.newcomers:
            cluster.start_broker(broker_id)
    _pass(cluster, ALL_QUIET_MS + SETTLED_MS)
    cluster.checks.moves.clear()
    cluster.world.forbid(why := cluster.checks.why_unlinked(), why)
    cluster.world.quiet = True
    return _controllers_place(cluster)


def _pass(cluster: Cluster, spent_ms: float) -> None:
    cluster.world.run_until(cluster.world.now + spent_ms)


def _cut(
    place: Place,
    directions: frozenset[str] = frozenset(BOTH),
    *,
    refuses: bool = False,
    brokers: int | None = None,
) -> None:
    """From all brokers, or from the first so many."""
    for path in list(place.paths.values())[:brokers]:
        path.lose(directions, refuses=refuses)
    assert place.node is not None
    place.node.cluster.note_reach()


def _mend(place: Place) -> None:
    for path in place.paths.values():
        path.mend()
    assert place.node is not None
    place.node.cluster.note_reach()


def _controllers_place(cluster: Cluster) -> Place:
    controller = cluster.controller
    assert controller is not None, "nobody is the controller"
    return controller.place


def _must_have_left(cluster: Cluster, place: Place) -> None:
    controller = cluster.controller
    cluster.world.forbid(controller is None, "nobody is the controller")
    cluster.world.forbid(_controllers_place(cluster) is place, f"{place.name} is the controller still")
    cluster.world.forbid(why := cluster.checks.why_unlinked(), why)


def _must_have_moved(cluster: Cluster, times: int) -> None:
    moves = [f"from {move.origin} to {move.to}" for move in cluster.checks.moves]
    cluster.world.forbid(
        len(moves) != times, f"the lease moved {times} times but {', '.join(moves) or 'never'}"
    )


SCRIPTS: dict[Script, Shape] = {
    nobody_reaches_the_controller: Shape(3, 3),
    the_controller_is_heard_and_hears_nobody: Shape(2, 3),
    one_after_the_other_is_not_reached: Shape(3, 3),
    most_reach_a_node_that_is_not_the_best: Shape(3, 3),
    whom_way_was_made_for_dies: Shape(3, 3),
    brokers_reach_now_one_and_now_the_other: Shape(2, 3),
    newcomers_reach_another_node_alone: Shape(2, 5, frozenset({3, 4, 5})),
    as_many_reach_another_node: Shape(2, 4),
    the_database_stands_still: Shape(2, 3),
    the_controller_hears_nothing_of_the_database: Shape(2, 3),
    brokers_come_and_go_at_another_node: Shape(2, 3),
    the_controller_is_not_reached_for_a_moment: Shape(2, 3),
    brokers_that_came_to_another_node_die: Shape(2, 3),
    the_other_node_hangs: Shape(2, 3),
}
"""All of them, and how many nodes and brokers are in each."""
