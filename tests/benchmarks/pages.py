"""This room measures pages and REST lists with 10,000 groups: time, processor time and memory of a request.

One client on one connection asks one address after the other; the web process and PostgreSQL have nothing
else to do. Times are from the first byte sent to the last byte read.
"""

import http.client
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from standalone.postgres import Postgres
from standalone.processes import ROOT
from tests.benchmarks.idle import proportional_bytes
from tests.benchmarks.planes import _migrated_database

GROUPS, PARTITIONS = 10_000, 12
WARM, MEASURED = 5, 60
PAGES = (
    "/groups/",
    "/groups/?sort=name",
    "/groups/?q=service-0999",
    "/groups/?phase=Empty&lag_over=100",
    "/",
    "/cluster/",
    "/groups/service-00001/",
    "/groups/wide/",
    "/api/v1/groups",
    "/api/v1/groups?q=0999",
    "/api/v1/groups?lag_over=100",
    "/api/v1/groups/service-00001",
    "/api/v1/offsets",
    "/api/v1/partitions",
)


def fill() -> None:
    """10,000 groups of 12 partitions, one of 1,000 members and 10,000 partitions; print cookie and token."""
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.test import Client

    from access.grants import Role
    from access.service import create_token, create_user
    from tests.integration.web import cast

    cast.add_cluster()
    for broker in range(1, 7):
        cast.add_broker(broker)
    orders = cast.add_topic("orders", PARTITIONS, [(1, 2, 4), (4, 5, 6)], high_watermark=1_000)
    _many_groups(orders)
    wide = cast.add_topic("wide", 10_000, [(1, 2, 3), (4, 5, 6), (2, 4, 6)], high_watermark=50)
    group = cast.add_group("wide", generation=2)
    for number in range(1_000):
        cast.add_member(group, f"member-{number:04d}")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO partition_ownership (group_name, topic_id, topic_name, partition, copy, owner,"
            " since_generation, state) SELECT 'wide', %s, 'wide', n, 0,"
            " 'member-' || lpad((n / 10)::text, 4, '0'), 2, 'running' FROM generate_series(0, 9999) AS n",
            [wide.topic_id],
        )
        cursor.execute("ANALYZE")
    client = Client()
    client.force_login(create_user("mira", Role.OPERATOR, None))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    print(f"{settings.SESSION_COOKIE_NAME}={session}")
    print(create_token("viewer", Role.VIEWER))


def _many_groups(topic: Any) -> None:
    """Groups `service-00000` and on, one in thirteen without a member; each has committed every partition."""
    from django.db import connection

    values = {"topic": topic.topic_id, "name": topic.name, "groups": GROUPS, "partitions": PARTITIONS}
    with connection.cursor() as cursor:
        cursor.execute(_FILL, values)


_FILL = """
    INSERT INTO consumer_group (name, shard, protocol, phase, generation, version, rebalance_mode, assignor,
                                error, ephemeral)
    SELECT 'service-' || lpad(n::text, 5, '0'), n %% 64, 'native',
           CASE WHEN n %% 13 = 12 THEN 'Empty' ELSE 'Stable' END, 3, n, 'incremental', 'sticky', '', false
    FROM generate_series(0, %(groups)s - 1) AS n;
    INSERT INTO group_member (group_name, member_id, token_hash, subscription, session_timeout_ms,
                              auto_commit, auto_offset_reset, client_id, client_host, node)
    SELECT name, 'ann', decode(repeat('00', 32), 'hex'), '[]', 10000, true, 'latest', '', '', ''
    FROM consumer_group WHERE phase = 'Stable';
    INSERT INTO partition_ownership (group_name, topic_id, topic_name, partition, copy, owner,
                                     since_generation, state)
    SELECT name, %(topic)s, %(name)s, part, 0, 'ann', 3, 'running'
    FROM consumer_group, generate_series(0, %(partitions)s - 1) AS part WHERE phase = 'Stable';
    INSERT INTO committed_offset (group_name, topic_id, topic_name, partition, committed_offset, leader_epoch,
                                  metadata, version, moved_at)
    SELECT name, %(topic)s, %(name)s, part, 1000 - (hashtext(name || part) & 31), -1, '', 1,
           now() + interval '1 day' -- else all of them stand still a minute later, and pages tell of it
    FROM consumer_group, generate_series(0, %(partitions)s - 1) AS part;
"""


@contextmanager
def _web(home: Path) -> Iterator[tuple[str, psutil.Process, psutil.Process, list[str]]]:
    """Address and process of a web process beside a PostgreSQL with many groups, and what opens its doors."""
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="pages-", dir=home)).resolve()
    postgres = Postgres(folder)
    web: subprocess.Popen[str] | None = None
    try:
        postgres.start()
        server = next(one for one in psutil.Process().children(recursive=True) if "postgres" in one.name())
        url = _migrated_database(postgres)
        environment = {
            **os.environ,
            "DATABASE_URL": url,
            "DATABASE_DIRECT_URL": url,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "MUSTER_WEB_LISTEN": "127.0.0.1:0",
        }
        filling = [sys.executable, "-c", "from tests.benchmarks.pages import fill; fill()"]
        keys = subprocess.run(
            filling, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout.split()
        with (folder / "web.log").open("wb") as log:
            command = [sys.executable, "manage.py", "run_web"]
            web = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert web.stdout is not None
        address = web.stdout.readline().split()[-1]
        yield address, psutil.Process(web.pid), server, keys
    finally:
        if web is not None:
            web.terminate()
            web.wait()
        postgres.remove()
        shutil.rmtree(folder, ignore_errors=True)


def _used_s(process: psutil.Process) -> float:
    """Processor time of a process and its children, living or not."""
    times = [process.cpu_times(), *(child.cpu_times() for child in process.children())]
    gone = times[0].children_user + times[0].children_system
    return float(sum(one.user + one.system for one in times) + gone)


def _measure(address: str, path: str, headers: dict[str, str]) -> tuple[list[float], int]:
    """Milliseconds of each request, and the size of an answer in bytes."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    took, size = [], 0
    for number in range(WARM + MEASURED):
        began = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        size = len(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}")
        if number >= WARM:
            took.append((time.perf_counter() - began) * 1000)
    connection.close()
    return took, size


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes a folder under `home`."""
    lines = [
        f"{GROUPS:,} groups of {PARTITIONS} partitions; `wide`: 10,000, 1,000 members; {MEASURED} requests",
        f"{'address':<34}{'p50 ms':>8}{'p95 ms':>8}{'web CPU ms':>12}{'database ms':>13}{'KB':>7}",
    ]
    with _web(home) as (address, web, postgres, (cookie, token)):
        before = proportional_bytes(web.pid) / 1e6
        for path in PAGES:
            rest = path.startswith("/api/")
            headers = {"Authorization": f"Bearer {token}"} if rest else {"Cookie": cookie}
            web_s, database_s = _used_s(web), _used_s(postgres)
            took, size = _measure(address, path, headers)
            web_ms = (_used_s(web) - web_s) * 1000 / (WARM + MEASURED)
            database_ms = (_used_s(postgres) - database_s) * 1000 / (WARM + MEASURED)
            p95 = statistics.quantiles(took, n=20)[-1]
            p50 = statistics.median(took)
            lines.append(
                f"{path:<34}{p50:>8.1f}{p95:>8.1f}{web_ms:>12.1f}{database_ms:>13.1f}{size / 1000:>7.0f}"
            )
        after = proportional_bytes(web.pid) / 1e6
    return [*lines, f"memory of the web process: {before:.0f} MB before, {after:.0f} MB after"]


def main() -> None:
    """`python -m tests.benchmarks.pages`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
