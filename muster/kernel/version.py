"""This room is the number of this release, as `pyproject.toml` says it too."""

from typing import Final

VERSION: Final = "0.1.0"
