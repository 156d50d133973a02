"""This room reads the coordinator's SQL, one file a statement, when the process starts."""

from functools import cache
from pathlib import Path
from typing import LiteralString

_FOLDER = Path(__file__).with_name("sql")


@cache
def statement(name: str) -> LiteralString:
    """The text of `sql/<name>.sql`. Raises FileNotFoundError for a name that does not exist."""
    # The files ship with the code; nothing of a request ever becomes part of them.
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
