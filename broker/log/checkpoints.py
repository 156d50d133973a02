"""This room is the small text files beside the logs: leader epochs, and numbers by partition.

The form is Kafka's own (a version, a count, one line each), so that its tools' habits apply.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.core.leader_epochs import LeaderEpochs
from broker.log.files import replace_file
from muster.kernel.ids import TopicName, TopicPartition

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"


def load_epochs(path: Path) -> LeaderEpochs:
    """The epochs that the file at `path` holds; none if it is not there or cannot be read."""
    try:
        lines = path.read_text("ascii").split("\n")[2:]
        entries = [tuple(map(int, line.split(" "))) for line in lines if line]
        return LeaderEpochs((epoch, start) for epoch, start in entries)
    except (FileNotFoundError, ValueError):
        return LeaderEpochs()


def save_epochs(path: Path, epochs: LeaderEpochs) -> None:
    """Replace the file at `path`. Raises OSError."""
    rows = [f"{epoch} {start}" for epoch, start in epochs.entries]
    replace_file(path, _document(rows))


def load_offsets(path: Path) -> dict[TopicPartition, int]:
    """An offset by partition from the file at `path`; nothing if it is not there or cannot be read."""
    offsets = {}
    try:
        for line in path.read_text("utf-8").split("\n")[2:]:
            if line:
                topic, partition, offset = line.rsplit(" ", 2)
                offsets[TopicPartition(TopicName(topic), int(partition))] = int(offset)
    except (FileNotFoundError, ValueError):
        return {}
    return offsets


def save_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file at `path`. Raises OSError."""
    rows = [f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()]
    replace_file(path, _document(rows))


def _document(rows: list[str]) -> bytes:
    return "\n".join(["0", str(len(rows)), *rows, ""]).encode()
