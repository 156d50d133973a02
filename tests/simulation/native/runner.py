"""This room runs one seed: some seconds of faults, then quiet, then everything must be as it should."""

import traceback
from dataclasses import dataclass

from tests.simulation.native.cluster import Cluster
from tests.simulation.native.faults import CAST, Faults
from tests.simulation.native.world import Violation

CHAOS_MS = 25_000
CALM_MS = 90_000
STEP_MS = 250


@dataclass(frozen=True)
class Outcome:
    """What became of a seed; `violation` is empty when all was well."""

    seed: int
    violation: str
    trail: tuple[str, ...]
    attempts_in_calm: int = 0


def run_seed(seed: int) -> Outcome:
    """One seed; equal seeds run equally."""
    cluster = Cluster(seed)
    try:
        violation, attempts = _run(cluster)
    except Violation as found:
        violation, attempts = str(found), 0
    except Exception as broken:  # a core that breaks is a finding, with its seed and its trail
        violation, attempts = f"{type(broken).__name__}: {broken}", 0
        cluster.world.trail.extend(traceback.format_exc().splitlines())
    return Outcome(seed, violation, tuple(cluster.world.trail), attempts)


def _run(cluster: Cluster) -> tuple[str, int]:
    world = cluster.world
    for name in CAST[: world.chance.randint(1, 3)]:
        cluster.start(name)
    faults = Faults(cluster)
    world.run_until(world.chance.choice((0, 3_000)))
    faults.unleash(CHAOS_MS)
    world.run_until(world.now + CHAOS_MS)
    faults.heal()
    before = world.attempts
    end = world.now + CALM_MS
    settled = 0
    while settled < 3:
        if world.now > end:
            return f"not settled after {CALM_MS} ms of calm: {cluster.why_unsettled()}", 0
        world.run_until(world.now + STEP_MS)
        settled = settled + 1 if not cluster.why_unsettled() else 0
    attempts = world.attempts - before
    if attempts > 3 * len(CAST) + 3:
        return f"{attempts} rebalances closed in the calm", attempts
    return _why_standing_still(cluster), attempts


def _why_standing_still(cluster: Cluster) -> str:
    """Every partition that somebody reads is really consumed."""
    cluster.progress.clear()
    cluster.world.run_until(cluster.world.now + 1_000)
    rows = cluster.owner.state.rows
    still = [
        str(partition)
        for tenures in rows.owned.values()
        for partition in tenures
        if not cluster.progress[partition]
    ]
    return f"nobody consumes {', '.join(still)}" if still else ""
