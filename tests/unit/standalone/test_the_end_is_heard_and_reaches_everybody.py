"""Ctrl-C, SIGTERM and a closed terminal end what runs in front, and with a process what it started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from standalone.children import end, launch

LIMIT_S = 120.0
WAITER = """
import signal, sys
from standalone.ending import EndRequested, do_not_disturb, listen_for_the_end
ended = listen_for_the_end()
try:
    print("listening", flush=True)
    ended.wait(60)
except EndRequested:
    do_not_disturb()
    print("ended in good order", flush=True)
"""
WAITER_AT_EACH_MOMENT = """
import os, signal, sys
from standalone.ending import EndRequested, listen_for_the_end
def is_broken_off(moment):
    ended, passed = listen_for_the_end(), []
    def ask(frame, event, what):
        passed.append(event)
        if len(passed) == moment:
            os.kill(os.getpid(), signal.SIGTERM)
    try:
        sys.setprofile(ask)
        ended.wait(0.01)
        sys.setprofile(None)
    except EndRequested:
        sys.setprofile(None)
        assert ended.is_set()
        return True
    return False
moment = 1
while is_broken_off(moment):
    moment += 1
print("broken off", moment > 1, flush=True)
"""
STARTER = """
import os, signal, sys
from pathlib import Path
from standalone.children import StartError
from standalone.commanding import InFrontCommand
class Nothing:
    is_there = sys.argv[2:] == ["there"]
    def stop(self): print("stopped", flush=True)
class Command(InFrontCommand):
    def stack(self, home, options): return Nothing()
    def run(self, stack, ended):
        try:
            if sys.argv[1] == "asked": os.kill(os.getpid(), signal.SIGTERM)
            ended.wait(0)
        finally:
            raise StartError("the connection is in the middle of a statement")
Command().act(Path("home"), {})
"""
SPEAKER = """
from standalone.commanding import StackCommand
class Command(StackCommand):
    def act(self, home, options): pass
command = Command()
input()
command.say("nobody hears this █")
command.say("nor this")
"""


def _waiter(*prefix: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([*prefix, sys.executable, "-c", WAITER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "listening\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_ending_is_an_orderly_one(number: signal.Signals) -> None:
    process = _waiter()
    process.send_signal(number)
    assert process.communicate(timeout=LIMIT_S)[0] == "ended in good order\n"
    assert process.returncode == 0


def test_the_end_is_heard_in_each_moment_of_waiting_for_it() -> None:
    """Also where whoever waits has just taken a lock: `make up` looks each second whether all is well."""
    done = subprocess.run(
        [sys.executable, "-c", WAITER_AT_EACH_MOMENT], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.stdout, done.stderr) == ("broken off True\n", "")


def test_a_hangup_that_was_to_be_ignored_is_ignored() -> None:
    process = _waiter("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=LIMIT_S)[0] == "ended in good order\n"


@pytest.mark.parametrize(("why", "status"), [("asked", 0), ("not asked", 1)])
def test_an_end_that_comes_out_as_a_failure_of_what_it_broke_off_is_none(why: str, status: int) -> None:
    """As from psycopg, which is rolling back while Ctrl-C comes."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run(
        [sys.executable, "-c", STARTER, why], capture_output=True, text=True, env=environment, timeout=LIMIT_S
    )
    assert (done.returncode, done.stdout) == (status, "stopped\n")
    assert ("StartError: the connection" in done.stderr) == (status == 1)


def test_whoever_waits_for_the_end_of_a_stack_is_told_that_it_is_under_way() -> None:
    """And who may not start one, because another runs there, is not told that something stops."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"}
    done = [
        subprocess.run(
            [sys.executable, "-c", STARTER, "asked", *more],
            capture_output=True,
            text=True,
            env=environment,
            timeout=LIMIT_S,
        )
        for more in (("there",), ())
    ]
    assert [one.stdout for one in done] == ["stopping everything\nstopped\n", "stopped\n"]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_reader_who_went_away_breaks_nothing_off(encoding: str) -> None:
    """`make up | head -1`, or a terminal that was closed."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONIOENCODING": encoding}
    process = subprocess.Popen(
        [sys.executable, "-c", SPEAKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"\n")
    process.stdin.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert (process.wait(LIMIT_S), complaints) == (0, b"")


def test_ending_a_process_ends_what_it_left(tmp_path: Path) -> None:
    """Spark's Java outlives the Python that started it by its own clean-up, or for good."""
    log = tmp_path / "log"
    script = "trap '' TERM; sleep 600 & echo $! ; trap - TERM; wait"
    process = launch(["/bin/sh", "-c", script], folder=tmp_path, log=log, environment=os.environ)
    give_up_at = time.monotonic() + LIMIT_S
    while not log.read_text(encoding="utf-8").strip():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    left = int(log.read_text(encoding="utf-8"))
    end(process, signal.SIGTERM, patience_s=0.3)
    # Whoever takes orphans in may leave a zombie lying for a moment.
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE
