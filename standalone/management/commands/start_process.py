"""This room is the command that starts one process of a running stack."""

import time
from typing import Final

from standalone.children import StartError
from standalone.commanding import OneProcessCommand
from standalone.supervision import LOOK_AGAIN_S, Supervision

WATCHED_S: Final = 2.0
"""What cannot go on, such as a PostgreSQL whose disk is full, has ended by then."""


class Command(OneProcessCommand):
    help = "Start one process of the stack in MUSTER_HOME, such as broker-2."

    def change(self, supervision: Supervision, name: str) -> None:
        supervision.start(name)
        watched_until = time.monotonic() + WATCHED_S
        while time.monotonic() < watched_until:
            time.sleep(LOOK_AGAIN_S)
            now = supervision.states()[name]
            if not now.running:
                log = supervision.home / "log" / f"{name}.log"
                raise StartError(f"{name} was started, and {now.text} at once; {log} says why.")
