"""This room runs the processes of a stack by supervisor, and talks to a running one through its socket."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import Faults, SupervisorTransport, UnixStreamHTTPConnection

from standalone.children import StartError, end, launch, launch_command, log_tail
from standalone.private import forget_socket_folder, make_socket_folder, socket_folder, write_private
from standalone.processes import ROOT, STOP_LIMIT_S, STOP_ORDER, Child

RUNNING_STATES = frozenset({"STARTING", "RUNNING", "STOPPING"})
LOG_LIMIT = "50MB"
# A PostgreSQL that is killed leaves backends behind, and cannot start beside them. Whoever stops it alone has
# time; when a whole stack ends, `stop_in_order` keeps its own.
KILLED_AFTER_S = {"postgres": 50}
START_LIMIT_S = 10.0
END_LIMIT_S = 2.0
# Its answers take milliseconds. One that was stopped, or waits for a disk, may never give one.
ANSWER_LIMIT_S = 20.0
# When all is to end: it is ended, too, and then by force.
LAST_ANSWER_LIMIT_S = 2.0
# What supervisor's settings cannot hold: anywhere, in a variable, in a path.
COMMENT, QUOTES, PERCENT = re.compile(r"\s[;#]|[\r\n]"), re.compile("[\"']"), re.compile("%")
# Supervisor looks after its children once a second, or whenever somebody asks it something.
LOOK_AGAIN_S = 0.05
# PostgreSQL stops last and must not pay for who was slow before it.
RESERVED_FOR_THE_LAST_S = 2.5


class NotRunning(Exception):
    """No supervisor answers: no stack runs here, or it is just ending."""


class NotAnswering(NotRunning):
    """A supervisor is there, and answers nobody."""


class _Transport(SupervisorTransport):  # type: ignore[misc]  # supervisor ships no types
    """Supervisor's own waits for ever."""

    def __init__(self, path: Path, limit_s: float) -> None:
        super().__init__(None, None, f"unix://{path}")
        self._get_connection = lambda: _Connection(str(path), limit_s)


class _Connection(UnixStreamHTTPConnection):  # type: ignore[misc]
    """One that gives up after a while."""

    def __init__(self, path: str, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self.socketfile = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.socketfile)


@dataclass(frozen=True, slots=True)
class State:
    """How one process is: ``pid`` is 0 when it does not run, ``text`` says how it ended."""

    name: str
    running: bool
    pid: int
    text: str


def socket_path(home: Path) -> Path:
    """Supervisor's socket: in the home, or in a short folder of ours where that path would be too long."""
    # Supervisor binds a longer name first, with its process id, and renames it.
    return socket_folder(home.absolute() / "run", "supervisor.sock.1234567") / "supervisor.sock"


class Supervision:
    """Talks to the supervisor of one home. Each call raises NotRunning when none answers."""

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.socket = socket_path(home)
        self._answer_limit_s = ANSWER_LIMIT_S

    def states(self) -> dict[str, State]:
        """Every process by name."""
        found: list[dict[str, Any]] = self._call("getAllProcessInfo")
        return {
            row["name"]: State(
                name=row["name"],
                running=row["statename"] in RUNNING_STATES,
                pid=row["pid"],
                text=_ending(row),
            )
            for row in found
        }

    def start(self, name: str) -> None:
        """Start ``name``; nothing happens when it runs already."""
        self._call("startProcess", f"{name}:{name}", False, tolerated=(Faults.ALREADY_STARTED,))

    def stop(self, name: str) -> None:
        """Ask ``name`` to stop and wait until it has, by SIGKILL after its time; nothing if it is down."""
        self._call("stopProcess", f"{name}:{name}", False, tolerated=(Faults.NOT_RUNNING,))
        self._wait_stopped([name], 60.0)

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the process itself. Raises NotRunning when it has no process."""
        pid = self.states()[name].pid
        if not pid:
            raise NotRunning(f"{name} does not run.")
        os.kill(pid, number)

    def add(self, name: str) -> None:
        """Take up a program whose settings file was written after the start."""
        self._call("reloadConfig")
        self._call("addProcessGroup", name, tolerated=(Faults.ALREADY_ADDED,))

    def stop_in_order(self, roles: Mapping[str, str], limit_s: float) -> None:
        """Stop everything, wave by wave of STOP_ORDER, within ``limit_s``; ``roles`` maps names to roles."""
        give_up_at = time.monotonic() + limit_s
        for wave in STOP_ORDER:
            names = [name for name, role in roles.items() if role in wave]
            for name in names:
                answer_s = give_up_at - RESERVED_FOR_THE_LAST_S - time.monotonic()
                self._answer_limit_s = max(LAST_ANSWER_LIMIT_S, answer_s)
                self._call(
                    "stopProcess", f"{name}:{name}", False, tolerated=(Faults.NOT_RUNNING, Faults.BAD_NAME)
                )
            reserved = 0.0 if wave == STOP_ORDER[-1] else RESERVED_FOR_THE_LAST_S
            patience = max(STOP_LIMIT_S[role] for role in wave)
            left = min(patience, give_up_at - reserved - time.monotonic())
            slow = self._wait_stopped(names, max(0.2, left))
            for name in slow:
                # Who ended meanwhile needs no signal.
                with contextlib.suppress(NotRunning, ProcessLookupError):
                    # SIGQUIT, because a PostgreSQL that is killed leaves its backends behind for a moment.
                    self.send(name, signal.SIGQUIT if roles[name] == "postgres" else signal.SIGKILL)
            self._wait_stopped(slow, 1.0)

    def shut_down(self) -> None:
        """End supervisor itself."""
        self._call("shutdown")

    def _wait_stopped(self, names: Sequence[str], limit_s: float) -> list[str]:
        """Wait until all of ``names`` have ended; returns those that have not."""
        give_up_at = time.monotonic() + limit_s
        while True:
            states = self.states()
            left = [name for name in names if name in states and states[name].running]
            if not left or time.monotonic() > give_up_at:
                return left
            time.sleep(LOOK_AGAIN_S)

    def _call(self, method: str, *arguments: Any, tolerated: Iterable[int] = ()) -> Any:
        transport = _Transport(self.socket, self._answer_limit_s)
        proxy = ServerProxy("http://127.0.0.1", transport=transport)
        try:
            return getattr(proxy.supervisor, method)(*arguments)
        except Fault as fault:
            if fault.faultCode in tolerated:
                return None
            if fault.faultCode == Faults.BAD_NAME:
                raise NotRunning(
                    f"There is no process {arguments[0].partition(':')[0]} in this stack."
                ) from fault
            if fault.faultCode == Faults.SHUTDOWN_STATE:
                raise NotRunning(f"The stack in {self.home} is ending.") from fault
            raise StartError(f"{method} {' '.join(map(str, arguments))}: {fault.faultString}") from fault
        except (TimeoutError, BlockingIOError) as error:
            # Blocking: so many wait already that no more are let in.
            raise NotAnswering(
                f"The supervisor of the stack in {self.home} does not answer: it is stopped (kill -CONT), or"
                " waits for a disk. What it was told to do it does when it goes on."
            ) from error
        except OSError as error:
            raise NotRunning(f"No stack runs in {self.home}.") from error
        finally:
            transport.close()


class Supervisor(Supervision):
    """The supervisor that this process runs; it and all its children die with this process's main thread."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.log = self.home / "log" / "supervisor.log"
        self.settings = self.home / "run" / "supervisor.conf"
        self._sections: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, children: Sequence[Child], environment: Mapping[str, str]) -> None:
        """Start supervisor with ``children`` known to it, none of them started. Raises StartError."""
        for folder in (self.home / "run", self.home / "log"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sections = {"": self._own_section()}
        # First, for a home that cannot be told is refused, and leaves no folder elsewhere.
        self._write_settings(*children)
        make_socket_folder(self.socket.parent)
        self.socket.unlink(missing_ok=True)
        program = [
            sys.executable,
            "-m",
            "standalone.supervisor_program",
            "--nodaemon",
            "-c",
            str(self.settings),
        ]
        self._process = launch(program, folder=ROOT, log=self.log, environment=environment)
        give_up_at = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.states()
                return
            except NotRunning as error:
                if self._process.poll() is not None or time.monotonic() > give_up_at:
                    text = f"supervisor did not start; the end of {self.log}:\n{log_tail(self.log)}"
                    raise StartError(text) from error
                time.sleep(LOOK_AGAIN_S)

    def stop_in_order(self, roles: Mapping[str, str], limit_s: float) -> None:
        """As ever; one that was stopped goes on first: killed, it would take all with it out of order."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
        super().stop_in_order(roles, limit_s)

    def is_alive(self) -> bool:
        """True while supervisor runs."""
        return self._process is not None and self._process.poll() is None

    def run_client(self, client: Child) -> None:
        """Start one more process beside the stack; it is stopped first."""
        self._write_settings(client)
        self.add(client.name)
        self.start(client.name)

    def end(self) -> None:
        """End supervisor, and with it whatever still runs."""
        if self._process is None:
            return
        give_up_at = time.monotonic() + END_LIMIT_S
        self._answer_limit_s = LAST_ANSWER_LIMIT_S
        with contextlib.suppress(NotRunning, StartError):
            self.shut_down()
            while self._process.poll() is None and time.monotonic() < give_up_at:
                # Each question wakes it up to see that nothing is left to wait for.
                self._call("getState")
                time.sleep(LOOK_AGAIN_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, give_up_at - time.monotonic()))
        end(self._process, signal.SIGTERM, patience_s=1)
        self._process = None
        forget_socket_folder(self.socket.parent)

    def _write_settings(self, *children: Child) -> None:
        """Make these known, too; a client's section holds its token. Raises StartError for a home's name."""
        self._sections |= {child.name: program_section(child) for child in children}
        write_private(self.settings, "\n\n".join(self._sections.values()) + "\n")

    def _own_section(self) -> str:
        return "\n".join(
            [
                "[supervisord]",
                f"logfile = {_path(self.log)}",
                "logfile_maxbytes = 0",
                "silent = true",
                f"pidfile = {_path(self.home / 'run' / 'supervisor.pid')}",
                f"childlogdir = {_path(self.home / 'log')}",
                "umask = 077",
                "",
                "[unix_http_server]",
                f"file = {_path(self.socket)}",
                "chmod = 0700",
                "",
                "[rpcinterface:supervisor]",
                "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
            ]
        )


def program_section(child: Child) -> str:
    """Supervisor's settings of one process: started by name, never by itself, never again by itself."""
    command = child.command if child.launched else launch_command(child.command, folder=ROOT)
    return "\n".join(
        [
            f"[program:{child.name}]",
            f"command = {_value(shlex.join(command))}",
            f"environment = {','.join(_assignment(*pair) for pair in child.environment.items())}",
            f"stdout_logfile = {_path(child.log)}",
            f"stdout_logfile_maxbytes = {LOG_LIMIT}",
            "stdout_logfile_backups = 1",
            "redirect_stderr = true",
            "autostart = false",
            "autorestart = false",
            "startsecs = 0",
            "startretries = 0",
            f"stopsignal = {child.stop_signal}",
            f"stopwaitsecs = {KILLED_AFTER_S.get(child.role, STOP_LIMIT_S[child.role] + 1)}",
            "killasgroup = true",
        ]
    )


def _assignment(name: str, value: str) -> str:
    return f'{name}="{_value(value, forbidden=QUOTES)}"'


def _path(path: Path) -> str:
    # Some of these values are expanded once, others twice.
    return _value(str(path), forbidden=PERCENT)


def _value(text: str, forbidden: re.Pattern[str] | None = None) -> str:
    """A value of supervisor's settings file. Raises StartError for what that file cannot hold."""
    found = COMMENT.search(text) or (forbidden.search(text) if forbidden else None)
    if found:
        raise StartError(
            f"supervisor cannot take {found.group()!r} in {text!r}: choose another MUSTER_HOME, or checkout."
        )
    return text.replace("%", "%%")


def _ending(row: Mapping[str, Any]) -> str:
    """How a process is, in words: running, not started, ended by itself or by a signal."""
    if row["statename"] in RUNNING_STATES:
        return "running"
    if not row["stop"]:
        return "not started"
    if row["statename"] == "STOPPED":
        return "stopped"
    status = int(row["exitstatus"])
    return f"ended with status {status}" if status >= 0 else "killed"
