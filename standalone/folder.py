"""This room is the folder of one stack: who holds it, what it tells scripts, and how it is deleted."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from standalone.children import StartError
from standalone.postgres import POINTER, Postgres
from standalone.private import write_private
from standalone.supervision import State, socket_path

INFO_FILE = "stack.json"
LOCK_FILE = "stack.lock"
# The demo's stack lies in a folder of this name inside of MUSTER_HOME.
DEMO = "demo"
ROOMS = ("log", "secrets", "run")
# What a stack or the demo puts into its folder; whatever else lies there is a person's.
OURS = (
    *(*ROOMS, "redis", "postgres", POINTER, "broker-*"),
    *("evidence", "spark", INFO_FILE, f".{INFO_FILE}.*", LOCK_FILE),
)


class AlreadyRunning(StartError):
    """A live stack holds this folder; the text names its process."""


@contextlib.contextmanager
def held(home: Path) -> Iterator[None]:
    """Hold the folder, so that no other stack starts in it. Raises AlreadyRunning."""
    lock = take(home)
    try:
        yield
    finally:
        os.close(lock)


def take(home: Path) -> int:
    """Make the folder ours; closing what is returned gives it back. Raises AlreadyRunning, OSError."""
    for folder in (home, *(home / name for name in ROOMS)):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode() or "unknown"
        os.close(lock)
        raise AlreadyRunning(
            f"A stack already runs in {home} (process {holder}). "
            "Stop it, or name another folder with MUSTER_HOME=dir."
        ) from error
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    # What a killed stack told is not true any more.
    (home / INFO_FILE).unlink(missing_ok=True)
    return lock


def write_info(home: Path, info: Mapping[str, Any]) -> None:
    """Replace stack.json at once."""
    write_private(home / INFO_FILE, json.dumps(info, indent=2) + "\n")


def read_info(home: Path) -> dict[str, Any]:
    """What stack.json says; empty when no stack wrote one."""
    try:
        found: dict[str, Any] = json.loads((home / INFO_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def update_info(home: Path, states: Mapping[str, State]) -> None:
    """Bring the list of processes in stack.json up to date, for whoever changed one from outside."""
    info = read_info(home)
    for row in info.get("processes", []):
        state = states.get(row["name"])
        row["pid"], row["state"] = (state.pid, state.text) if state else (0, "not started")
    if info:
        write_info(home, info)


def remove(home: Path) -> list[str]:
    """Delete what a stopped stack and the demo's left in ``home``, data included; returns what stays.

    Other people's files stay, and a folder in which no stack ever ran. Raises AlreadyRunning, before
    anything is deleted.
    """
    home = home.absolute()
    with contextlib.ExitStack() as holding:
        stacks = [folder for folder in (home / DEMO, home) if (folder / LOCK_FILE).is_file()]
        for folder in stacks:
            holding.enter_context(held(folder))
        for folder in stacks:
            Postgres(folder).remove()
            # It may lie elsewhere, too.
            shutil.rmtree(socket_path(folder).parent, ignore_errors=True)
            _delete_ours(folder)
    for folder in (home / DEMO, home):
        with contextlib.suppress(OSError):
            folder.rmdir()
    return sorted(path.name for path in home.iterdir()) if home.is_dir() else []


def _delete_ours(folder: Path) -> None:
    for path in folder.iterdir():
        if not any(fnmatch(path.name, pattern) for pattern in OURS):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
