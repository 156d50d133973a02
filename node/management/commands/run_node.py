"""This room starts a node, after it has seen that this is the database that it belongs to."""

import asyncio
import re
import sys
import time
from typing import Any

import structlog
from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from kafkaserver.compiled import running
from kafkaserver.ending import end_without_threads
from kafkaserver.version import own_version
from muster.kernel.environment import SettingError
from runtime import metrics
from runtime.cluster import ReadIn, WrongDatabase
from runtime.collecting import calm_collector
from runtime.ports import ConnectionLost
from runtime.postgres import Postgres
from runtime.schema import why_unknown

WAIT_FOR_DATABASE_S = 60.0
SWITCH_INTERVAL_S = 0.0005
"""A lane's thread waits for the interpreter after each round trip, four times a batch of commits, and by
Python's own 5 ms each time while the loop is busy."""

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,31}")

log = structlog.get_logger(__name__)


class Command(BaseCommand):
    """Runs until SIGTERM or SIGINT, gives its leases away, and ends."""

    help = "Run a node: member websockets, broker links, leases, duties."
    # Ours of settings; Django's of addresses would import every page, and a node has none.
    requires_system_checks = (Tags.security,)

    def handle(self, *args: Any, **options: Any) -> None:
        """Refuse what is wrong, then serve. Raises CommandError with the reason."""
        if NODE_NAME.fullmatch(settings.MUSTER_NODE_NAME) is None:
            raise CommandError("MUSTER_NODE_NAME must be 1 to 32 letters, digits, dots or dashes.")
        try:
            _wait_for_database()
            _refuse_unknown_schema()
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(_run())
                end_without_threads()
        except (WrongDatabase, SettingError) as error:
            raise CommandError(str(error)) from error


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it exists."""
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


async def _run() -> None:
    from node.serve import Node

    log.info("node runs", version=own_version(), how=str(running))
    metrics.compiled_modules.set(running.modules)
    metrics.build_info.labels(own_version()).set(1)
    node = Node()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    calm_collector()
    await node.run()


def _wait_for_database() -> None:
    """A connection that may carry leases, within a minute. Raises WrongDatabase or CommandError.

    Who reads a dump in under `make up` adopts it meanwhile, from another terminal.
    """
    give_up_at = time.monotonic() + WAIT_FOR_DATABASE_S
    database = Postgres(settings.DATABASE_DIRECT_URL, settings.MUSTER_NODE_NAME)
    while True:
        try:
            database.connect("boot", "boot").close()
            return
        except ConnectionLost as error:
            if time.monotonic() > give_up_at:
                raise CommandError(f"PostgreSQL cannot be reached: {error}") from error
            log.warning("PostgreSQL cannot be reached yet", error=str(error))
        except ReadIn as error:
            if time.monotonic() > give_up_at:
                raise
            log.warning("PostgreSQL has to be adopted first", error=str(error))
        time.sleep(0.5)


def _refuse_unknown_schema() -> None:
    """Raises CommandError unless exactly the migrations that this program knows have been applied."""
    if unknown := why_unknown(connection):
        raise CommandError(unknown)
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        raise CommandError(f"{len(missing)} migrations are missing: run `manage.py migrate`.")
    connection.close()
