"""Without any worker and without Redis a node's spare process does the work, also after a kill -9."""

import psutil

from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.coordinator.fleet import Fleet


def spares(plane: ControlPlane) -> dict[str, psutil.Process]:
    """The spare process of each node, where it runs."""
    found: dict[str, psutil.Process] = {}
    for name, node in plane.nodes.items():
        for child in psutil.Process(node.popen.pid).children():
            if child.status() != psutil.STATUS_ZOMBIE and "node.spare_work" in child.cmdline():
                found[name] = child
    return found


def done_by(plane: ControlPlane, group: str) -> list[str]:
    """Who claimed the group's adopted work items, the oldest first."""
    rows = plane.query(
        "SELECT claimed_by FROM work_item WHERE key = %s AND state = 'adopted' ORDER BY offered_at", group
    )
    return [str(name) for (name,) in rows]


async def test_the_spare_process_does_the_work_and_is_started_again_when_it_was_killed(
    two_nodes: ControlPlane, group: str
) -> None:
    two_nodes.workers[-1].kill()
    two_nodes.redis.stop()
    fleet = Fleet(two_nodes, group, "orders", 4)
    try:
        fleet.join("ann", "ben", session_timeout_ms=6_000)
        await fleet.settles()
        doers = done_by(two_nodes, group)
        assert doers and all(name.startswith("spare of node-") for name in doers)

        before = spares(two_nodes)
        assert before.keys() == two_nodes.nodes.keys()
        for spare in before.values():
            spare.kill()
        fleet.join("cleo", session_timeout_ms=6_000)
        await eventually_async(fleet.members["cleo"].fetches, "cleo gets a share")
        await fleet.settles()
        later = done_by(two_nodes, group)[len(doers) :]
        assert later and all(name.startswith("spare of node-") for name in later)
        await eventually_async(lambda: spares(two_nodes).keys() == before.keys(), "every spare runs again")
        assert not {one.pid for one in before.values()} & {one.pid for one in spares(two_nodes).values()}
    finally:
        await fleet.end()
        two_nodes.redis.start()


async def test_a_spare_process_ends_with_its_node(two_nodes: ControlPlane) -> None:
    node = two_nodes.nodes["node-2"]
    await eventually_async(lambda: "node-2" in spares(two_nodes), "the spare process runs")
    spare = spares(two_nodes)["node-2"]
    node.kill()
    await eventually_async(lambda: not spare.is_running(), "the spare process is gone")
