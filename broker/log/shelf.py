"""This room keeps all logs of one broker: finds them at start, makes them, sets strays aside.

A folder `<topic>-<partition>` holds one log. Nothing is erased at once: a log that no row names any
more becomes `…-stray` for a day, because a wrong or partial snapshot must not wipe records
(design.md section 7; conformance 235).
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

import structlog

from broker.log.checkpoints import load_offsets, save_offsets
from broker.log.files import OpenFiles
from broker.log.partition_log import LogSettings, PartitionLog, StorageFailed
from muster.kernel.ids import TopicName, TopicPartition

log = structlog.get_logger(__name__)

METADATA_FILE: Final = "partition.metadata"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
STRAY: Final = "-stray"
DELETE: Final = "-delete"
_LONGEST_TOPIC_IN_SUFFIXED_NAME: Final = 200


class PartitionKey(NamedTuple):
    """What names a replica for ever: a topic made anew under an old name has another id."""

    topic_id: UUID
    partition: int


class LogShelf:
    """The logs under one folder. Not opened logs cost nothing but their name."""

    def __init__(self, folder: Path, was_clean: bool, files: OpenFiles | None = None) -> None:
        self._folder = folder
        self._was_clean = was_clean
        self._files = OpenFiles() if files is None else files
        self._found: dict[PartitionKey, Path] = {}
        self._names: dict[PartitionKey, TopicPartition] = {}
        self._open: dict[PartitionKey, PartitionLog] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As the last checkpoint stated; only for speed (replication.md section 3)."""

    def scan(self) -> None:
        """Learn which logs are there, finish deletions that were begun. Raises StorageFailed."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self._folder.iterdir()):
                if path.name.endswith(DELETE):
                    shutil.rmtree(path)
                elif path.is_dir() and not path.name.endswith(STRAY):
                    self._find(path)
        except OSError as error:
            raise StorageFailed(str(error)) from error
        self._recovery_points = load_offsets(self._folder / RECOVERY_POINTS)
        self.high_watermarks = load_offsets(self._folder / HIGH_WATERMARKS)

    def _find(self, path: Path) -> None:
        """A folder without a readable metadata file belongs to no topic id: nobody can ask for it."""
        topic, _, partition = path.name.rpartition("-")
        try:
            stated = json.loads((path / METADATA_FILE).read_bytes())
            key = PartitionKey(UUID(stated["topic_id"]), int(partition))
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("log_without_topic_id", folder=path.name, reason=str(error))
            self._set_aside(path, topic or path.name, STRAY)
            return
        self._found[key] = path
        self._names[key] = TopicPartition(TopicName(topic), int(partition))

    @property
    def keys(self) -> frozenset[PartitionKey]:
        """Every log that is there, opened or not."""
        return frozenset(self._found)

    @property
    def open_logs(self) -> Iterable[tuple[PartitionKey, PartitionLog]]:
        """The logs that are in use."""
        return self._open.items()

    def log(self, key: PartitionKey, topic: str, settings: LogSettings, now_ms: int) -> PartitionLog:
        """The log of `key`, found on disk or empty. Raises StorageFailed.

        An empty log that was never on disk takes no room there before its first record: a topic of ten
        thousand partitions is made without touching the disk, and most of them may never be written.
        """
        opened = self._open.get(key)
        if opened is None:
            opened = self.read(key, topic, settings, now_ms)
            self.keep(key, topic, opened)
        return opened

    def is_cold(self, key: PartitionKey) -> bool:
        """True for a log that lies on disk and is not in use: to open it may take seconds after a kill."""
        return key in self._found and key not in self._open

    def read(self, key: PartitionKey, topic: str, settings: LogSettings, now_ms: int) -> PartitionLog:
        """The log of `key` as it lies on disk, or empty. Raises StorageFailed.

        Any thread may call it; `keep` then puts it to use. The same log must not be read twice at once.
        """
        folder = self._found.get(key)
        if folder is None:
            folder = self._folder / f"{topic}-{key.partition}"
            make = partial(self._make, key, topic, folder)
            return PartitionLog(folder, key.topic_id, self._files, settings, make)
        found = PartitionLog(folder, key.topic_id, self._files, settings)
        name = TopicPartition(TopicName(topic), key.partition)
        found.open(self._was_clean, self._recovery_points.get(name, 0), now_ms)
        return found

    def keep(self, key: PartitionKey, topic: str, opened: PartitionLog) -> None:
        """From now on `log` answers with this one."""
        self._names[key] = TopicPartition(TopicName(topic), key.partition)
        self._open[key] = opened

    def _make(self, key: PartitionKey, topic: str, folder: Path) -> None:
        """Begin a log on disk; nothing here waits for it. Raises OSError.

        A kill -9 takes nothing that was written; one between the two steps leaves a folder that `_find` sets
        aside, and it is empty. A machine crash may take the whole folder: that is a lost tail like any other,
        and the next hello confesses it (another boot id and no clean mark; replication.md section 1).
        """
        try:
            folder.mkdir()
        except FileExistsError:
            # another topic id under the old name: that log is stray and never used again
            self._set_aside(folder, topic, STRAY)
            self._found = {known: path for known, path in self._found.items() if path != folder}
            folder.mkdir()
        stated = {"version": 0, "topic_id": str(key.topic_id)}
        (folder / METADATA_FILE).write_bytes(json.dumps(stated).encode())
        self._found[key] = folder

    def make_stray(self, key: PartitionKey) -> None:
        """Set the log of `key` aside; it is not served any more. Raises StorageFailed."""
        self._close_and_move(key, STRAY)

    def delete(self, key: PartitionKey) -> None:
        """Erase the log of `key`: the topic was deleted. Raises StorageFailed."""
        moved = self._close_and_move(key, DELETE)
        if moved is not None:
            shutil.rmtree(moved, ignore_errors=True)

    def _close_and_move(self, key: PartitionKey, suffix: str) -> Path | None:
        folder = self._found.pop(key, None)
        opened = self._open.pop(key, None)
        name = self._names.pop(key, None)
        if name is not None:
            self._recovery_points.pop(name, None)
            self.high_watermarks.pop(name, None)
        if opened is not None:
            opened.close()
        if folder is None:
            return None
        try:
            return self._set_aside(folder, folder.name.rpartition("-")[0], suffix)
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def _set_aside(self, folder: Path, topic: str, suffix: str) -> Path:
        partition = folder.name.rpartition("-")[2]
        moved = self._folder / (
            f"{topic[:_LONGEST_TOPIC_IN_SUFFIXED_NAME]}-{partition}.{uuid4().hex}{suffix}"
        )
        # The time of becoming stray is the folder's own, which a rename does not change. It is set first:
        # a kill in between would else leave a stray that seems old, and is erased at once.
        os.utime(folder)
        os.rename(folder, moved)
        log.info("log_set_aside", folder=folder.name, moved_to=moved.name)
        return moved

    def erase_old_strays(self, wall_ms: int, retention_ms: int) -> int:
        """Erase strays older than `stray.retention.ms`; returns how many."""
        erased = 0
        for path in self._folder.glob(f"*{STRAY}"):
            if wall_ms - path.stat().st_mtime * 1000 >= retention_ms:
                shutil.rmtree(path, ignore_errors=True)
                erased += 1
        return erased

    def checkpoint(self, high_watermarks: Mapping[PartitionKey, int]) -> None:
        """Save high watermarks and recovery points, if there are others. Raises StorageFailed."""
        recovery_points = dict(self._recovery_points)
        known = dict(self.high_watermarks)
        for key, opened in self._open.items():
            name = self._names[key]
            if opened.end_offset:
                recovery_points[name] = opened.recovery_point
                known[name] = high_watermarks.get(key, 0)
            else:
                # What is not named begins at 0: an empty log needs no line.
                recovery_points.pop(name, None)
                known.pop(name, None)
        try:
            if recovery_points != self._recovery_points:
                save_offsets(self._folder / RECOVERY_POINTS, recovery_points)
                self._recovery_points = recovery_points
            if known != self.high_watermarks:
                save_offsets(self._folder / HIGH_WATERMARKS, known)
                self.high_watermarks = known
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def close(self, high_watermarks: dict[PartitionKey, int]) -> bool:
        """Make everything durable and write indexes; True if the clean-shutdown mark may be left."""
        # A log that was not opened since an unclean stop may still have a torn tail.
        is_clean = self._was_clean or self._found.keys() <= self._open.keys()
        for _, opened in self._open.items():
            try:
                opened.flush()
                opened.close()
            except StorageFailed as error:
                log.error("log_not_closed", folder=opened.folder.name, reason=str(error))
                is_clean = False
        try:
            self.checkpoint(high_watermarks)
        except StorageFailed as error:
            log.error("checkpoint_not_written", reason=str(error))
            is_clean = False
        # The many small files beside the logs are not fsynced one by one: a broker whose machine
        # crashed confesses a lost tail anyway. A clean stop promises more, so one sync for all.
        os.sync()
        return is_clean
