"""A link carries nothing in one direction: who hears nothing, or is not heard, is missed in time.

The other half of a link to the controller is `test_a_controller_that_answers_nothing_is_left.py`.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import structlog

from controller.core.turn import heard
from muster.kernel.instants import after
from tests.simulation.replication.disks import DiskWorld
from tests.simulation.replication.world import TOPIC

KEY = (TOPIC, 0)
LEADER, CUT, OTHER = 1, 2, 3
LAG_MS = 10_000
FETCH_MS = 500
NOTHING_IS_ASKED, NOTHING_IS_ANSWERED = "asked", "answered"
ONE_WAY = pytest.mark.parametrize("direction", [NOTHING_IS_ASKED, NOTHING_IS_ANSWERED])


class Cluster:
    """Brokers with real logs and fetch sessions; time passes in steps of a fetch."""

    def __init__(self, folder: Path, runner: asyncio.Runner) -> None:
        self.world = DiskWorld(folder, runner, Random(1), [(LEADER, CUT, OTHER)], min_insync=2)
        self.lost_between: set[tuple[int, int, str]] = set()
        """From whom to whom, and what is lost of it."""
        self.unheard: set[int] = set()
        """Whose pings the controller does not hear."""
        self._value = 0

    @property
    def isr(self) -> set[int]:
        return set(self.world.rows().partitions[KEY].isr)

    @property
    def high_watermark(self) -> int:
        return self.world.brokers[LEADER].replicas[KEY].high_watermark

    def append(self) -> None:
        self._value += 1
        self.world.brokers[LEADER].append(KEY, self._value)

    def passes(self, time_ms: int) -> None:
        """Everybody fetches, pings and proposes as often as in life."""
        for _ in range(0, time_ms, FETCH_MS):
            self.world.now = after(self.world.now, FETCH_MS)
            for follower in (CUT, OTHER):
                self._fetch(follower)
            self._ping()
            for broker in self.world.brokers.values():
                if KEY in broker.replicas:
                    broker.propose(KEY, self.world.now, LAG_MS)
            self.world._deliver_everything()
            self.world._look()

    def _fetch(self, follower: int) -> None:
        broker = self.world.brokers[follower]
        request = broker.request(KEY)
        if request is None:
            return
        leader = request.position.leader
        if (follower, leader, NOTHING_IS_ASKED) in self.lost_between:
            return
        answer = self.world.brokers[leader].serve(request, self.world.now)
        if answer is not None and (follower, leader, NOTHING_IS_ANSWERED) not in self.lost_between:
            broker.receive(answer)

    def _ping(self) -> None:
        world = self.world
        for b, broker in world.brokers.items():
            if broker.link is not None and b not in self.unheard:
                version = broker.view.metadata_version
                heard(world.controller.state.memory, broker.link.link_id, version, world.now, world.settings)
        world.controller.turn([], world.now)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with asyncio.Runner() as runner, structlog.testing.capture_logs():
        made = Cluster(tmp_path, runner)
        yield made
        for broker in made.world.brokers.values():
            broker.kill()


@ONE_WAY
def test_a_follower_cut_from_its_leader_leaves_the_isr_in_time_and_comes_back(
    cluster: Cluster, direction: str
) -> None:
    cluster.append()
    cluster.passes(2_000)
    assert cluster.high_watermark == 1

    cluster.lost_between.add((CUT, LEADER, direction))
    cluster.append()
    cluster.passes(LAG_MS - FETCH_MS)
    assert (cluster.isr, cluster.high_watermark) == ({LEADER, CUT, OTHER}, 1), "it may only be slow"
    cluster.append()
    cluster.passes(4 * FETCH_MS)
    assert (cluster.isr, cluster.high_watermark) == ({LEADER, OTHER}, 3)

    cluster.append()
    cluster.passes(3 * LAG_MS)
    assert (cluster.isr, cluster.high_watermark) == ({LEADER, OTHER}, 4), "it asks for what it asked for"
    cluster.lost_between.clear()
    cluster.passes(4 * FETCH_MS)
    assert cluster.isr == {LEADER, CUT, OTHER}


@ONE_WAY
def test_a_steady_producer_does_not_keep_it_in_the_isr(cluster: Cluster, direction: str) -> None:
    cluster.append()
    cluster.passes(2_000)
    cluster.lost_between.add((CUT, LEADER, direction))
    for _ in range(LAG_MS // FETCH_MS + 2):
        cluster.append()
        cluster.passes(FETCH_MS)
    assert cluster.isr == {LEADER, OTHER}


@ONE_WAY
def test_it_lags_from_the_first_record_on_that_it_does_not_get(cluster: Cluster, direction: str) -> None:
    cluster.append()
    cluster.passes(2_000)
    cluster.lost_between.add((CUT, LEADER, direction))
    cluster.passes(5 * LAG_MS)
    assert cluster.isr == {LEADER, CUT, OTHER}, "there is nothing that it lacks"
    cluster.append()
    cluster.passes(LAG_MS + 2 * FETCH_MS)
    assert (cluster.isr, cluster.high_watermark) == ({LEADER, OTHER}, 2)


def test_a_broker_whose_pings_do_not_arrive_is_fenced_and_its_partitions_are_led_on(
    cluster: Cluster,
) -> None:
    cluster.append()
    cluster.passes(2_000)
    cluster.unheard.add(LEADER)
    cluster.passes(cluster.world.settings.broker_session_timeout_ms + FETCH_MS)
    row = cluster.world.rows().partitions[KEY]
    assert (row.leader, set(row.isr)) == (CUT, {CUT, OTHER})
    assert not cluster.world.rows().brokers[LEADER].live


def test_a_follower_whose_pings_do_not_arrive_leaves_the_isr_though_it_fetches(cluster: Cluster) -> None:
    cluster.unheard.add(CUT)
    cluster.passes(cluster.world.settings.broker_session_timeout_ms + FETCH_MS)
    assert cluster.isr == {LEADER, OTHER}
    cluster.append()
    cluster.passes(LAG_MS)
    assert (cluster.isr, cluster.high_watermark) == ({LEADER, OTHER}, 1), "it is level, and has no session"
