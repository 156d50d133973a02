"""This room is the small text files beside the logs: leader epochs, and numbers by partition.

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
