"""This room is the files beside a log that hold its producers as they were at an offset."""

import json
from pathlib import Path
from typing import Final

from broker.core.producers import Producers
from broker.log.files import read_sealed, replace_sealed

_KEPT: Final = 3


def save(folder: Path, producers: Producers, end_offset: int) -> None:
    """Write the producers of all batches below `end_offset`; old files are removed. Raises OSError."""
    replace_sealed(folder / f"{end_offset:020}.snapshot", json.dumps(producers.saved()).encode())
    for old in sorted(folder.glob("*.snapshot"))[:-_KEPT]:
        old.unlink(missing_ok=True)


def newest(folder: Path, start_offset: int, end_offset: int) -> tuple[Producers, int]:
    """The newest that is not behind `end_offset`, and up to where it counts; none, and `start_offset`.

    What is behind the end, or damaged, is removed. Raises OSError.
    """
    for path in sorted(folder.glob("*.snapshot"), reverse=True):
        at = int(path.stem)
        if at <= end_offset:
            try:
                return Producers.restored(json.loads(read_sealed(path))), at
            except (ValueError, TypeError):
                pass
        path.unlink(missing_ok=True)
    return Producers(), start_offset


def forget_all(folder: Path) -> None:
    """The log begins anew: no batch that lies in it was written by a producer of before. Raises OSError."""
    for path in folder.glob("*.snapshot"):
        path.unlink(missing_ok=True)
