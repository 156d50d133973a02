"""This room does to the files of a log in the simulation what disks and crashes do to them."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from muster.kafkawire import batches


@contextmanager
def refusing(operation: str) -> Iterator[None]:
    """The disk refuses `operation` (of module os) as long as this lasts."""

    def fails(*_arguments: object) -> None:
        raise OSError(errno.EIO, "the disk failed")

    with patch(f"os.{operation}", fails):
        yield


class Rotten(NamedTuple):
    """A flushed batch in which one bit is not what it was."""

    path: Path
    position: int
    batch: bytes

    @property
    def is_there(self) -> bool:
        """False once it was cut."""
        end = self.position + len(self.batch)
        return self.path.exists() and self.path.read_bytes()[self.position : end] == self.batch


def rot(logs: list[tuple[Path, int]], rng: Random) -> Rotten | None:
    """Flip a bit behind the head of a batch that was flushed; `logs` are folders and recovery points."""
    found = [
        (path, start, one.size_bytes)
        for folder, recovery_point in logs
        for path in sorted(folder.glob("*.log"))
        for start, one in batches.headers(path.read_bytes())
        if one.next_offset <= recovery_point and one.size_bytes > batches.HEADER_BYTES
    ]
    if not found:
        return None
    path, start, size = rng.choice(found)
    data = bytearray(path.read_bytes())
    data[start + rng.randrange(batches.HEADER_BYTES, size)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return Rotten(path, start, bytes(data[start : start + size]))


def chosen_byte(paths: list[Path], rng: Random) -> tuple[Path, bytearray, int]:
    """One of these files, what it holds, and a place in it: half of all lie in the head of a batch.

    That is where damage can look like something else.
    """
    heads = [path for path in paths if path.suffix == ".log"]
    path = rng.choice(heads if heads and rng.random() < 0.7 else paths)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    starts = [start for start, _ in batches.headers(bytes(data))] if path in heads else []
    if starts and rng.random() < 0.5:
        at = rng.choice(starts) + rng.randrange(batches.HEADER_BYTES)
    return path, data, at


def place_in_batch(data: bytes | bytearray, at: int) -> int:
    """Where in its batch the byte at `at` lies; -1: in none."""
    for start, one in batches.headers(bytes(data)):
        if start <= at < start + one.size_bytes:
            return at - start
    return -1


def keep(folder: Path, end_offset: int, rng: Random) -> None:
    """Cut the files of a log so that batches below `end_offset` are left, and perhaps a piece of the next."""
    for path in sorted(folder.glob("*.log"), reverse=True):
        data = path.read_bytes()
        if int(path.stem) >= end_offset and int(path.stem):
            path.unlink()
            continue
        size = sum(one.size_bytes for _, one in batches.headers(data) if one.base_offset < end_offset)
        torn = rng.randint(0, len(data) - size) if rng.random() < 0.3 else 0
        os.truncate(path, size + torn)
        path.with_suffix(".index").unlink(missing_ok=True)
