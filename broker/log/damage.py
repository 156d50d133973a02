"""This room names what the system's errors mean for a log; apart, because mypyc compiles no such class."""

from pathlib import Path


class NotUndone(OSError):
    """A write failed in its middle, and what it left cannot be cut off."""


class WrongBatch(OSError):
    """In a segment that was believed when it was opened lies no batch where one should, or another one."""

    def __init__(self, path: Path, offset: int) -> None:
        super().__init__(f"{path.name}: what should lie at offset {offset} does not")


class DamageFound(OSError):
    """A batch that the log holds cannot be found in its file; `offset` is where it should be."""

    def __init__(self, path: Path, offset: int) -> None:
        super().__init__(f"{path.name}: no batch where offset {offset} should be")
        self.offset = offset
