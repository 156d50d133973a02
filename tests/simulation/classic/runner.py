"""This room runs one seed of a classic group: some seconds of faults, then quiet, then all is well."""

import traceback

from tests.simulation.classic.cluster import Cluster
from tests.simulation.classic.faults import CAST, Faults
from tests.simulation.native.runner import CALM_MS, CHAOS_MS, STEP_MS, Outcome, errors_told
from tests.simulation.native.world import Violation


def run_seed(seed: int, calm_ms: int = CALM_MS) -> Outcome:
    """One seed; equal seeds run equally."""
    cluster = Cluster(seed)
    with errors_told(cluster.world):
        try:
            violation = _run(cluster, calm_ms)
        except Violation as found:
            violation = str(found)
        except Exception as broken:  # a core that breaks is a finding, with its seed and its trail
            violation = f"{type(broken).__name__}: {broken}"
            cluster.world.trail.extend(traceback.format_exc().splitlines())
        finally:
            for node in cluster.nodes:
                node.loop.end()
    return Outcome(seed, violation, tuple(cluster.world.trail))


def _run(cluster: Cluster, calm_ms: int) -> str:
    world = cluster.world
    for name in CAST[: world.chance.randint(1, 3)]:
        cluster.start(name)
    faults = Faults(cluster)
    _pass(cluster, world.chance.choice((0, 3_000)))
    faults.unleash(CHAOS_MS)
    _pass(cluster, CHAOS_MS)
    faults.heal()
    end, settled = world.now + calm_ms, 0
    while settled < 4:
        if world.now > end:
            return f"not settled after {calm_ms} ms of calm: {cluster.why_unsettled()}"
        _pass(cluster, STEP_MS)
        settled = 0 if cluster.why_unsettled() else settled + 1
    return _why_restless(cluster)


def _pass(cluster: Cluster, ms: float) -> None:
    end = cluster.world.now + ms
    while cluster.world.now < end:
        cluster.world.run_until(min(end, cluster.world.now + 50))
        cluster.checks.look()


def _why_restless(cluster: Cluster) -> str:
    """A group that has settled stays as it is, and everybody is answered."""
    generation, timeouts = cluster.world.rows.rows.generation, [one.timeouts for one in cluster.alive()]
    _pass(cluster, 30_000)
    if cluster.world.rows.rows.generation != generation:
        return "a settled group was shared anew"
    if [one.timeouts for one in cluster.alive()] != timeouts:
        return "somebody was not answered in the calm"
    return cluster.why_unsettled()
