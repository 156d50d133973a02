"""After any kill, pause or outage every partition is fetched again, and no acknowledged commit is lost."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import psycopg
import pytest

from standalone.postgres import Postgres
from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.coordinator.fleet import Fleet

NewFleet = Callable[[], Fleet]


@pytest.fixture
async def new_fleet(two_nodes: ControlPlane, group: str) -> AsyncIterator[NewFleet]:
    """Makes the fleet of `group` that reads the 4 partitions of `orders`; it vanishes at the end."""
    async with AsyncExitStack() as at_the_end:

        def make() -> Fleet:
            fleet = Fleet(two_nodes, group, "orders", 4)
            at_the_end.push_async_callback(fleet.end)
            return fleet

        yield make


def owner_of(plane: ControlPlane, group: str) -> str:
    """The name of the node that holds the lease of the group's shard."""
    rows = plane.query(
        "SELECT node FROM lease JOIN node_session USING (run) WHERE name = %s AND NOT ended",
        f"coordinator/{plane.shard(group)}",
    )
    return str(rows[0][0]) if rows else ""


async def test_a_member_is_killed(two_nodes: ControlPlane, new_fleet: NewFleet) -> None:
    fleet = new_fleet()
    fleet.join("ann", "ben", "cleo")
    await fleet.settles()
    await fleet.members["ben"].vanish()
    await fleet.settles()


async def test_the_owner_is_killed_and_nobody_stops(
    two_nodes: ControlPlane, new_fleet: NewFleet, group: str
) -> None:
    fleet = new_fleet()
    fleet.join("ann", "ben", session_timeout_ms=20_000)
    # Whoever joined while a rebalance was computed may have another follow at once.
    while not fleet.is_shared(2):
        await fleet.settles()
    await fleet.settles()
    generation, begun = two_nodes.generation(group), fleet.begun()
    two_nodes.nodes[owner_of(two_nodes, group)].kill()
    await fleet.settles()
    assert (two_nodes.generation(group), fleet.begun()) == (generation, begun)


async def test_the_owner_and_a_member_are_killed_together(
    two_nodes: ControlPlane, new_fleet: NewFleet, group: str
) -> None:
    fleet = new_fleet()
    fleet.join("ann", "ben", "cleo")
    await fleet.settles()
    two_nodes.nodes[owner_of(two_nodes, group)].kill()
    await fleet.members["cleo"].vanish()
    await fleet.settles()


async def test_the_owner_is_stopped_and_wakes_after_the_takeover(
    two_nodes: ControlPlane, new_fleet: NewFleet, group: str
) -> None:
    fleet = new_fleet()
    fleet.join("ann", "ben")
    await fleet.settles()
    old = owner_of(two_nodes, group)
    two_nodes.nodes[old].pause()
    await eventually_async(lambda: owner_of(two_nodes, group) not in ("", old), "takeover")
    await fleet.settles()
    two_nodes.nodes[old].resume()
    await fleet.settles()


async def test_redis_is_stopped_while_the_group_rebalances(
    two_nodes: ControlPlane, new_fleet: NewFleet
) -> None:
    fleet = new_fleet()
    fleet.join("ann")
    await fleet.settles()
    two_nodes.redis.pause()
    try:
        fleet.join("ben")
        await fleet.settles()
        fleet.join("cleo")
        await fleet.settles()
    finally:
        two_nodes.redis.resume()
    await fleet.members["ann"].vanish()
    await fleet.settles()


async def test_a_worker_is_stopped_in_the_middle(two_nodes: ControlPlane, new_fleet: NewFleet) -> None:
    fleet = new_fleet()
    fleet.join("ann")
    await fleet.settles()
    two_nodes.workers[-1].pause()
    try:
        fleet.join("ben", "cleo")
        await fleet.settles()
    finally:
        two_nodes.workers[-1].resume()
    await fleet.settles()


async def test_no_worker_is_there_at_all(two_nodes: ControlPlane, new_fleet: NewFleet) -> None:
    two_nodes.workers[-1].kill()
    fleet = new_fleet()
    fleet.join("ann", "ben")
    await fleet.settles()


async def test_a_backend_is_killed_under_healthy_nodes_who_do_not_rob_each_other(
    two_nodes: ControlPlane, new_fleet: NewFleet, postgres_server: Postgres
) -> None:
    fleet = new_fleet()
    fleet.join("ann", "ben")
    await fleet.settles()
    holders = "SELECT name, run FROM lease ORDER BY name"
    before = two_nodes.query(holders)
    with psycopg.connect(postgres_server.superuser_url(), autocommit=True) as superuser:
        ((backend,),) = superuser.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE application_name LIKE 'muster:%%' AND datname = %s LIMIT 1",
            (two_nodes.database_url.rpartition("/")[2].partition("?")[0],),
        ).fetchall()
    os.kill(backend, signal.SIGKILL)
    await fleet.settles()
    assert two_nodes.query(holders) == before


async def test_members_come_and_go_while_nodes_die(
    two_nodes: ControlPlane, new_fleet: NewFleet, group: str
) -> None:
    fleet = new_fleet()
    fleet.join("ann", "ben", "cleo")
    await fleet.settles()
    await fleet.members["ann"].vanish()
    fleet.join("dan")
    two_nodes.nodes[owner_of(two_nodes, group)].kill()
    fleet.join("ann")
    await fleet.members["ben"].vanish()
    await fleet.settles()
