"""This room is the command that shows the processes of a running stack, and what their doors say."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from standalone.children import stands_still
from standalone.commanding import StackCommand, running
from standalone.folder import lack_of_room, read_info
from standalone.readiness import look


class Command(StackCommand):
    help = "Show the processes of the stack in MUSTER_HOME, or of the demo's there."

    def act(self, home: Path, options: Mapping[str, Any]) -> None:
        supervision, states = running(home)
        info = read_info(supervision.home)
        if lack := lack_of_room(supervision.home):
            self.say(lack)
        self.say(f"bootstrap={info.get('bootstrap', '')} web={info.get('web', '')}")
        for row in info.get("processes", []):
            state = states.get(row["name"])
            pid, text = (state.pid, state.text) if state else (0, "not started")
            text = stands_still(pid) or text
            # A stack that was started by an older version names no doors.
            door = row.get("ready_url", "") if pid else ""
            said = look(door)[1] if door else ""
            self.say(f"{row['name']:12} {pid or '-':>8}  {text:24} {row['log']}  {said}".rstrip())
