"""This room runs one seed of a classic group: some seconds of faults, then quiet, then all is well."""

import traceback

from tests.simulation.classic.client import HEARTBEAT_MS
from tests.simulation.classic.cluster import Cluster
from tests.simulation.classic.faults import CAST, Faults
from tests.simulation.classic.liveness import SERVED_MS, SETTLED_MS, Waits
from tests.simulation.native.runner import STEP_MS, Outcome, errors_told
from tests.simulation.timeline import Violation

CHAOS_MS = 20_000
LOOK_MS = 100
RESTLESS_MS = 13_000


def run_seed(seed: int, calm_ms: float = SETTLED_MS) -> Outcome:
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


def _run(cluster: Cluster, calm_ms: float) -> str:
    world = cluster.world
    for name in CAST[: world.chance.randint(1, 3)]:
        cluster.start(name)
    faults = Faults(cluster)
    _pass(cluster, world.chance.choice((0, 3_000)))
    faults.unleash(CHAOS_MS)
    _pass(cluster, CHAOS_MS)
    faults.heal()
    waits = Waits(cluster)
    waits.begin()
    end, settled = world.now + calm_ms, 0
    while settled * STEP_MS < HEARTBEAT_MS + STEP_MS:
        if world.now > end:
            return f"not settled after {calm_ms} ms of calm: {cluster.why_unsettled()}"
        _pass(cluster, STEP_MS, waits)
        settled = 0 if cluster.why_unsettled() else settled + 1
    return _why_restless(cluster, waits)


def _pass(cluster: Cluster, ms: float, waits: Waits | None = None) -> None:
    end = cluster.world.now + ms
    while cluster.world.now < end:
        cluster.world.run_until(min(end, cluster.world.now + LOOK_MS))
        cluster.checks.look()
        if waits is not None:
            waits.look()


def _why_restless(cluster: Cluster, waits: Waits) -> str:
    """A group that has settled stays as it is, and everybody is answered."""
    generation, alive = cluster.world.rows.rows.generation, cluster.alive()
    timeouts, commits = [one.timeouts for one in alive], [one.reader.commits for one in alive]
    _pass(cluster, RESTLESS_MS, waits)
    if alive and cluster.world.rows.rows.generation != generation:
        return "a settled group was shared anew"
    if [one.timeouts for one in alive] != timeouts:
        return "somebody was not answered in the calm"
    if any(now <= before for now, before in zip((one.reader.commits for one in alive), commits, strict=True)):
        return "somebody committed nothing in the calm"
    if wrongly := cluster.operators.answered_wrongly():
        return wrongly
    # A lease may just be given to another node, as it is when nobody says anything.
    end = cluster.world.now + SERVED_MS
    while (why := cluster.why_unsettled()) and cluster.world.now < end:
        _pass(cluster, STEP_MS, waits)
    return why
