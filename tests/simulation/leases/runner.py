"""This room runs one seed: faults, then a time in which what is cut stays cut, then a calm."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final
from unittest.mock import patch

from broker import link
from runtime.sharing import QUIET_MS
from tests.simulation.leases.cluster import Cluster, Shape
from tests.simulation.leases.faults import Faults
from tests.simulation.native.runner import errors_told
from tests.simulation.timeline import Violation

CHAOS_MS: Final = 40_000
STAND_MS: Final = QUIET_MS + 45_000
"""Way is made once in 12 s at most, and once more where the lease went to its best node as all was quiet."""

LINKED_MS: Final = 15_000
"""All brokers have their link so long after the last fault, or after the last move."""

CALM_MS: Final = QUIET_MS + 25_000
STILL_MS: Final = 12_000
"""So long nothing moves at the end of either time."""

STEP_MS: Final = 500


@dataclass(frozen=True)
class Outcome:
    """What became of a seed; `violation` is empty when all was well."""

    seed: int
    violation: str
    trail: tuple[str, ...]


@contextmanager
def simulated(seed: int, shape: Shape | None = None) -> Iterator[Cluster]:
    """The cast of one seed; nothing of it is left afterwards."""
    cluster = Cluster(seed, shape)
    with errors_told(cluster.world), patch.object(link, "Websocket", cluster.open_websocket):
        try:
            yield cluster
        finally:
            cluster.end()


def run_seed(seed: int) -> Outcome:
    """One seed; equal seeds run equally."""
    with simulated(seed) as cluster:
        try:
            violation = _run(cluster)
        except Violation as found:
            violation = str(found)
        except Exception as broken:  # a core that breaks is a finding, with its seed and its trail
            violation = f"{type(broken).__name__}: {broken}"
            cluster.world.trail.extend(traceback.format_exc().splitlines())
        return Outcome(seed, violation, tuple(cluster.world.trail))


def _run(cluster: Cluster) -> str:
    world, faults, chance = cluster.world, Faults(cluster), cluster.world.chance
    _begin(cluster)
    if not cluster.is_fair:
        world.run_until(chance.choice((0, 5_000, 20_000)))
        chaos_ms = 2 * CHAOS_MS if cluster.is_slow else CHAOS_MS
        faults.unleash(chaos_ms)
        world.run_until(world.now + chaos_ms)
        if why := _moved_too_often(cluster, 0.0, 2 * faults.count + 2):
            return why
        faults.stand()
        if chance.random() < 0.5 and (why := _why_bad_while_cut(cluster)):
            return why
    faults.heal()
    return _why_bad_in_calm(cluster)


def _begin(cluster: Cluster) -> None:
    """Nodes and brokers start one after the other, newcomers mostly later."""
    world, chance = cluster.world, cluster.world.chance
    for place in cluster.places:
        world.later(chance.choice((0, 0, 2_000, 8_000)), partial(cluster.start_node, place))
    for broker_id in cluster.broker_ids:
        if cluster.is_fair or broker_id not in cluster.newcomers or chance.random() < 0.3:
            world.later(chance.choice((0, 1_000, 8_000)), partial(cluster.start_broker, broker_id))


def _why_bad_while_cut(cluster: Cluster) -> str:
    """The lease ends where no other node is reached by more, and does not wander."""
    world, began = cluster.world, cluster.world.now
    world.run_until(began + STAND_MS - STILL_MS)
    if why := cluster.checks.why_unlinked() or cluster.checks.why_unjust():
        return f"{STAND_MS - STILL_MS} ms after the last fault {why}"
    world.run_until(began + STAND_MS)
    return _moved_too_often(cluster, began, len(cluster.places) + 2) or _moved_at_the_end(cluster)


def _why_bad_in_calm(cluster: Cluster) -> str:
    """Everybody reaches everybody: the lease goes to its best node once, brokers follow, and that is all.

    Most are not watched for as long as that takes.
    """
    world, began = cluster.world, cluster.world.now
    world.run_until(began + LINKED_MS)
    if not cluster.checks.moves_since(began) and (why := cluster.checks.why_unlinked()):
        return f"{LINKED_MS} ms after all was mended {why}"
    if world.chance.random() < 0.6:
        return ""
    world.run_until(began + CALM_MS)
    if why := cluster.checks.why_unlinked():
        return f"{CALM_MS} ms after all was mended {why}"
    return _moved_too_often(cluster, began, 2) or _moved_at_the_end(cluster)


def _moved_too_often(cluster: Cluster, since: float, most: int) -> str:
    moves = cluster.checks.moves_since(since)
    return f"the lease moved {len(moves)} times, and may {most} times" if len(moves) > most else ""


def _moved_at_the_end(cluster: Cluster) -> str:
    moves = cluster.checks.moves_since(cluster.world.now - STILL_MS)
    return f"the lease moved to {moves[-1].to}, and nothing was broken for long" if moves else ""
