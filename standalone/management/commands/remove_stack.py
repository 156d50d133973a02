"""This room is the command that deletes what a stopped stack left."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from standalone.commanding import StackCommand
from standalone.folder import remove


class Command(StackCommand):
    help = "Delete what stacks left in MUSTER_HOME, the embedded PostgreSQL's data included, unless one runs."

    def act(self, home: Path, options: Mapping[str, Any]) -> None:
        others = remove(home)
        if others:
            self.say(f"{home} holds more than a stack's files, which stays: {', '.join(others[:5])}")
