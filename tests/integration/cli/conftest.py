"""This room runs the command line as people do, as a process, against a real web process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple

import pytest
from pytest_django import DjangoDbBlocker

from access.grants import Role
from access.service import create_token
from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.conftest import database_of_its_own
from tests.integration.replication.cluster import Cluster
from tests.integration.web.conftest import shared_web, web
from tests.integration.web.served import WebProcess
from tests.tidy.sources import ROOT
from tests.warm import COMMAND_LINE, warm

__all__ = ["shared_web", "web"]
LIMIT_S: Final = 120


class Said(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The answer of `-o json`."""
        return json.loads(self.out)


class Muster:
    """Somebody who types `muster …`, in a folder of his own."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        self.environment = kept | {"HOME": str(home), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)} | environment
        self.environment.pop("XDG_CONFIG_HOME", None)

    def __call__(self, *words: object, fed: str = "") -> Said:
        with (
            TemporaryFile() as out,
            TemporaryFile() as err,
            TemporaryFile() as typed,
        ):
            typed.write(fed.encode())
            typed.seek(0)
            started = warm(COMMAND_LINE).start(
                self.command(*words),
                environment=self.environment,
                folder=self.home,
                stdin=typed,
                stdout=out,
                stderr=err,
            )
            try:
                code = started.wait(LIMIT_S)
            finally:
                started.kill()
            return Said(code, _read(out), _read(err))

    def begin(
        self,
        *words: object,
        stdin: int | None = None,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.PIPE,
        start_new_session: bool = False,
    ) -> "subprocess.Popen[str]":
        """A command that goes on meanwhile."""
        return subprocess.Popen(
            self.command(*words),
            env=self.environment,
            cwd=self.home,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=start_new_session,
        )

    def command(self, *words: object) -> list[str]:
        """What is started."""
        return [sys.executable, "-P", "-m", "muster.cli", *map(str, words)]

    def done(self, *words: object, fed: str = "") -> Said:
        """A command that must do it."""
        said = self(*words, fed=fed)
        assert said.code == 0, said.err
        return said


def _read(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode()


@pytest.fixture
def nobody(tmp_path: Path) -> Muster:
    """Somebody who has said nothing yet."""
    home = tmp_path / "somebody"
    home.mkdir()
    return Muster(home)


@pytest.fixture
def viewer(web: WebProcess, tmp_path: Path) -> Iterator[Muster]:
    """Somebody who may look at the cluster of `web`."""
    home = tmp_path / "viewer"
    home.mkdir()
    yield Muster(home, MUSTER_URL=web.url, MUSTER_TOKEN=create_token("viewer", Role.VIEWER))


class Operated(NamedTuple):
    """A cluster, and somebody who operates it."""

    cluster: Cluster
    muster: Muster


@pytest.fixture(scope="module")
def operated(
    postgres_server: Postgres,
    migrated_template: str,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Operated]:
    """A node, a worker, three brokers, a web process; a token of an operator. Shared by a module."""
    home = tmp_path_factory.mktemp("operated")
    redis = Redis(home / "redis-home")
    redis.start()
    with (
        pytest.MonkeyPatch.context() as patch,
        database_of_its_own(postgres_server, migrated_template, django_db_blocker, patch) as url,
    ):
        cluster = Cluster(home / "cluster", url, redis)
        try:
            cluster.start()
            cluster.start_worker()
            database = {name: url for name in ("DATABASE_URL", "DATABASE_DIRECT_URL")}
            process = WebProcess(home / "web.log", **database)
            token = create_token("mira", Role.OPERATOR)
            (home / "mira").mkdir()
            yield Operated(cluster, Muster(home / "mira", MUSTER_URL=process.url, MUSTER_TOKEN=token))
            process.stop()
        finally:
            cluster.stop()
            redis.stop()
