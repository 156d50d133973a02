"""`make status` says of a process that is there and answers nobody why: nobody restarts it by itself."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from standalone.children import stands_still
from tests.integration.runtime.conftest import wait_for


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    waiting = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def test_a_stopped_one_is_told_until_it_goes_on(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: stands_still(process.pid).startswith("stopped (kill"), "it is stopped")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: not stands_still(process.pid), "it goes on")


def test_nobody_is_said_to_stand_still_who_is_not_there(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    assert stands_still(process.pid) == stands_still(0) == ""
