"""This room is the command that starts one process of a running stack."""

from standalone.commanding import OneProcessCommand
from standalone.supervision import Supervision


class Command(OneProcessCommand):
    help = "Start one process of the stack in MUSTER_HOME, such as broker-2."

    def change(self, supervision: Supervision, name: str) -> None:
        supervision.start(name)
