"""A broker with more logs than the system lets it open closes those that were used longest ago."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.log.files import OpenFiles
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from kafkaserver.limits import ServerLimits
from kafkaserver.outbox import FileRegion
from muster.kernel.environment import Environment
from muster.kernel.settings import DECLARED
from tests.unit.broker_log.logs import ORDERS, append, bytes_of

LARGE = bytes(5_000)
"""Records that are sent from their file."""

# In a process of its own: the bound is the whole process's, and a test run holds files of its own.
PROGRAM = """
import resource, sys
from broker.log.files import OpenFiles
from kafkaserver.limits import client_limits, peer_limits

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
files = OpenFiles()
for number in range(300):
    files.get(f"{sys.argv[1]}/{number}.log", is_new=True)
print(len(files), client_limits().connections, peer_limits().connections)
print(client_limits(7).connections, client_limits(1_000_000).connections)
"""


def test_logs_clients_and_peers_together_leave_some_of_what_is_allowed(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    logs, clients, peers, few, many = map(int, done.stdout.split())
    assert logs and clients and peers
    assert logs + clients + peers <= 88
    assert (few, many) == (7, clients)


def test_a_node_takes_as_many_clients_as_a_broker_if_nobody_says_a_number() -> None:
    assert Environment({}, DECLARED).number("MUSTER_NODE_KAFKA_CONNECTIONS") == ServerLimits().connections


def test_what_answers_hold_open_counts_and_who_comes_later_gets_a_copy(tmp_path: Path) -> None:
    files = OpenFiles(limit=3)
    logs = []
    for number in range(6):
        (tmp_path / str(number)).mkdir()
        log = PartitionLog(tmp_path / str(number), ORDERS, files, LogSettings())
        append(log, LARGE)
        logs.append(log)
    answer = [log.read(0, 2 * len(LARGE), 1, at_least_one=True) for log in logs]
    assert len(files) == 3
    assert sum(isinstance(records, FileRegion) for records in answer) == 3
    assert len({bytes_of(records) for records in answer if records is not None}) == 1
    append(logs[0], b"b")
    assert len(files) <= 4
    del answer
    again = logs[5].read(0, 2 * len(LARGE), 1, at_least_one=True)
    assert isinstance(again, FileRegion)
    assert len(files) <= 3


def test_few_bytes_are_copied_and_hold_no_file(tmp_path: Path) -> None:
    files = OpenFiles(limit=3)
    log = PartitionLog(tmp_path, ORDERS, files, LogSettings())
    append(log, b"a")
    assert isinstance(log.read(0, 1_000, 1, at_least_one=True), bytes)
    append(log, LARGE)
    assert isinstance(log.read(0, 2 * len(LARGE), 2, at_least_one=True), FileRegion)


def test_a_file_that_an_answer_holds_is_not_opened_twice(tmp_path: Path) -> None:
    files = OpenFiles(limit=2)
    (tmp_path / "held").touch()
    held = files.get_to_keep(str(tmp_path / "held"))
    for number in range(4):
        files.get(str(tmp_path / str(number)), is_new=True)
    assert files.get(str(tmp_path / "held")) is held


def test_what_a_thread_opens_as_it_is_discarded_is_not_taken_for_the_next_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a compacted file, or a log that begins again where it did: they would be read and written there."""
    files, path, replace = OpenFiles(), str(tmp_path / "0.log"), os.replace
    files.get(path, is_new=True).write(memoryview(b"old"), 0)

    def behind_a_thread(source: str, target: str) -> None:
        files.get(path)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", behind_a_thread)
        files.discard(path)
    files.get(path, is_new=True).write(memoryview(b"new"), 0)
    assert Path(path).read_bytes() == b"new"
