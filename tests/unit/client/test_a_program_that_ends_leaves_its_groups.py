"""A program that ends with consumers open leaves their groups, whatever one of them does."""

import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from muster import BlockingConsumer, State
from muster.client import ending
from muster.messages.member import LeaveRequest
from tests.unit.client.forks import told_by_a_child
from tests.unit.client.test_a_program_without_a_loop_consumes import Beside, beside, until

__all__ = ["beside"]

LONG_MS = 120_000
"""A session of which a third, the wait for a record in hand, is longer than any test waits."""


class Holding:
    """A consumer that another thread iterates, which keeps the first record in hand until it may go on."""

    def __init__(self, beside: Beside) -> None:
        self.consumer = beside.consumer(session_timeout_ms=LONG_MS).__enter__()
        self.may_go_on = threading.Event()
        self._holds = threading.Event()
        self._thread = threading.Thread(target=self._iterate)
        self._thread.start()
        assert self._holds.wait(20)

    def _iterate(self) -> None:
        for _ in self.consumer:
            self._holds.set()
            assert self.may_go_on.wait(60)

    def end(self) -> None:
        self.may_go_on.set()
        self._thread.join()


def entered(beside: Beside) -> BlockingConsumer:
    consumer = beside.consumer().__enter__()
    next(consumer)
    return consumer


def test_one_that_hangs_keeps_no_other_from_leaving(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    holding, other = Holding(beside), entered(beside)
    monkeypatch.setattr(ending, "consumers", [holding.consumer, other])
    closing = threading.Thread(target=ending.close_all)
    closing.start()
    until(lambda: other.state is State.CLOSED)
    assert closing.is_alive()
    holding.end()
    closing.join()
    assert holding.consumer.state is State.CLOSED


def test_one_that_fails_keeps_no_other_from_leaving(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = entered(beside), entered(beside)
    loop, thread = broken._loop, broken._thread
    assert loop is not None and thread is not None
    loop.call_soon_threadsafe(broken._over.set)
    thread.join()
    monkeypatch.setattr(ending, "consumers", [broken, other])
    ending.close_all()
    assert other.state is State.CLOSED
    [told] = [one for one in caplog.records if "could not be closed" in one.getMessage()]
    assert broken.consumer_id in told.getMessage()


def test_what_was_closed_is_closed_once_more_without_a_word(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = entered(beside)
    monkeypatch.setattr(ending, "consumers", [consumer, beside.consumer()])
    consumer.close()
    ending.close_all()
    ending.close_all()
    assert consumer.state is State.CLOSED
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_child_that_ends_says_nothing_of_its_parents_consumers(beside: Beside) -> None:
    def end(tell: Callable[[str], None]) -> None:
        ending.close_all()
        tell("ended")

    with beside.consumer() as consumer:
        next(consumer)
        assert told_by_a_child(end) == ["ended"]
        assert len(consumer.next_batch(50)) >= 19


PROGRAM = """
import sys, threading
from muster import BlockingConsumer
consumer = BlockingConsumer(
    "readers", {"orders": 2}, nodes=[sys.argv[1]], token="mst_", auto_offset_reset="earliest",
    session_timeout_ms=3_000,
).__enter__()
taken = threading.Event()
def hang():
    next(consumer)
    taken.set()
    threading.Event().wait()
if sys.argv[2] == "hangs":
    threading.Thread(target=hang, daemon=True).start()
    assert taken.wait(20)
else:
    next(consumer)
{end}
"""


@pytest.mark.parametrize("how", ["iterates", "hangs"])
@pytest.mark.parametrize("end", ["", "sys.exit(0)"], ids=["runs out", "exits"])
def test_a_program_that_never_closes_says_that_it_leaves(beside: Beside, how: str, end: str) -> None:
    assert beside.stage is not None
    coordinator = beside.stage.coordinator
    program = [sys.executable, "-c", PROGRAM.replace("{end}", end), coordinator.address, how]
    ended = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert isinstance(beside.do(coordinator.hears(LeaveRequest)), LeaveRequest)
