"""A supervisor that was stopped, or waits for a disk, keeps nobody waiting: the stack ends all the same."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from standalone import supervision
from standalone.commanding import running
from standalone.supervision import NotAnswering, Supervision, Supervisor


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Supervisor, int]]:
    """A supervisor that answered when it had begun, and its process id."""
    supervisor = Supervisor(tmp_path)
    supervisor.run([], os.environ)
    assert supervisor._process is not None
    process_id = supervisor._process.pid
    os.kill(process_id, signal.SIGSTOP)
    monkeypatch.setattr(supervision, "ANSWER_LIMIT_S", 0.1)
    monkeypatch.setattr(supervision, "LAST_ANSWER_LIMIT_S", 0.1)
    yield supervisor, process_id
    supervisor.end()


def test_whoever_asks_is_told_that_it_does_not_answer(stopped: tuple[Supervisor, int]) -> None:
    """Not that no stack runs there."""
    with pytest.raises(NotAnswering, match="does not answer"):
        running(stopped[0].home)


def test_one_that_was_stopped_goes_on_when_all_is_to_end(stopped: tuple[Supervisor, int]) -> None:
    """Killed, it would take all of its children with it, out of their order."""
    supervisor, _ = stopped
    supervisor.stop_in_order({"web": "web"}, 60.0)
    supervisor.end()
    assert supervisor._process is None


def test_one_that_answers_nobody_is_ended_by_force(stopped: tuple[Supervisor, int]) -> None:
    supervisor, process_id = stopped
    with pytest.raises(NotAnswering):
        Supervision.stop_in_order(supervisor, {"web": "web"}, 1.0)
    supervisor.end()
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
