"""This room owns a broker's data folder: who may use it, whose it is, and whether its logs are whole."""

import contextlib
import fcntl
import json
import os
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

IDENTITY_FILE = "broker.json"
LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".clean-shutdown"
PARTITIONS_FOLDER = "partitions"
MARK_FILE, COUNTERPART_FILE = ".partitions", "of-this-broker"
"""Hold the same word: one beside the folder of the logs, one in it. Not hidden there: it goes with `rm *`."""


class FolderError(Exception):
    """The data folder cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class _Identity:
    """What the folder remembers of its broker; written whole, atomically."""

    broker_id: int
    cluster_id: str
    boot_id: str
    tail_lost: bool
    metadata_version: int = 0


class DataFolder:
    """One broker's data folder, locked for this process from `open` to `close`.

    `lost_tail` says whether what was written but not flushed may be gone: the folder is new, that of the logs
    was emptied or is another one, or the machine (its boot id) is another one than at the last write and no
    clean-shutdown mark was left (replication.md section 1). It stays true, also over a restart, until
    `registered`: a broker that is killed between its start and its hello must still confess.
    """

    def __init__(self, path: Path, broker_id: int, only_cluster: str = "") -> None:
        """`only_cluster`: whose records alone may lie here; empty: of any."""
        self.path = path
        self.broker_id = broker_id
        self._only_cluster = only_cluster
        self._lock: int | None = None
        self._identity = _Identity(broker_id, "", "", True)
        self._writing = threading.Lock()
        self.stopped_cleanly = False
        """True if the last process flushed everything and said so: the logs need no check at the start."""
        self.same_boot = True
        """False if the machine may have crashed since all logs were opened: small files may be older ones."""

    @property
    def partitions(self) -> Path:
        """The folder of the logs, one folder a partition."""
        return self.path / PARTITIONS_FOLDER

    @property
    def cluster_id(self) -> str:
        """The cluster whose records lie here; empty until the first registration."""
        return self._identity.cluster_id

    @property
    def lost_tail(self) -> bool:
        return self._identity.tail_lost

    @property
    def metadata_version(self) -> int:
        """The highest that a process here has applied, as far as it was noted."""
        return self._identity.metadata_version

    def note_version(self, metadata_version: int) -> None:
        """So much was applied: no database that holds less is this cluster's. Raises FolderError.

        In a thread as well: it waits for the disk, twice.
        """
        with self._writing:
            if metadata_version > self.metadata_version:
                self._write(replace(self._identity, metadata_version=metadata_version))

    def open(self, boot_id: str) -> None:
        """Lock the folder and judge its logs. Raises FolderError."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o750)
            self.partitions.mkdir(exist_ok=True, mode=0o750)
            self._lock = os.open(self.path / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
        except (FileExistsError, NotADirectoryError) as error:
            told = "a file lies in its way; name another folder in MUSTER_BROKER_DATA, or move the file away."
            raise FolderError(f"{self.path} cannot be used: {told}") from error
        except OSError as error:
            raise FolderError(f"{self.path} cannot be used: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise FolderError(f"{self.path} is in use by another broker process.") from error
        stored = self._read()
        # Whoever may not have it leaves the mark of a clean stop to whose it is.
        if stored is not None and (whose := self._is_not_ours(stored)):
            self.close()
            raise FolderError(whose)
        has_its_logs = self._has_its_logs()
        clean = self._take_clean_mark() and has_its_logs
        self.stopped_cleanly = clean
        if stored is None:
            self._write(_Identity(self.broker_id, "", boot_id, True))
            self._mark_logs()
            return
        # What was not registered may have ended before it had opened, and mended, the last of its logs.
        is_known = stored.boot_id == boot_id and bool(boot_id) and not stored.tail_lost
        self.same_boot = has_its_logs and (clean or is_known)
        lost = stored.tail_lost or not self.same_boot
        self._write(replace(stored, boot_id=boot_id, tail_lost=lost))
        self._mark_logs()

    def _is_not_ours(self, stored: _Identity) -> str:
        if stored.broker_id != self.broker_id:
            return f"{self.path} holds the logs of broker {stored.broker_id}, not {self.broker_id}."
        if self._only_cluster and stored.cluster_id not in ("", self._only_cluster):
            return f"{self.path} belongs to cluster {stored.cluster_id}; MUSTER_CLUSTER_ID names another one."
        return ""

    def _has_its_logs(self) -> bool:
        """False if the logs were taken away or exchanged; what says which are missing lay among them.

        A folder of before bears no mark: it is believed. Raises FolderError.
        """
        mark = self._word_in(self.path / MARK_FILE)
        return not mark or mark == self._word_in(self.partitions / COUNTERPART_FILE)

    def _word_in(self, file: Path) -> str:
        try:
            return file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            self.close()
            raise FolderError(f"{file} cannot be read: {error.strerror}.") from error

    def _mark_logs(self) -> None:
        """The logs that are there now are this folder's. Raises FolderError.

        After the identity confesses what is missing, and in the logs first: a process that is killed in
        between, and a machine that crashes, confess once too often.
        """
        mark, counterpart = self.path / MARK_FILE, self.partitions / COUNTERPART_FILE
        word = self._word_in(counterpart) or str(uuid4())
        for file in (counterpart, mark):
            if self._word_in(file) != word:
                self._replace(word, file)

    def _replace(self, content: str, *files: Path) -> None:
        """Each whole or not at all, and durable; none without room for all of them. Raises FolderError."""
        fresh = {file: file.with_name(f"{file.name}.new") for file in files}
        try:
            for new in fresh.values():
                with open(new, "w", encoding="utf-8") as opened:
                    opened.write(content)
                    opened.flush()
                    os.fsync(opened.fileno())
            for file, new in fresh.items():
                os.replace(new, file)
                _sync_folder(file.parent)
        except OSError as error:
            raise FolderError(f"{files[0].parent} cannot be written: {error.strerror}.") from error

    def lose_tail(self) -> None:
        """Records were found of which nobody can say whose they are: confess for all. Raises FolderError."""
        if not self.lost_tail:
            self._change(tail_lost=True)

    def registered(self, cluster_id: str) -> None:
        """The controller heard the hello, `lost_tail` included. Raises FolderError for another cluster."""
        if self.cluster_id and self.cluster_id != cluster_id:
            raise FolderError(f"{self.path} belongs to cluster {self.cluster_id}, not {cluster_id}.")
        if self.cluster_id != cluster_id or self.lost_tail:
            self._change(cluster_id=cluster_id, tail_lost=False)

    def mark_clean(self) -> None:
        """Leave the clean-shutdown mark: everything was flushed. Call it last. Raises OSError.

        With a new word: logs of before, which somebody puts in the place of these, lack what came since. On a
        full disk the old one stays, for nothing is lost by that.
        """
        with contextlib.suppress(FolderError):
            self._replace(str(uuid4()), self.partitions / COUNTERPART_FILE, self.path / MARK_FILE)
        with open(self.path / CLEAN_SHUTDOWN_FILE, "wb") as file:
            os.fsync(file.fileno())
        _sync_folder(self.path)

    def close(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> _Identity | None:
        try:
            return _Identity(**json.loads((self.path / IDENTITY_FILE).read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            self.close()
            raise FolderError(f"{self.path / IDENTITY_FILE} cannot be read: {error}.") from error

    def _change(self, **fields: Any) -> None:
        with self._writing:
            self._write(replace(self._identity, **fields))

    def _write(self, identity: _Identity) -> None:
        content = {name: getattr(identity, name) for name in identity.__dataclass_fields__}
        self._replace(json.dumps(content), self.path / IDENTITY_FILE)
        self._identity = identity

    def _take_clean_mark(self) -> bool:
        """True if the mark was there; it is removed at once, for it speaks of the last process only."""
        try:
            os.unlink(self.path / CLEAN_SHUTDOWN_FILE)
        except FileNotFoundError:
            return False
        except OSError as error:
            self.close()
            raise FolderError(f"{self.path} cannot be written: {error.strerror}.") from error
        _sync_folder(self.path)
        return True


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def boot_id() -> str:
    """What names the present run of this machine's kernel; empty where the system does not tell.

    An unknown boot id counts as another one: a broker then confesses a lost tail more often than it must.
    """
    if sys.platform != "linux":
        return ""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
