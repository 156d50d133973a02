"""This room is the command that shows the processes of a running stack."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from standalone.stack import read_info
from standalone.supervision import NotRunning, Supervision


class Command(BaseCommand):
    help = "Show the processes of the stack in MUSTER_HOME."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        home = Path(settings.MUSTER_HOME)
        try:
            states = Supervision(home).states()
        except NotRunning as error:
            raise CommandError(str(error)) from error
        info = read_info(home)
        self.stdout.write(f"bootstrap={info.get('bootstrap', '')} web={info.get('web', '')}")
        for row in info.get("processes", []):
            state = states.get(row["name"])
            pid, text = (state.pid, state.text) if state else (0, "not started")
            self.stdout.write(f"{row['name']:12} {pid or '-':>8}  {text:24} {row['log']}")
