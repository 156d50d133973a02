"""A process that can open no more files has lost its database for the moment, and does not end of it."""

import contextlib
import os
import resource
from collections.abc import Iterator
from uuid import uuid4

import pytest

from runtime import cluster
from runtime.ports import ConnectionLost
from runtime.postgres import Postgres, cut_off_after, open_connection


@contextlib.contextmanager
def _descriptors_left(count: int) -> Iterator[None]:
    """This process can open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Before the bound: behind it whoever else runs in this process may be the one who gets them.
    left = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(highest + 2, hard), hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for descriptor in left:
            os.close(descriptor)
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("count", range(4))
def test_to_connect_is_to_be_tried_again(fresh_database: str, count: int) -> None:
    """The socket, what waits for its answer, and what breaks it off in time: each needs a file of its own."""
    with open_connection(fresh_database, "muster-test") as connection:
        cluster.initialise(connection, uuid4(), ["controller"])
    database = Postgres(fresh_database, "node-1")
    database.connect("run", "before").close()
    with _descriptors_left(count), contextlib.suppress(ConnectionLost):
        database.connect("run", "session").close()
    database.connect("run", "after").close()


def test_a_connection_that_nobody_could_break_off_is_none(fresh_database: str) -> None:
    with contextlib.closing(open_connection(fresh_database, "muster-test")) as connection:
        with _descriptors_left(0), pytest.raises(ConnectionLost), cut_off_after(connection, 60):
            pass
        with cut_off_after(connection, 60):
            assert connection.execute("SELECT 1").fetchone() == (1,)
