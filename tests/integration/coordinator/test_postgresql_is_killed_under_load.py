"""kill -9 of the database server in the middle of commits: nothing acknowledged is lost, nobody expelled."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster.kernel.error_codes import ErrorCode
from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.integration.coordinator.control_plane import ControlPlane, eventually
from tests.integration.coordinator.management import Management
from tests.integration.coordinator.member import ScriptedMember

COMMITS = 30
"""So many are acknowledged before the server dies, and so many after it."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Postgres]:
    """A server of this test alone."""
    server = Postgres(tmp_path / "servers", throw_away=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def alone(server: Postgres, tmp_path: Path) -> Iterator[ControlPlane]:
    """A node, whose spare process does the work, on that server."""
    redis = Redis(tmp_path / "redis-home")
    redis.start()
    told = {"DATABASE_URL": server.url(), "DATABASE_DIRECT_URL": server.url(), "REDIS_URL": redis.url}
    told |= {"SECRET_KEY": "tests-only-" + "x" * 50, "MUSTER_HOME": str(tmp_path), "MUSTER_TEST": "1"}
    migrating = Management({**os.environ, **told, "PYTHONWARNINGS": "ignore"})
    migrating.run("migrate", "--verbosity", "0")
    migrating.close()
    plane = ControlPlane(tmp_path / "plane", server.url(), redis)
    plane.add_topic("orders", 4)
    plane.start_node()
    plane.wait_until_serving()
    yield plane
    plane.stop()
    redis.stop()


def killed(server: Postgres) -> None:
    """The postmaster and all its backends, in the middle of whatever they do."""
    assert server.pid is not None
    top = psutil.Process(server.pid)
    everything = [top, *top.children(recursive=True)]
    for process in everything:
        process.kill()
    server.stop()
    psutil.wait_procs(everything, timeout=10)


class Committing:
    """A member that commits one offset after the other; `acknowledged` by partition."""

    def __init__(self, member: ScriptedMember) -> None:
        self.member = member
        self.acknowledged = dict.fromkeys(member.owned, 0)
        self.count = 0

    async def go_on(self) -> None:
        while True:
            offsets = {number: at + 1 for number, at in self.acknowledged.items()}
            assert (await self.member.commit(offsets)).error_code == ErrorCode.NONE
            self.acknowledged = offsets
            self.count += 1


async def test_what_was_acknowledged_is_stored_and_everybody_goes_on(
    alone: ControlPlane, server: Postgres, group: str
) -> None:
    members = [
        ScriptedMember(alone.addresses["node-1"], alone.token(), group, name) for name in ("ann", "ben")
    ]
    for member in members:
        await member.connect()
        await member.register()
    for member in members:
        await member.owns_some(2)
    await asyncio.to_thread(eventually, lambda: alone.phase(group) == "Stable", "the group is Stable")
    generation = alone.generation(group)
    committing = [Committing(member) for member in members]
    tasks = [asyncio.create_task(one.go_on()) for one in committing]
    try:
        await committed_more(committing, tasks)
        await asyncio.to_thread(killed, server)
        promised = {number: at for one in committing for number, at in one.acknowledged.items()}
        await asyncio.to_thread(server.start)
        stored = await asyncio.to_thread(alone.committed, group)
        assert all(stored[number] >= at for number, at in promised.items()), (stored, promised)
        await committed_more(committing, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert all(not member.closed for member in members)
    assert alone.generation(group) == generation
    for member in members:
        await member.vanish()


async def committed_more(committing: list[Committing], tasks: list["asyncio.Task[None]"]) -> None:
    """Each of them has COMMITS more acknowledged than now."""
    wanted = [one.count + COMMITS for one in committing]
    async with asyncio.timeout(90):
        while any(one.count < count for one, count in zip(committing, wanted, strict=True)):
            for task in tasks:
                assert not task.done(), task.result()
            await asyncio.sleep(0.01)
