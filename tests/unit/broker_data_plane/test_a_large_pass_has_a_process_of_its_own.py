"""A pass over much is made beside the broker's process: as well as within it, and nothing outlives either."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from broker import compactor
from broker.log.compaction import CLEANED, Source, Task
from muster.kafkawire.api_table import ApiKey
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker, client, produce
from tests.unit.broker_log.compacted_logs import keyed

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
A_PARENT = """
import sys
from pathlib import Path
from broker.compactor import PassBeside
from broker.log.compaction import Source, Task
PassBeside(Task((Source(Path(sys.argv[1]), 0, 9, 100),), 0, 0, 1000)).look()
"""


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "SMALL_BYTES", 0)


@contextlib.asynccontextmanager
async def filled(folder: Path) -> AsyncIterator[Broker]:
    async with broker(folder) as one, client(one.client_port) as ann:
        one.obey(1, configs=COMPACTED)
        for number in range(200):
            batch = keyed([(b"k%d" % (number % 3), b"%d" % number * 100)])
            await ann.ask(ApiKey.PRODUCE, 9, produce(batch=batch))
        yield one


def files(one: Broker, names: str = "*.log") -> dict[str, bytes]:
    folder = next(one.plane.partitions()).log.folder
    return {path.name: path.read_bytes() for path in folder.glob(names)}


def a_pipe_that_nobody_writes(folder: Path) -> Task:
    """Whoever opens it to read waits."""
    path = folder / f"{0:020}.log"
    os.mkfifo(path)
    return Task((Source(path, 0, 9, 100),), 0, 0, 1_000)


def children() -> list[psutil.Process]:
    found = []
    for one in psutil.Process().children(recursive=True):
        # What other tests left behind may end meanwhile, or have ended and be waited for by nobody.
        with contextlib.suppress(psutil.NoSuchProcess):
            if compactor.PROGRAM in " ".join(one.cmdline()):
                found.append(one)
    return found


async def child_of(wait_for: asyncio.Task[object]) -> psutil.Process:
    while not (found := children()):
        assert not wait_for.done()
        await asyncio.sleep(0)
    return found[0]


async def test_it_leaves_what_one_in_the_process_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filled(tmp_path / "beside") as beside, filled(tmp_path / "here") as here:
        before = files(beside)
        assert await beside.plane.cleaner.clean_dirty() == 1
        monkeypatch.setattr(compactor, "SMALL_BYTES", 2**60)
        assert await here.plane.cleaner.clean_dirty() == 1
        assert files(beside) == files(here)
        assert sum(map(len, files(beside).values())) < sum(map(len, before.values()))
        assert not children()


async def test_a_process_that_is_killed_leaves_the_log_as_it_was_for_the_next_round(tmp_path: Path) -> None:
    async with filled(tmp_path) as one:
        before = files(one)
        with capture_logs() as said:
            cleaning = asyncio.ensure_future(one.plane.cleaner.clean_dirty())
            (await child_of(cleaning)).kill()
            assert await cleaning == 0
        assert [line["event"] for line in said] == ["not_compacted"]
        assert files(one) == before
        assert await one.plane.cleaner.clean_dirty() == 1
        assert not files(one, f"*{CLEANED}")


async def test_a_pass_that_is_cut_off_ends_its_process(tmp_path: Path) -> None:
    one = compactor.PassBeside(a_pipe_that_nobody_writes(tmp_path))
    looking = asyncio.ensure_future(asyncio.to_thread(one.look))
    try:
        child = await child_of(looking)
        unfinished = tmp_path / f"{0:020}.log.{child.pid}{CLEANED}"
        unfinished.touch()
        looking.cancel()
    finally:
        # Also where this fails: the thread that looks would keep the loop from closing for ever.
        await one.end()
    assert not child.is_running()
    assert not unfinished.exists()


def test_it_ends_with_its_broker(tmp_path: Path) -> None:
    """With kill -9, too; its file has a name that no process of the next broker writes to."""
    fifo = a_pipe_that_nobody_writes(tmp_path).sources[0].path
    parent = subprocess.Popen([sys.executable, "-c", A_PARENT, str(fifo)])
    try:
        watched = psutil.Process(parent.pid)
        while not (found := watched.children()):
            assert parent.poll() is None
        # It has its task when it opens this.
        writer = os.open(fifo, os.O_WRONLY)
    finally:
        parent.kill()
        parent.wait()
    try:
        assert psutil.wait_procs(found, timeout=30)[1] == []
    finally:
        os.close(writer)


def test_its_process_loads_nothing_that_serves_clients() -> None:
    """It would hold some seven megabytes more beside the keys."""
    command = [sys.executable, "-X", "importtime", "-m", compactor.PROGRAM]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "broker.log.compaction" in loaded
    assert not loaded & {"asyncio", "ssl", "subprocess", "structlog"}


async def test_what_is_wrong_with_a_disk_or_a_log_is_told_as_it_is(tmp_path: Path) -> None:
    async with filled(tmp_path) as one:
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        path = sorted(hosted.log.folder.glob("*.log"))[0]
        away = tmp_path / "away"
        shutil.move(path, away)
        with capture_logs() as said:
            assert await one.plane.cleaner.clean_dirty() == 0
        assert [(line["event"], path.name in line["reason"]) for line in said] == [("not_compacted", True)]

        spoiled = bytearray(away.read_bytes())
        spoiled[200] ^= 1
        path.write_bytes(spoiled)
        with capture_logs() as said:
            await one.plane.cleaner.clean_dirty()
        assert [line["event"] for line in said] == ["cannot_be_compacted"]
        assert one.plane.cleaner.given_up == 1
        assert not children()
