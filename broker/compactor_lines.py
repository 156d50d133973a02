"""This room is what a broker and the process that compacts for it say to one another, a line of JSON each.

The process imports it instead of what starts it, which needs an event loop: some seven megabytes.
"""

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.log.compaction import Cleaned, Task


class Looked(msgspec.Struct, frozen=True, tag=True):
    """The last offset of each of so many `keys` is known, up to `end_offset`."""

    end_offset: int
    keys: int
    unreadable: int
    """Batches that are left as they are."""


class Wrote(msgspec.Struct, frozen=True, tag=True):
    """One file is finished."""

    cleaned: Cleaned


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The pass ended: the disk said `number`, or, without one, the log is not what it should be."""

    number: int | None
    reason: str


Said = Looked | Wrote | Failed


def _path_of(_type: type, value: Any) -> Any:
    return Path(value)


encode: Final = msgspec.json.Encoder(enc_hook=os.fspath).encode
decode_task: Final = msgspec.json.Decoder(Task, dec_hook=_path_of).decode
_said: Final[msgspec.json.Decoder[Said]] = msgspec.json.Decoder(Said, dec_hook=_path_of)
decode_said: Final = _said.decode
