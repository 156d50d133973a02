"""This room is the files beside a log that hold its producers as they were at an offset."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.core.producers import Producers
from broker.log.files import read_sealed, replace_sealed

_KEPT: Final = 3
_SUFFIX: Final = ".snapshot"


def save(folder: Path, producers: Producers, end_offset: int) -> None:
    """Write the producers of all batches below `end_offset`; old files are removed. Raises OSError.

    One that is there says the same: what a cut takes, its snapshots go with (`newest`).
    """
    name, names = f"{end_offset:020}{_SUFFIX}", _among(os.listdir(folder))
    if name in names:
        return
    replace_sealed(folder / name, json.dumps(producers.saved()).encode())
    for old in sorted((*names, name))[:-_KEPT]:
        (folder / old).unlink(missing_ok=True)


def newest(
    folder: Path, names: Iterable[str], start_offset: int, end_offset: int, *, forgets: bool = True
) -> tuple[Producers, int]:
    """The newest that is not behind `end_offset`, and up to where it counts; none, and `start_offset`.

    One that ends below the first batch that is left, at `start_offset`, does not count: what its producers
    stored since is gone, and they would be told that they are out of order. `names`: what lies in `folder`.
    What does not count, or is damaged, is removed, unless nothing is to be forgotten. Raises OSError.
    """
    for name in reversed(_among(names)):
        at = _offset_of(name)
        if start_offset <= at <= end_offset:
            try:
                return Producers.restored(json.loads(read_sealed(f"{folder}/{name}"))), at
            except (ValueError, TypeError):
                pass
        if forgets:
            (folder / name).unlink(missing_ok=True)
    return Producers(), start_offset


def newest_at(names: Iterable[str], start_offset: int, end_offset: int) -> int:
    """Up to where the newest counts that is not behind `end_offset`, if it can be read; or `start_offset`."""
    offsets = (_offset_of(name) for name in _among(names))
    return max((at for at in offsets if start_offset <= at <= end_offset), default=start_offset)


def forget_behind(folder: Path, end_offset: int) -> None:
    """The log was cut there. Raises OSError."""
    for name in _among(os.listdir(folder)):
        if _offset_of(name) > end_offset:
            (folder / name).unlink(missing_ok=True)


def forget_all(folder: Path) -> None:
    """The log begins anew: no batch that lies in it was written by a producer of before. Raises OSError."""
    for name in _among(os.listdir(folder)):
        (folder / name).unlink(missing_ok=True)


def _offset_of(name: str) -> int:
    return int(name.removesuffix(_SUFFIX))


def _among(names: Iterable[str]) -> list[str]:
    """The snapshots, oldest first."""
    return sorted(name for name in names if name.endswith(_SUFFIX))
