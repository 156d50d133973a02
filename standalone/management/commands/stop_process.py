"""This room is the command that stops one process of a running stack."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from standalone.children import StartError
from standalone.stack import update_info
from standalone.supervision import NotRunning, Supervision


class Command(BaseCommand):
    help = "Stop one process of the stack in MUSTER_HOME, such as broker-2."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", metavar="WHAT", help="the process's name, as `make status` shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["what"]
        home = Path(settings.MUSTER_HOME)
        try:
            supervision = Supervision(home)
            if name not in supervision.states():
                known = ", ".join(sorted(supervision.states()))
                raise CommandError(f"There is no process {name!r}; WHAT is one of {known}.")
            supervision.stop(name)
            states = supervision.states()
        except (NotRunning, StartError) as error:
            raise CommandError(str(error)) from error
        update_info(home, states)
        self.stdout.write(f"{name} {states[name].text} (pid {states[name].pid})")
