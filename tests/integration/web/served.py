"""This room runs the real web process beside tests and asks it over real sockets."""

import os
import selectors
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections
from psycopg.errors import DeadlockDetected

from access.grants import Role
from access.service import create_user
from standalone.postgres import Postgres
from tests.tidy.sources import ROOT
from tests.warm import SERVING, warm

READY_WITHIN_S = 120
END_ALL = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
"""Autovacuum may be at work in the database too; only a superuser may end that."""
_KEPT = ("django_migrations", "django_content_type", "auth_permission", "django_session", "auth_user")
"""Tables that emptying leaves alone: the schema's own, and who is signed in."""


class WebProcess:
    """`manage.py run_web` on a free port, in the environment of the test."""

    def __init__(self, log: Path, **environment: str) -> None:
        self._log = log.open("wb")
        self.process = warm(SERVING).start(
            [sys.executable, "manage.py", "run_web"],
            environment={**os.environ, "MUSTER_WEB_LISTEN": "127.0.0.1:0", **environment},
            folder=ROOT,
            stderr=self._log,
        )
        self.url = self._ready()

    def _ready(self) -> str:
        assert self.process.stdout is not None
        selector = selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        end = time.monotonic() + READY_WITHIN_S
        while selector.select(max(0.0, end - time.monotonic())):
            line = self.process.stdout.readline().decode()
            if line.startswith("web ready "):
                return line.split()[-1]
            if not line:
                break
        self.stop()
        raise AssertionError(f"the web process did not become ready: see {self._log.name}")

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()
        return code


@contextmanager
def closed(server: Postgres, database: str) -> Iterator[None]:
    """Nobody gets into the database, as while PostgreSQL restarts."""
    with psycopg.connect(server.superuser_url(), autocommit=True) as superuser:
        superuser.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        superuser.execute(END_ALL, [database])
        try:
            yield
        finally:
            superuser.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
            connections["default"].close()


def _are_emptied(cursor: Any, names: list[str]) -> bool:
    """False: a page of the test before still reads, it and this waited for each other, and this gave way."""
    try:
        cursor.execute(f"TRUNCATE {', '.join(names)}")
    except OperationalError as error:
        if isinstance(error.__cause__, DeadlockDetected):
            return False
        raise
    return True


def empty_tables() -> None:
    """Begin a test with empty tables; whoever is signed in stays so, and is an operator again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = sorted(f'"{name}"' for (name,) in cursor.fetchall() if name not in _KEPT)
        while not _are_emptied(cursor, names):
            pass
    for user in User.objects.all():
        create_user(user.get_username(), Role.OPERATOR, None)


class SharedWeb:
    """One web process and one database for a module; each test finds it empty, and ended ones begin anew."""

    def __init__(self, log: Path, **environment: str) -> None:
        self._log = log
        self._environment = environment
        self._process: WebProcess | None = None

    def for_a_test(self) -> WebProcess:
        """The process, on emptied tables."""
        empty_tables()
        if self._process is None or self._process.process.poll() is not None:
            self._process = WebProcess(self._log, **self._environment)
        return self._process

    def stop(self) -> None:
        """End the process, if it was ever asked for."""
        if self._process is not None and self._process.process.poll() is None:
            self._process.stop()
