"""A thread that nobody can cut off, as one that asks for the address of a name, keeps no process."""

import subprocess
import sys

WAITS_FOR_EVER = """
import threading
from concurrent.futures import ThreadPoolExecutor
from kafkaserver.ending import end_without_threads
ThreadPoolExecutor(1).submit(threading.Event().wait)
end_without_threads(0.1)
"""


def test_it_ends_in_order() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WAITS_FOR_EVER], capture_output=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_who_ends_by_itself_is_not_cut_short() -> None:
    ends = "from kafkaserver.ending import end_without_threads as end; end(3600); raise SystemExit(7)"
    ended = subprocess.run([sys.executable, "-c", ends], capture_output=True, timeout=120, check=False)
    assert ended.returncode == 7
