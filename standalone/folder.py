"""This room is the folder of one stack: who holds it, what it tells scripts, and how it is deleted."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from standalone.belongings import DEMO, LIST_FILE, Belongings, claim, is_everybodys, known
from standalone.children import StartError
from standalone.earlier_homes import LOCK_FILE
from standalone.postgres import POINTER, Postgres
from standalone.private import SHORT_ROOM, write_private
from standalone.supervision import State, socket_path

INFO_FILE = "stack.json"
LEAST_ROOM_BYTES = 64 * 1024
# What processes leave there who are killed goes with the next start.
SCRATCH = "tmp"
_COSTS = "what runs goes on, but lines of logs are lost, and stack.json grows old"
ROOMS = ("log", "secrets", "run", SCRATCH)


def names_of_a_stack(brokers: int) -> tuple[str, ...]:
    """What a stack of so many brokers, and the demo on it, put into a home."""
    servers = ("redis", "postgres", POINTER, *(f"broker-{number}" for number in range(1, brokers + 1)))
    return (LOCK_FILE, *ROOMS, *servers, INFO_FILE, "evidence", "evidence-of-kafka-clients", "spark")


def lack_of_room(home: Path) -> str:
    """That its disk is full, of bytes or of files, or takes nothing more of whoever asks, and what that
    costs; empty where it is not, or nobody can say.
    """
    try:
        disk = os.statvfs(home)
    except OSError:
        return ""
    # Root may write where others may not any more.
    free, files = (disk.f_bavail, disk.f_favail) if os.geteuid() else (disk.f_bfree, disk.f_ffree)
    if free * disk.f_frsize < LEAST_ROOM_BYTES:
        return f"the disk of {home} is full: {_COSTS}. Make room there: both go on by themselves"
    # A file system that makes room for files as it needs it counts none.
    if disk.f_files and not files:
        return (
            f"the disk of {home} takes no more files (no inode is free): {_COSTS}. Delete files there, of"
            " whatever size: both go on by themselves"
        )
    return _used_up(home)


def _used_up(home: Path) -> str:
    """That the quota of this user is used up: no system call tells it of every file system, so it is tried.

    Of another user's quota, such as that of an embedded PostgreSQL which root started, nothing is known.
    """
    try:
        with tempfile.TemporaryFile(dir=home) as tried:
            os.posix_fallocate(tried.fileno(), 0, LEAST_ROOM_BYTES)
    except OSError as error:
        if error.errno == errno.EDQUOT:
            return (
                f"the disk quota of this user is used up in {home}: {_COSTS}. Make room: both go on by"
                " themselves"
            )
    return ""


class AlreadyRunning(StartError):
    """A live stack holds this folder; the text names its process."""


@contextlib.contextmanager
def held(home: Path, brokers: int = 0) -> Iterator[Belongings]:
    """Hold the folder as a stack does; gives what it remembers. Raises AlreadyRunning, NotAHome."""
    lock, belongings = take(home, brokers)
    try:
        yield belongings
    finally:
        os.close(lock)


def take(home: Path, brokers: int) -> tuple[int, Belongings]:
    """Make the folder ours; closing the number that is returned gives it back.

    Also returns what the folder remembers. Raises AlreadyRunning, NotAHome, OSError.
    """
    claim(home, (LOCK_FILE,))
    lock = _lock(home)
    try:
        belongings = claim(home, names_of_a_stack(brokers))
        if (home / SCRATCH).is_dir() and not (home / SCRATCH).is_symlink():
            shutil.rmtree(home / SCRATCH)
        for room in ROOMS:
            (home / room).mkdir(exist_ok=True, mode=0o700)
        # What a killed stack told is not true any more.
        (home / INFO_FILE).unlink(missing_ok=True)
    except BaseException:
        os.close(lock)
        raise
    return lock, belongings


def _lock(home: Path) -> int:
    """Lock the folder for this process, and say so in it. Raises AlreadyRunning."""
    lock = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
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

    That is what the list inside of it names, and nothing else; links are deleted, not followed. Raises
    AlreadyRunning, before anything is deleted.
    """
    home = home.absolute()
    folders = [folder for folder in (home / DEMO, home) if folder == home or not folder.is_symlink()]
    with contextlib.ExitStack() as holding:
        stacks = [(folder, found) for folder in folders if (found := known(folder)) is not None]
        for folder, _ in stacks:
            holding.callback(os.close, _lock(folder))
        for folder, found in stacks:
            _delete(folder, found)
    for folder in folders:
        if not is_everybodys(folder):
            with contextlib.suppress(OSError):
                folder.rmdir()
    return sorted(path.name for path in home.iterdir()) if home.is_dir() else []


def _delete(folder: Path, found: Belongings) -> None:
    if {"postgres", POINTER} & set(found.names):
        Postgres(folder).remove()
    # Outside of the home, where its path would be too long.
    sockets = socket_path(folder).parent
    if sockets.parent == SHORT_ROOM:
        shutil.rmtree(sockets, ignore_errors=True)
    for path in folder.iterdir():
        # A draft that was being written, too.
        if path.name in found.names or re.sub(r"^\.(.+)\.\d+$", r"\1", path.name) in found.names:
            _delete_one(path)
    for path in (*folder.glob(f".{LIST_FILE}.*"), folder / LIST_FILE):
        path.unlink(missing_ok=True)


def _delete_one(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
