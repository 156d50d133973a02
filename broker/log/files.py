"""This room keeps a bounded number of log files open, and replaces small files whole or not at all."""

import contextlib
import os
import resource
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final


class LogFile:
    """A file that is closed when nobody holds it any more.

    Answers that are being sent hold the file they were promised from, so that neither retention
    nor the bound on open files can pull it away from under a sendfile.
    """

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def fileno(self) -> int:
        """The descriptor, open as long as this object lives."""
        return self._descriptor

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


MOST_OPEN_FILES: Final = 1_000


class OpenFiles:
    """The files used last, at most `limit` of them; what falls out is closed once it is not in use.

    By default at most half of what the system allows this process: the rest is for connections. Threads may
    share it: logs are opened beside the loop.
    """

    def __init__(self, limit: int | None = None) -> None:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._limit = limit or (MOST_OPEN_FILES if allowed < 0 else min(MOST_OPEN_FILES, allowed // 2))
        self._files: OrderedDict[Path, LogFile] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: Path) -> LogFile:
        """The open file at `path`, created if it is not there. Raises OSError."""
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
                return file
            file = self._files[path] = LogFile(path)
            if len(self._files) > self._limit:
                self._files.popitem(last=False)
            return file

    def forget(self, path: Path) -> None:
        """The file at `path` is deleted or renamed: open it no more under this name."""
        with self._lock:
            self._files.pop(path, None)


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` in the place of `path`: readers see the old content or the new. Raises OSError.

    Not fsynced: what a machine crash may take is confessed at the next hello, and a clean stop syncs.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
