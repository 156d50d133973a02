"""This room is the small text files beside the logs: leader epochs, log starts, and numbers by partition.

The form is Kafka's own (a version, a count, one line each) and a checksum behind it. A file that is damaged
is as good as none: what it said is found again in the log.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from broker.core.leader_epochs import LeaderEpochs
from broker.core.replica_log import PartitionKey
from broker.log.files import read_sealed, replace_sealed

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
LOG_START: Final = "log-start-offset"


def load_epochs(path: Path) -> LeaderEpochs | None:
    """The epochs that the file at `path` holds; None if it is not there or cannot be believed."""
    try:
        entries = [(int(epoch), int(start)) for epoch, start in _rows(path)]
        return LeaderEpochs.restored(entries)
    except (FileNotFoundError, ValueError):
        return None


def save_epochs(path: Path, epochs: LeaderEpochs) -> None:
    """Replace the file at `path`. Raises OSError."""
    replace_sealed(path, _document([f"{epoch} {start}" for epoch, start in epochs.entries]))


def load_start(path: Path) -> int:
    """Where the file at `path` says that its log begins; 0 if there is none.

    Raises ValueError for a file that cannot be believed, OSError.
    """
    try:
        ((offset,),) = _rows(path)
        return int(offset)
    except FileNotFoundError:
        return 0


def save_start(path: Path, offset: int) -> None:
    """Replace the file at `path`. Raises OSError."""
    replace_sealed(path, _document([str(offset)]))


def load_passes(path: Path) -> list[tuple[int, int]]:
    """(offset, calendar time in ms), oldest first; nothing if the file is not there or cannot be believed."""
    try:
        return [(int(offset), int(at_ms)) for offset, at_ms in _rows(path)]
    except (FileNotFoundError, ValueError):
        return []


def save_passes(path: Path, passes: list[tuple[int, int]]) -> None:
    """Replace the file at `path`. Raises OSError."""
    replace_sealed(path, _document([f"{offset} {at_ms}" for offset, at_ms in passes]))


def load_offsets(path: Path) -> dict[PartitionKey, int]:
    """An offset by partition from the file at `path`; nothing if it is not there or cannot be believed."""
    try:
        return {
            PartitionKey(UUID(topic_id), int(partition)): int(offset)
            for topic_id, partition, offset in _rows(path)
        }
    except (FileNotFoundError, ValueError):
        return {}


def save_offsets(path: Path, offsets: Mapping[PartitionKey, int]) -> None:
    """Replace the file at `path`. Raises OSError."""
    rows = [f"{key.topic_id} {key.partition} {offset}" for key, offset in offsets.items()]
    replace_sealed(path, _document(rows))


def _rows(path: Path) -> list[list[str]]:
    return [line.split(" ") for line in read_sealed(path).decode("ascii").split("\n")[2:] if line]


def _document(rows: list[str]) -> bytes:
    return "\n".join(["0", str(len(rows)), *rows, ""]).encode()
