"""This room gives tests real servers: an embedded PostgreSQL a session, a Redis for whoever asks."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker

from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.kept_databases import copy_database, lent_database

HOME_PREFIX = "muster-tests-"
TEMPLATE = "muster_template"

# A shell's background has the suite ignore SIGINT, nohup SIGHUP, and all that tests start inherit that.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# Nine thousand tests lie in memory: to look through all of it for cycles takes half a second each time.
gc.set_threshold(50_000, 20, 20)

# A machine that does other work as well makes nothing wrong: no example is judged by the clock.
settings.register_profile("muster", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("muster")


def _sweep_homes_of_the_dead() -> None:
    """Delete what test runs left that were killed: their servers are gone, their folders are not."""
    for folder in Path(tempfile.gettempdir()).glob(f"{HOME_PREFIX}*"):
        pid = folder.name.removeprefix(HOME_PREFIX).partition("-")[0]
        # Another session of this run may sweep as well.
        with suppress(FileNotFoundError):
            if pid.isdigit() and not psutil.pid_exists(int(pid)) and folder.stat().st_uid == os.geteuid():
                shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def static_files_are_read_once() -> Iterator[None]:
    """Each of Django's test clients builds the middleware anew, which looks at two hundred files."""
    from config.static_files import StaticFiles

    look = StaticFiles.add_files_from_finders
    found: dict[str, Any] = {}

    def remember(middleware: StaticFiles) -> None:
        if not found:
            look(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFiles, "add_files_from_finders", remember)
        yield


@pytest.fixture(scope="session")
def servers_home() -> Iterator[Path]:
    """The folder of this session's servers: data, logs, passwords."""
    _sweep_homes_of_the_dead()
    home = Path(tempfile.mkdtemp(prefix=f"{HOME_PREFIX}{os.getpid()}-"))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(servers_home: Path) -> Iterator[Postgres]:
    """One embedded PostgreSQL for the session; `.superuser_url(database)` may end other people's backends."""
    server = Postgres(servers_home, throw_away=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def migrated_template(postgres_server: Postgres, django_db_blocker: DjangoDbBlocker) -> str:
    """The name of a database that holds the whole schema and no rows; copy it, do not write to it."""
    from django.core.management import call_command

    copy_database(postgres_server, TEMPLATE, template="template1")
    with django_db_blocker.unblock():
        _point_django_at(postgres_server.url(TEMPLATE))
        call_command("migrate", verbosity=0, interactive=False)
        _close_connections()
    return TEMPLATE


@pytest.fixture(scope="session")
def django_db_setup(
    postgres_server: Postgres, migrated_template: str, django_db_blocker: DjangoDbBlocker
) -> None:
    """What pytest-django's `db` fixture works on: a copy of the template, instead of a second migration."""
    copy_database(postgres_server, "muster_orm", template=migrated_template)
    with django_db_blocker.unblock():
        _point_django_at(postgres_server.url("muster_orm"))


@contextmanager
def database_of_its_own(
    server: Postgres, template: str, blocker: DjangoDbBlocker, patch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of a new database; settings, ORM and the environment of children point at it meanwhile."""
    from django.conf import settings

    earlier = settings.DATABASE_URL
    with lent_database(server, template) as url, blocker.unblock():
        for variable in ("DATABASE_URL", "DATABASE_DIRECT_URL"):
            patch.setenv(variable, url)
        _point_django_at(url)
        yield url
        _close_connections()
        _point_django_at(earlier)


@contextmanager
def pointed_at(url: str) -> Iterator[None]:
    """Settings and ORM of this process name the database of `url` meanwhile; unblock Django first."""
    from django.conf import settings

    earlier = settings.DATABASE_URL
    _point_django_at(url)
    yield
    _close_connections()
    _point_django_at(earlier)


@pytest.fixture
def fresh_database(
    postgres_server: Postgres,
    migrated_template: str,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """The address of a new database with the whole schema, for this test alone.

    Django's settings, its ORM, and the environment that child processes inherit point at it as well.
    """
    with database_of_its_own(postgres_server, migrated_template, django_db_blocker, monkeypatch) as url:
        yield url


@pytest.fixture
def redis_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """A Redis of this test's own: `.url .pause() .resume() .stop() .start()`; REDIS_URL names it."""
    from django.conf import settings

    server = Redis(tmp_path / "redis-home")
    server.start()
    monkeypatch.setenv("REDIS_URL", server.url)
    monkeypatch.setattr(settings, "REDIS_URL", server.url)
    yield server
    server.stop()


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


def _point_django_at(url: str) -> None:
    """Make settings and every connection of this process name the database of ``url``."""
    from django.conf import settings
    from django.db import connections

    parts = urlsplit(url)
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = url
    for described in (connections.settings["default"], connections["default"].settings_dict):
        described.update(
            NAME=parts.path.lstrip("/"),
            USER=parts.username or "",
            PASSWORD=parts.password or "",
            HOST=parts.hostname or "",
            PORT=str(parts.port or ""),
        )
    connections["default"].close()
