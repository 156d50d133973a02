"""This room knows how to start a child that dies with us, and which ports and folders are free for it."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import psutil

LAUNCHER = Path(__file__).with_name("launch.py")
# Below Linux's ephemeral range (32768 to 60999), so that no outgoing connection can take a port we chose.
FIRST_PORT, LAST_PORT = 12000, 32000
# Of 20,000, so that throwing dice finds free ones soon.
MOST_PORTS = 1_000
MOST_SPOKEN_FOR = 24
"""Ports that this process chose last: others of this machine leave them until they are listened on."""
GROUP_LOOKS_AGAIN_S = 0.02


class StartError(Exception):
    """A part of the stack did not start; the text names the part and its log."""


_STANDS_STILL = {
    psutil.STATUS_STOPPED: "stopped (kill -CONT)",
    psutil.STATUS_TRACING_STOP: "held by a debugger",
    psutil.STATUS_DISK_SLEEP: "waits for a disk",
}


def stands_still(pid: int) -> str:
    """Why the process answers nobody now, though it is there; empty: it runs, or there is none."""
    try:
        return _STANDS_STILL.get(psutil.Process(pid).status(), "") if pid else ""
    except psutil.Error:
        return ""


def launch_command(
    command: Sequence[str], *, folder: Path, parent: int = 0, death_signal: str = "KILL", user: str = ""
) -> list[str]:
    """The command line that runs ``command`` through the launcher (see `standalone.launch`)."""
    interpreter = [sys.executable, "-I", "-S", str(LAUNCHER)]
    return [*interpreter, str(parent), death_signal, user, str(folder), *command]


def launch(
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
    death_signal: str = "KILL",
    user: str = "",
) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session of its own, its output appended to ``log``.

    The kernel counts the starting *thread* as the parent: it must live as long as the child may.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            launch_command(command, folder=folder, parent=os.getpid(), death_signal=death_signal, user=user),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
        )


def end(process: subprocess.Popen[bytes], *signals: signal.Signals, patience_s: float = 5.0) -> None:
    """Send each signal in turn until the process has ended, and what it started with it; SIGKILL is the last.

    A signal goes to the process, which tells its own children what it wants; without it, to whom it left.
    """
    for number in (*signals, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        give_up_at = time.monotonic() + patience_s
        while time.monotonic() < give_up_at:
            if process.poll() is not None and not _lives(process.pid):
                return
            time.sleep(GROUP_LOOKS_AGAIN_S)


def _lives(group: int) -> bool:
    """True while somebody runs of the group that `launch` made of a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    # Orphans lie as zombies until whoever takes them in fetches them, in some containers for good.
    return any(
        one.info["status"] != psutil.STATUS_ZOMBIE and _group_of(one) == group
        for one in psutil.process_iter(["status"])
    )


def _group_of(process: psutil.Process) -> int:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return 0


_spoken_for: deque[int] = deque()
"""Descriptors of their signs: they end with this process."""


def _speak_for(port: int) -> bool:
    """False if another process has chosen the port, too, and not listened on it yet (Linux only)."""
    if sys.platform != "linux":
        return True
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # A name without a file, which ends with its owner.
        sign.bind(f"\0muster-port-{port}")
    except OSError:
        sign.close()
        return False
    _spoken_for.append(sign.detach())
    while len(_spoken_for) > MOST_SPOKEN_FOR:
        os.close(_spoken_for.popleft())
    return True


def free_ports(count: int) -> list[int]:
    """``count`` different ports on 127.0.0.1 that nobody listens on, at random, not ephemeral ones.

    Raises StartError for more than 1,000.
    """
    if count > MOST_PORTS:
        raise StartError(f"So many processes need {count} ports; a stack on one machine has {MOST_PORTS}.")
    dice = random.SystemRandom()
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                probe.bind(("127.0.0.1", dice.randint(FIRST_PORT, LAST_PORT)))
            except OSError:
                probe.close()
                continue
            if not _speak_for(probe.getsockname()[1]):
                probe.close()
                continue
            held.append(probe)
        return [probe.getsockname()[1] for probe in held]
    finally:
        for probe in held:
            probe.close()


def log_tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log file, for an error message; empty when there is none."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def wheel_folder(package: str) -> Path:
    """Where an installed package lies, without running its code. Raises StartError when it is missing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"The package {package} is not installed; run `make setup`.")
    return Path(spec.origin).parent
