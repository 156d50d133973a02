"""This room is the command that runs a whole stack in front, until it is told to end."""

import os
import signal
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config import environment
from standalone.children import StartError
from standalone.ending import EndRequested, end_with_parent, listen_for_the_end
from standalone.stack import Stack
from standalone.supervision import NotRunning


class Command(BaseCommand):
    help = "Run a whole stack on this machine until Ctrl-C or SIGTERM."
    # The checks need a database that this command is about to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        for name, default in (("nodes", 1), ("brokers", 3), ("workers", 1)):
            parser.add_argument(f"--{name}", type=int, default=environment.number(name.upper(), default))

    def handle(self, *args: Any, **options: Any) -> None:
        if min(options["nodes"], options["brokers"]) < 1 or options["workers"] < 0:
            raise CommandError(
                "A stack has at least one node and one broker; workers may be 0."
            )
        stack = Stack(
            Path(settings.MUSTER_HOME),
            nodes=options["nodes"],
            brokers=options["brokers"],
            workers=options["workers"],
            database_url=environment.text("DATABASE_URL"),
            redis_url=environment.text("REDIS_URL"),
        )
        end_with_parent(os.environ.get("MAKELEVEL"))
        ended = listen_for_the_end()
        try:
            self._run(stack, ended)
        except EndRequested:
            pass
        except StartError as error:
            raise CommandError(str(error)) from error
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            stack.stop()

    def _run(self, stack: Stack, ended: threading.Event) -> None:
        stack.start(lambda line: self._say(f"up: {line}"))
        self._say(f"ready bootstrap={stack.ports.bootstrap} web={stack.ports.web_url}")
        while not ended.wait(1.0):
            try:
                for line in stack.refresh_info():
                    self._say(f"up: {line}")
            except NotRunning as error:
                raise StartError(f"{error} Its supervisor was ended by somebody.") from error

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        sys.stdout.flush()
