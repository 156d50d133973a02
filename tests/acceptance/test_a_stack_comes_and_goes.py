"""A stack for scripts: ready when it says so, told by stack.json, ruled by name, gone without a trace."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from standalone.folder import held, remove
from standalone.processes import ROOT

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
START_LIMIT_S = 240.0
END_LIMIT_S = 60.0
# A kill -9 travels from the top through supervisor to its children.
VANISH_LIMIT_S = 60.0
_numbers = itertools.count(1)
# What a shell may hold that was set up for another program.
ANOTHER_PROGRAMS = {
    "DATABASE_URL": "mysql://elsewhere/production",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
    "ALLOWED_HOSTS": "shop.example",
    "DJANGO_SETTINGS_MODULE": "shop.settings",
    "PGHOST": "elsewhere",
    "PGOPTIONS": "-c search_path=shop",
}
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    give_up_at = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {limit_s} s: {what}"
        time.sleep(0.05)


def _alive(pids: list[int]) -> list[int]:
    """Those of ``pids`` that run; a zombie that nobody fetched does not."""
    running = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                running.append(pid)
        except psutil.NoSuchProcess:
            continue
    return running


class Up:
    """`manage.py up` in a process of its own, as `make up` calls it."""

    def __init__(self, home: Path, nodes: int = 1, brokers: int = 1, workers: int = 1) -> None:
        self.home = home
        self.output = home.parent / f"{home.name}-{next(_numbers)}.out"
        environment = {name: value for name, value in os.environ.items() if name != "MAKELEVEL"}
        environment |= ANOTHER_PROGRAMS
        environment |= {"NODES": str(nodes), "BROKERS": str(brokers), "WORKERS": str(workers)}
        environment["MUSTER_HOME"] = str(home)
        self.environment = environment
        with self.output.open("ab") as output:
            command = [sys.executable, str(ROOT / "manage.py"), "up"]
            self.process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=output)

    def said(self) -> str:
        """What it printed so far."""
        return self.output.read_text(encoding="utf-8")

    def wait_ready(self) -> None:
        """Wait for the line `ready`; an early end fails with what it printed."""
        _until(lambda: "\nready " in self.said() or self.process.poll() is not None, START_LIMIT_S, "ready")
        assert "\nready " in self.said(), self.said()

    def info(self) -> dict[str, Any]:
        """stack.json."""
        found: dict[str, Any] = json.loads((self.home / "stack.json").read_text(encoding="utf-8"))
        return found

    def everybody(self) -> list[int]:
        """The ids of all processes below the top, and the top itself."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        return [self.process.pid, *(process.pid for process in below)]

    def named(self) -> list[int]:
        """The processes that stack.json names: what PostgreSQL starts for a moment comes and goes."""
        return [int(row["pid"]) for row in self.info()["processes"]]

    def make(self, verb: str, what: str = "") -> str:
        """What `make VERB WHAT=what` prints. Raises CalledProcessError."""
        venv = Path(sys.executable).parent.parent
        command = ["make", "--silent", verb, f"WHAT={what}", f"VENV={venv}", f"MUSTER_HOME={self.home}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def end(self) -> None:
        """Whatever happened: nothing of it stays."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A stack of one node and three brokers, ready."""
    stack = Up(tmp_path / "home", brokers=3)
    try:
        stack.wait_ready()
        yield stack
    finally:
        stack.end()
        remove(stack.home)


def test_scripts_learn_everything_they_need_and_rule_single_processes(up: Up) -> None:
    info = up.info()
    assert (up.home / "stack.json").stat().st_mode & 0o777 == 0o600
    assert f"ready bootstrap={info['bootstrap']} web={info['web']}" in up.said()
    names = {row["name"] for row in info["processes"]}
    assert names == {"postgres", "redis", "web", "node-1", "worker-1", "broker-1", "broker-2", "broker-3"}
    assert _alive([row["pid"] for row in info["processes"]]) == [row["pid"] for row in info["processes"]]
    assert all(Path(row["log"]).exists() for row in info["processes"])
    request = urllib.request.Request(
        f"{info['rest']}brokers/", headers={"Authorization": f"Bearer {info['token']}"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.status == 200

    address = up.make("login").strip()
    assert address.startswith(info["web"]) and address not in up.said()
    for link in (address, re.findall(r"up: sign in.*: (http\S+)", up.said())[0]):
        with urllib.request.urlopen(link, timeout=60) as page:
            assert b"Sign in as" in page.read()
    _readme_holds(up)

    # Brokers and nodes say how they run.
    how = re.compile(r"^(?:broker|node)-\d .*ready, (?:plain Python|\d+ compiled)", re.MULTILINE)
    assert len(how.findall(up.make("status"))) == 4

    # Somebody else kills it; the stack is told by nobody, and knows.
    killed = next(row["pid"] for row in info["processes"] if row["name"] == "broker-2")
    os.kill(killed, signal.SIGKILL)
    _until(lambda: _pid(up, "broker-2") == 0, VANISH_LIMIT_S, "stack.json shows the death")
    assert re.search(r"broker-2 +- +killed", up.make("status"))
    up.make("start", "broker-2")
    assert _pid(up, "broker-2") not in (0, killed)
    up.make("stop", "worker-1")
    assert _pid(up, "worker-1") == 0
    up.make("start", "worker-1")

    second = Up(up.home)
    assert second.process.wait(END_LIMIT_S) != 0
    assert f"A stack already runs in {up.home} (process {up.process.pid})" in second.said()

    everybody = up.everybody()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(END_LIMIT_S) == 0
    assert _alive(everybody) == []
    assert not (up.home / "stack.json").exists()


def _readme_holds(up: Up) -> None:
    """Its programs do what it says, as they stand, beside `make up` and beside `make demo`."""
    texts = CODE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    create, produce, consume = texts
    checkout = up.home.parent / "checkout"
    (checkout / ".muster" / "demo").mkdir(parents=True)
    told = checkout / ".muster" / "stack.json"
    told.symlink_to(up.home / "stack.json")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    for text in (create, produce):
        command = [sys.executable, "-c", text]
        subprocess.run(command, cwd=checkout, env=environment, check=True, timeout=60)
    told.rename(checkout / ".muster" / "demo" / "stack.json")
    command = [sys.executable, "-c", consume]
    with subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        # The test's own time limit bounds it.
        assert b"two books" in consumer.stdout.readline()
        consumer.terminate()


def _pid(up: Up, name: str) -> int:
    return int(next(row["pid"] for row in up.info()["processes"] if row["name"] == name))


def test_two_stacks_run_side_by_side_and_a_killed_one_leaves_nothing_but_its_folder(tmp_path: Path) -> None:
    # Without workers, who need longest to start and are looked at in the test above.
    one, other = Up(tmp_path / "one", nodes=2, workers=0), Up(tmp_path / "the other", workers=0)
    again: Up | None = None
    try:
        one.wait_ready()
        other.wait_ready()
        assert one.info()["bootstrap"] != other.info()["bootstrap"]
        assert len(one.info()["websocket"]) == 2
        before = one.info()
        killed, untouched = one.everybody(), other.named()
        assert not set(killed) & set(untouched)

        one.process.kill()
        one.process.wait()
        _until(lambda: _alive(killed) == [], VANISH_LIMIT_S, "all processes are gone")
        assert _alive(untouched) == untouched
        # The next start takes the old folder, and the terminal of this one is closed.
        again = Up(one.home, workers=0)
        again.wait_ready()
        # Where it listened before: of the two nodes it had, one is wanted now.
        after = again.info()
        assert (after["web"], after["bootstrap"]) == (before["web"], before["bootstrap"])
        assert after["nodes"] == before["nodes"][:1]
        everybody = again.everybody()
        again.process.send_signal(signal.SIGHUP)
        assert again.process.wait(END_LIMIT_S) == 0
        assert _alive(everybody) == [] and _alive(untouched) == untouched
    finally:
        for stack in filter(None, (again, one, other)):
            stack.end()
            remove(stack.home)


def test_a_step_that_fails_names_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with held(home, brokers=1):
        # A file where the broker wants a folder.
        (home / "broker-1").write_text("not a folder", encoding="utf-8")
    broken = Up(home, workers=0)
    try:
        assert broken.process.wait(START_LIMIT_S) != 0
        assert "broker-1 is not ready" in broken.said()
        assert str(home / "log" / "broker-1.log") in broken.said()
        assert not (home / "stack.json").exists()
    finally:
        broken.end()
        remove(home)
