"""This room makes one pass of compaction: in this process if it is small, and in one of its own if it is not.

A thread that walks over millions of records shares the interpreter with the loop, which waits half a
millisecond for it at each system call: thousands of requests a second would wait for a hundred of them.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol

from broker.compactor_lines import Failed, Looked, Wrote, decode_said, encode
from broker.log.compaction import CLEANED, Cleaned, LastOffsets, Task, compacted

SMALL_BYTES: Final = 4 * 1024 * 1024
"""A pass over less takes no longer than a process needs to start."""

PROGRAM: Final = "broker.compactor_process"


class Pass(Protocol):
    """`look` first, then `next_file` until there is none, both beside the loop; `end` in any case, on it."""

    def look(self) -> Looked:
        """Raises CorruptBatch, ValueError, OSError."""
        ...

    def next_file(self) -> Cleaned | None:
        """None: it was the last one. Raises CorruptBatch, ValueError, OSError."""
        ...

    async def end(self) -> None: ...


def begin(task: Task) -> Pass:
    """Whichever serves clients better."""
    is_small = sum(source.size_bytes for source in task.sources) < SMALL_BYTES
    return PassHere(task) if is_small else PassBeside(task)


class PassHere:
    """In a thread of this process."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._files: Iterator[Cleaned] = iter(())

    def look(self) -> Looked:
        latest = LastOffsets(self._task)
        self._files = compacted(self._task, latest)
        return Looked(latest.end_offset, len(latest), latest.unreadable)

    def next_file(self) -> Cleaned | None:
        return next(self._files, None)

    async def end(self) -> None:
        """Nothing is left to end."""


class PassBeside:
    """In a process of its own, which ends with this one or when it is told."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._starting = threading.Lock()
        """So that a pass that is ended while its process is being started ends it, too."""

    def look(self) -> Looked:
        with self._starting:
            if self._is_over:
                raise OSError("the pass was ended before it began")
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            # It stays open: its end tells the other process that this one is no more.
            process.stdin.write(encode(self._task) + b"\n")
            process.stdin.flush()
        said = self._hear()
        assert isinstance(said, Looked)
        return said

    def next_file(self) -> Cleaned | None:
        said = self._hear()
        return said.cleaned if isinstance(said, Wrote) else None

    async def end(self) -> None:
        """Kill the process if it runs still, and remove what it has not finished."""
        if self._process is not None:
            # At once: whoever ends it may be cut off before a thread comes to it.
            self._process.kill()
        await asyncio.to_thread(self._stop)

    def _hear(self) -> Looked | Wrote | None:
        """None: it has nothing more to say. Raises ValueError, OSError."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            code = self._process.wait()
            if code:
                raise OSError(f"the process that compacts ended with {code}")
            return None
        said = decode_said(line)
        if not isinstance(said, Failed):
            return said
        if said.number is not None:
            raise OSError(said.number, said.reason)
        raise ValueError(said.reason)

    def _stop(self) -> None:
        with self._starting:
            self._is_over = True
        process = self._process
        if process is None:
            return
        process.kill()
        # Closes both pipes, and waits.
        with process:
            pass
        for folder in {source.path.parent for source in self._task.sources}:
            for left in folder.glob(f"*.{process.pid}{CLEANED}"):
                left.unlink(missing_ok=True)
