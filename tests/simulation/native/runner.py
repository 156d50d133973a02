"""This room runs one seed: some seconds of faults, then quiet, then everything must be as it should."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from coordinator import connections
from tests.simulation.native.cluster import Cluster
from tests.simulation.native.faults import CAST, Faults
from tests.simulation.native.node import OUR_MISTAKE
from tests.simulation.timeline import Timeline, Violation

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


@contextmanager
def simulated(seed: int) -> Iterator[Cluster]:
    """The cast of one seed; nothing of it is left afterwards."""
    connections._run, connections._numbers = "s", count(1)
    cluster = Cluster(seed)
    with errors_told(cluster.world):
        try:
            yield cluster
        finally:
            for node in cluster.nodes:
                node.loop.end()


def run_seed(seed: int, calm_ms: int = CALM_MS) -> Outcome:
    """One seed; equal seeds run equally."""
    with simulated(seed) as cluster:
        try:
            violation, attempts = _run(cluster, calm_ms)
        except Violation as found:
            violation, attempts = str(found), 0
        except Exception as broken:  # a core that breaks is a finding, with its seed and its trail
            violation, attempts = f"{type(broken).__name__}: {broken}", 0
            cluster.world.trail.extend(traceback.format_exc().splitlines())
        return Outcome(seed, violation, tuple(cluster.world.trail), attempts)


class _Errors(logging.Handler):
    """What the shells log as an error, though no fault was injected, must never be."""

    def __init__(self, world: Timeline) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "asyncio":
            # Of another loop, whose test is over: the simulated one tells its world itself.
            return
        text = self.format(record)
        if OUR_MISTAKE not in text:
            self._world.break_off(text)


@contextmanager
def errors_told(world: Timeline) -> Iterator[None]:
    """Nothing is logged meanwhile; errors are the world's."""
    root = logging.getLogger()
    handlers, disabled = root.handlers, root.manager.disable
    root.handlers = [_Errors(world)]
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        root.handlers = handlers
        logging.disable(disabled)


def _run(cluster: Cluster, calm_ms: int) -> tuple[str, int]:
    world = cluster.world
    for name in CAST[: world.chance.randint(1, 3)]:
        cluster.start(name)
    faults = Faults(cluster)
    world.run_until(world.chance.choice((0, 3_000)))
    faults.unleash(CHAOS_MS)
    world.run_until(world.now + CHAOS_MS)
    faults.heal()
    before = world.attempts
    end = world.now + calm_ms
    settled, still = 0, ""
    while settled < 3:
        if world.now > end:
            return f"not settled after {calm_ms} ms of calm: {cluster.why_unsettled()}", 0
        world.run_until(world.now + STEP_MS)
        settled = settled + 1 if not cluster.why_unsettled() else 0
        if settled == 3 and (still := _why_standing_still(cluster)) and cluster.why_unsettled():
            # A partition that was added again in the calm is just being assigned.
            settled = 0
        if world.attempts - before > 3 * len(CAST) + 3:
            return f"{world.attempts - before} rebalances closed in the calm", world.attempts - before
    attempts = world.attempts - before
    return still or cluster.operators.answered_wrongly(), attempts


def _why_standing_still(cluster: Cluster) -> str:
    """Every partition that somebody reads is really consumed."""
    cluster.progress.clear()
    cluster.world.run_until(cluster.world.now + 1_000)
    rows = cluster.world.rows.rows
    still = [
        str(partition)
        for tenures in rows.owned.values()
        for partition in tenures
        if not cluster.progress[partition]
    ]
    return f"nobody consumes {', '.join(still)}" if still else ""
