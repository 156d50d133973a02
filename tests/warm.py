"""This room starts processes of the product warm: forked from one that has imported them, like no user's.

Hundreds are started here, and to import is most of what a short life costs. What one is given - arguments,
environment, folder, files - and what it runs from its first line on are those of a process that was executed;
`tests/acceptance` starts the real commands.
"""

import array
import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
PR_SET_PDEATHSIG = 1
ANSWERS_WITHIN_S = 120.0

SERVING = "serving"
COMMAND_LINE = "command line"
ROOMS = {
    SERVING: (
        "broker controller coordinator gateway groups kafkaserver muster.client muster.kafkawire"
        " muster.kernel muster.messages node runtime"
    ),
    COMMAND_LINE: "muster.cli",
}
LIBRARIES = {
    SERVING: (
        "celery.app.trace celery.apps.worker celery.bin.celery celery.bin.worker celery.concurrency.prefork"
        " celery.fixups.django celery.worker.worker channels.db channels.routing django.contrib.auth.hashers"
        " django.contrib.humanize.templatetags.humanize django.contrib.postgres.fields django.core.asgi"
        " django.core.handlers.asgi django.core.management.commands.migrate"
        " django.db.backends.postgresql.base django.forms django.template.defaulttags"
        " django.template.loader_tags django.urls django.views.generic kombu.transport.redis psycopg_binary"
        " uvicorn uvicorn.lifespan.on uvicorn.protocols.http.httptools_impl uvloop"
        " websockets whitenoise.middleware"
    ),
    COMMAND_LINE: "",
}
INTERPRETERS_OWN = ("-P", "-u")


class WarmProcess(subprocess.Popen[bytes]):
    """What `subprocess.Popen` is, of a process whose parent is the warm one."""

    def __init__(self, pid: int, command: Sequence[str], stdin: int | None, stdout: int | None) -> None:
        # Not of subprocess: nothing was executed here.
        self.args = list(command)
        self.pid = pid
        self.returncode = None
        self.stdin: IO[bytes] | None = os.fdopen(stdin, "wb", 0) if stdin is not None else None
        self.stdout: IO[bytes] | None = os.fdopen(stdout, "rb") if stdout is not None else None
        self.stderr = None
        self.ended = threading.Event()
        self._ended_as = 0
        self._child_created = False
        self._communication_started = False
        self._input: Any = None
        self._sigint_wait_secs = 0.25
        self.text_mode = None
        self.encoding = self.errors = None

    def end_as(self, code: int) -> None:
        """It is said to have ended."""
        self._ended_as = code
        self.ended.set()

    def poll(self) -> int | None:
        if self.ended.is_set():
            self.returncode = self._ended_as
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.returncode = self._ended_as
        return self.returncode

    def __del__(self, *_: object) -> None:
        """Nothing is left to fetch."""


class Warm:
    """The warm process of one kind, and whom it has forked."""

    def __init__(self, kind: str) -> None:
        ours, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._socket = ours
        self._living: dict[int, WarmProcess] = {}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", kind, str(theirs.fileno())],
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._answers = ours.makefile("rb")
        self._started: int | None = None
        self._heard = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self.close)

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
        stdin: IO[bytes] | None = None,
        fed: bool = False,
        session: bool = False,
    ) -> WarmProcess:
        """Start `python …`.

        Output without a file goes down a pipe; errors without one go where this process's go; what is `fed`
        reads from a pipe.
        """
        ends: list[int] = []
        feeds, hears = None, None
        if fed:
            source, feeds = os.pipe()
        else:
            source = os.dup(stdin.fileno()) if stdin else os.open(os.devnull, os.O_RDONLY)
        if stdout is None:
            hears, sink = os.pipe()
        else:
            sink = os.dup(stdout.fileno())
        ends += [source, sink]
        wish = {"command": list(command[1:]), "environment": dict(environment), "folder": str(folder)}
        text = json.dumps(wish | {"session": session}).encode()
        with self._lock:
            self._socket.sendall(len(text).to_bytes(4, "big"))
            packed = array.array("i", [*ends, stderr.fileno() if stderr else 2])
            self._socket.sendmsg([text[:1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
            self._socket.sendall(text[1:])
            with self._heard:
                if not self._heard.wait_for(lambda: self._started is not None, ANSWERS_WITHIN_S):
                    raise AssertionError("the warm process does not answer")
                assert self._started is not None
                made = WarmProcess(self._started, command, feeds, hears)
                self._living[self._started], self._started = made, None
                self._heard.notify_all()
        for number in ends:
            os.close(number)
        return made

    def close(self) -> None:
        """Let it end, and everybody whom it started."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait()

    def _listen(self) -> None:
        for line in self._answers:
            said = json.loads(line)
            with self._heard:
                if "started" in said:
                    self._started = said["started"]
                    self._heard.notify_all()
                    continue
                # Who ends at once may be told of before the one who asked has put him down.
                self._heard.wait_for(lambda: said["ended"] in self._living)  # noqa: B023
                self._living.pop(said["ended"]).end_as(said["code"])


@cache
def warm(kind: str) -> Warm:
    """The warm process of this test process, started when it is first needed."""
    return Warm(kind)


# ------------------------------------------------------------------------------------ inside the warm process


def main(kind: str, number: str) -> None:
    """Import everything that needs no settings, then fork whoever is wished for."""
    door = socket.socket(fileno=int(number))
    import_what_needs_no_settings(kind)
    # Whoever is forked collects before it serves, which would look at, and so copy, all that is shared.
    gc.collect()
    gc.freeze()
    sys.argv = ["python"]
    awake, wakes = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([door.fileno(), awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            _bury(door)
        if door.fileno() in ready:
            wish = _read_wish(door)
            if wish is None:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for end in (awake, wakes):
                    os.close(end)
                door.close()
                _become(*wish)
            for given in wish[1]:
                os.close(given)
            _say(door, started=pid)


def import_what_needs_no_settings(kind: str) -> None:
    """Import; whatever wants Django's settings is left to those who have some."""
    from muster.kernel.lean_imports import leave_out_what_serves_nobody

    if kind == SERVING:
        leave_out_what_serves_nobody()
    # What reads the environment, and whoever needs it, comes with the environment.
    sys.modules["config"] = None  # type: ignore[assignment]
    names = LIBRARIES[kind].split()
    for room in ROOMS[kind].split():
        names += _modules_below(ROOT.joinpath(*room.split(".")), room)
    for name in names:
        if not name.endswith("__main__"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    del sys.modules["config"]
    if kind == SERVING:
        from muster.kafkawire.api_table import shapes_loaded

        deque(shapes_loaded(), maxlen=0)


def _modules_below(folder: Path, room: str) -> list[str]:
    found = [room]
    for one in pkgutil.iter_modules([str(folder)]):
        name = f"{room}.{one.name}"
        found += _modules_below(folder / one.name, name) if one.ispkg else [name]
    return found


def _bury(door: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say(door, ended=pid, code=os.waitstatus_to_exitcode(status))


def _say(door: socket.socket, **words: int) -> None:
    with contextlib.suppress(OSError):
        door.sendall(json.dumps(words).encode() + b"\n")


def _read_wish(door: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    size = _exactly(door, 4)
    if len(size) < 4:
        return None
    length = int.from_bytes(size, "big")
    first, packed, _, _ = door.recvmsg(1, socket.CMSG_SPACE(16))
    given = array.array("i")
    given.frombytes(packed[0][2])
    return json.loads(first + _exactly(door, length - 1)), list(given)


def _exactly(door: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size and (more := door.recv(size - len(said))):
        said += more
    return said


def _become(wish: dict[str, Any], given: list[int]) -> None:
    """Be the process that was wished for; never returns."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if wish["session"]:
            os.setsid()
        for number, end in enumerate(given):
            os.dup2(end, number)
            os.close(end)
        os.chdir(wish["folder"])
        os.environ.clear()
        os.environ.update(wish["environment"])
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        code = _run(wish["command"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(command: list[str]) -> int:
    """Run as Python would, with what happens at the end of a process."""
    while command[0] in INTERPRETERS_OWN:
        command = command[1:]
    sys.argv = command if command[0] != "-m" else command[1:]
    try:
        try:
            if command[0] == "-m":
                runpy.run_module(command[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(command[0], run_name="__main__")
        finally:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
