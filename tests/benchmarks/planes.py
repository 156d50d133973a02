"""This room gives a benchmark a control plane of its own, and takes it away again."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from standalone.postgres import OWNER, Postgres
from standalone.redis import Redis
from tests.integration.coordinator.control_plane import ControlPlane
from tests.tidy.sources import ROOT


@contextmanager
def bench_plane(
    home: Path, name: str, kind: type[ControlPlane] = ControlPlane, **settings: str
) -> Iterator[ControlPlane]:
    """A serving control plane in a new folder under `home`, which is removed with everything at the end."""
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=home)).resolve()
    # With fsync, unlike the tests: what is acknowledged here is durable.
    postgres, redis = Postgres(folder), Redis(folder)
    plane: ControlPlane | None = None
    try:
        postgres.start()
        redis.start()
        plane = kind(folder / "plane", _migrated_database(postgres), redis, **settings)
        plane.starts_warm = False
        plane.start_worker()
        plane.start_node()
        plane.wait_until_serving()
        yield plane
    finally:
        if plane is not None:
            plane.stop()
        redis.stop()
        postgres.remove()
        shutil.rmtree(folder, ignore_errors=True)


def _migrated_database(postgres: Postgres) -> str:
    with psycopg.connect(postgres.superuser_url(), autocommit=True) as connection:
        names = {"database": sql.Identifier("muster_bench"), "owner": sql.Identifier(OWNER)}
        connection.execute(sql.SQL("CREATE DATABASE {database} OWNER {owner}").format(**names))
    url = postgres.url("muster_bench")
    environment = {**os.environ, "DATABASE_URL": url, "DATABASE_DIRECT_URL": url}
    migrate = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
    subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
    return url


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6
