"""A broker goes on where its log cannot be written: its disk is full, or whoever read it is gone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.folder import CLEAN_SHUTDOWN_FILE

ROOT = Path(__file__).parents[3]


@contextmanager
def _full_disk() -> Iterator[int]:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@contextmanager
def _pipe_without_a_reader() -> Iterator[int]:
    reads, writes = os.pipe()
    os.close(reads)
    yield writes
    os.close(writes)


RUN = """
import sys
from broker import command, process

async def run(self, stop):
    await run_as_ever(self, Stop(stop))

class Stop:
    def __init__(self, stop):
        self.stop = stop

    async def wait(self):
        print("runs", flush=True)
        await self.stop.wait()

run_as_ever, process.BrokerProcess.run = process.BrokerProcess.run, run
sys.exit(command.main())
"""
"""A broker that says, not in its log, that all of it has begun."""


@pytest.mark.parametrize("nowhere", [_full_disk, _pipe_without_a_reader])
def test_it_begins_and_ends_in_order_though_nobody_can_be_told(
    tmp_path: Path, nowhere: Callable[[], Iterator[int]]
) -> None:
    settings = {
        "MUSTER_BROKER_ID": "1",
        "MUSTER_BROKER_DATA": str(tmp_path),
        "MUSTER_BROKER_LISTEN": "127.0.0.1:0",
        "MUSTER_BROKER_REPLICATION_LISTEN": "127.0.0.1:0",
        "MUSTER_BROKER_SECRET": "s3cret",
        # Nobody listens there, and that is to be told, too.
        "MUSTER_NODES": "ws://127.0.0.1:1",
    }
    with nowhere() as stderr:  # type: ignore[attr-defined]
        broker = subprocess.Popen(
            [sys.executable, "-c", RUN],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        with broker:
            assert broker.stdout is not None
            said = broker.stdout.readline()
            broker.send_signal(signal.SIGTERM)
            assert (said, broker.wait()) == ("runs\n", 0)
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
