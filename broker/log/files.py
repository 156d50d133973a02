"""This room keeps a bounded number of log files open, and writes small files that betray their damage."""

import contextlib
import os
import resource
import threading
from collections import OrderedDict, deque
from pathlib import Path
from typing import Final
from weakref import WeakSet, WeakValueDictionary

from crc32c import crc32c


class LogFile:
    """A file that is closed when nobody holds it any more; its methods hold it for as long as they take.

    Answers that are being sent hold the file they were promised from, so that neither retention
    nor the bound on open files can pull it away from under a sendfile.
    """

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, path: str, *, is_new: bool) -> None:
        self._descriptor = -1
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if is_new else 0)
        self._descriptor = os.open(path, flags, 0o640)

    def fileno(self) -> int:
        """The descriptor, open as long as this object lives."""
        return self._descriptor

    def write(self, data: memoryview, position: int) -> int:
        """Write some of `data`; returns how many bytes. Raises OSError."""
        return os.pwrite(self._descriptor, data, position)

    def read(self, size_bytes: int, position: int) -> bytes:
        """At most so many bytes. Raises OSError."""
        return os.pread(self._descriptor, size_bytes, position)

    def cut(self, position: int) -> None:
        """Drop what lies behind `position`. Raises OSError."""
        os.ftruncate(self._descriptor, position)

    def sync(self) -> None:
        """Make the bytes durable. Raises OSError."""
        os.fsync(self._descriptor)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


MOST_OPEN_FILES: Final = 1_000

DELETED: Final = ".deleted"
"""What the name of a discarded file ends in."""


class OpenFiles:
    """The files used last; what falls out is closed once no answer holds it any more.

    At most `limit` are open, those that answers hold included, and one beyond them for whoever writes. By
    default at most a quarter of what the system allows this process: the rest is for connections. Threads may
    share it: logs are opened beside the loop. Paths are text: each batch looks for its file, and to look by a
    `Path` takes a quarter longer.
    """

    def __init__(self, limit: int | None = None) -> None:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._limit = limit or (MOST_OPEN_FILES if allowed < 0 else min(MOST_OPEN_FILES, allowed // 4))
        self._recent: OrderedDict[str, LogFile] = OrderedDict()
        self._by_path: WeakValueDictionary[str, LogFile] = WeakValueDictionary()
        self._open: WeakSet[LogFile] = WeakSet()
        self._discarded: deque[str] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are open, wherever they are held."""
        return len(self._open)

    def get(self, path: str, *, is_new: bool = False) -> LogFile:
        """The open file at `path`, made if it `is_new`; not to be held. Raises OSError.

        One that is missing is never made: the next start would believe that nothing was stored behind it.
        """
        try:
            # Without the lock, as no other thread comes in between within either step.
            self._recent.move_to_end(path)
            return self._recent[path]
        except KeyError:
            pass
        with self._lock:
            file = self._by_path.get(path)
            if file is None:
                while len(self._open) >= self._limit and self._recent:
                    self._recent.popitem(last=False)
                file = self._by_path[path] = LogFile(path, is_new=is_new)
                self._open.add(file)
            if len(self._open) <= self._limit:
                self._recent[path] = file
            return file

    def get_to_keep(self, path: str) -> LogFile | None:
        """The open file at `path`, to be held until it is sent; None: none can be spared. Raises OSError."""
        file = self.get(path)
        return file if len(self._open) <= self._limit else None

    def forget(self, path: str) -> None:
        """The file at `path` is deleted or renamed: open it no more under this name."""
        with self._lock:
            self._recent.pop(path, None)
            self._by_path.pop(path, None)

    def forget_below(self, folder: str) -> None:
        """The folder was renamed: open none of its files any more under the names that they had."""
        prefix = f"{folder}/"
        with self._lock:
            # To go through the weak ones takes ten times as long: only where answers hold some of them.
            known = self._by_path if len(self._by_path) > len(self._recent) else self._recent
            for path in [path for path in known if path.startswith(prefix)]:
                self._recent.pop(path, None)
                self._by_path.pop(path, None)

    def discard(self, path: str) -> None:
        """The file at `path` counts as deleted from now on, also after a kill. Raises OSError.

        A rename is quick however large the file is; `erase` unlinks it. It is forgotten behind that: a thread
        that opened it in between would have it taken for the next file of this name.
        """
        renamed = path + DELETED
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, renamed)
            self._discarded.append(renamed)
        self.forget(path)

    def erase(self) -> None:
        """Unlink what was discarded; beside the loop: a large file takes its time."""
        while self._discarded:
            # Of a log that was set aside meanwhile the file goes with its folder, or when it is opened again.
            with contextlib.suppress(OSError):
                os.unlink(self._discarded.popleft())


_OPENED_IN_STEPS: Final = 4


def require_descriptors() -> None:
    """Raises OSError unless a few files can be opened now.

    Who changes files in several steps asks first: in the middle it could neither go on nor back.
    """
    opened = []
    try:
        for _ in range(_OPENED_IN_STEPS):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for descriptor in opened:
            os.close(descriptor)


class DamagedFile(ValueError):
    """The bytes of a small file are not those that were written."""


_SEAL: Final = b"crc32c %08x\n"
_SEAL_BYTES: Final = len(_SEAL % 0)


def replace_sealed(path: Path | str, content: bytes) -> None:
    """Put `content` and its checksum in the place of `path`, whole or not at all. Raises OSError.

    Not fsynced: what a machine crash may take is confessed at the next hello, and a clean stop syncs.
    """
    temporary = f"{path}.tmp"
    try:
        _write(temporary, content + _SEAL % crc32c(content))
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _write(path: str, content: bytes) -> None:
    """As `Path.write_bytes`, which takes three times as long: a stop writes two files for each log."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        written = os.write(descriptor, content)
        while written < len(content):
            written += os.write(descriptor, content[written:])
    finally:
        os.close(descriptor)


def sync_with_folder(path: Path) -> None:
    """Make a file that was replaced durable, its name too. Raises OSError."""
    for one, flags in ((path, os.O_RDONLY), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
        descriptor = os.open(one, flags | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_sealed(path: Path | str) -> bytes:
    """What `replace_sealed` put there. Raises DamagedFile if it is anything else, and OSError."""
    content = _read(path)
    sealed, seal = content[:-_SEAL_BYTES], content[-_SEAL_BYTES:]
    if seal != _SEAL % crc32c(sealed):
        raise DamagedFile(f"{os.path.basename(path)}: the checksum does not fit the bytes")
    return sealed


def _read(path: Path | str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # One more than it holds: a read that is not filled has met the end.
        size = os.fstat(descriptor).st_size + 1
        content = part = os.read(descriptor, size)
        while part and len(content) >= size:
            content += (part := os.read(descriptor, size))
    finally:
        os.close(descriptor)
    return content
