"""This room remembers on disk what logs held before they followed a leader that may have lost records."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec
import structlog

from broker.core.loss_watch import Held, LossKey

log = structlog.get_logger(__name__)

FILE: Final = "held-before-cuts"

_Line = tuple[UUID, int, int, int, int, int]
_LineOfCut = tuple[UUID, int, int, int, int, int, int]


class HeldNotes:
    """A line for each, another one when it is known what was cut; a kill leaves at most the last one torn.

    Not flushed: after a crash of the machine the logs may be shorter than what was noted, too. A disk that
    refuses costs people a number, so it stops nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def load(self) -> dict[LossKey, Held]:
        """What processes of before noted."""
        held: dict[LossKey, Held] = {}
        noted = b""
        with contextlib.suppress(OSError):
            noted = self._path.read_bytes()
        for line in noted.splitlines():
            for form in (_Line, _LineOfCut):
                with contextlib.suppress(msgspec.MsgspecError):
                    topic_id, partition, epoch, *rest = msgspec.json.decode(line, type=form)
                    held[topic_id, partition, epoch] = Held(*rest)
        if noted and not noted.endswith(b"\n"):
            # What is noted next would be glued to the torn line, and lost with it.
            self.keep(held)
        return held

    def add(self, key: LossKey, held: Held) -> None:
        """Before the log may be cut, and before it grows over the cut."""
        try:
            with open(self._path, "ab") as file:
                file.write(_line(key, held))
        except OSError as error:
            log.warning("what a log held is not noted", partition=f"{key[0]}-{key[1]}", reason=str(error))

    def keep(self, held: Mapping[LossKey, Held]) -> None:
        """Of no others anybody asks."""
        fresh = self._path.with_suffix(".new")
        try:
            if not held:
                self._path.unlink(missing_ok=True)
                return
            fresh.write_bytes(b"".join(_line(*one) for one in held.items()))
            os.replace(fresh, self._path)
        except OSError as error:
            log.warning("what logs held is not noted", reason=str(error))


def _line(key: LossKey, held: Held) -> bytes:
    # As processes of before wrote it, as long as nothing was cut.
    return msgspec.json.encode((*key, *held[: 3 if held.parted_at is None else 4])) + b"\n"
