"""This room is the command that starts a stack and walks the demo's road through it."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config import environment
from standalone.children import StartError
from standalone.demo.road import Road, Wishes
from standalone.ending import EndRequested, end_with_parent, listen_for_the_end
from standalone.stack import Stack, remove


class Command(BaseCommand):
    help = "Replay 2013 through a stack: SPEED= days a second, FLIGHTS= how many, EXIT=1 to stop after it."
    # The checks need a database that this command is about to start.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        wishes = Wishes(
            days_a_second=wanted("SPEED", 8.0, 0.01),
            flights=int(wanted("FLIGHTS", 0, 0)),
            exit_after_summary=environment.flag("EXIT"),
        )
        home = Path(settings.MUSTER_HOME)
        end_with_parent(os.environ.get("MAKELEVEL"))
        ended = listen_for_the_end()
        began = time.monotonic()
        stack: Stack | None = None
        try:
            # A replay begins with an empty log: what an earlier demo left here would be counted twice.
            remove(home / "demo")
            shutil.rmtree(home / "demo", ignore_errors=True)
            stack = Stack(home / "demo", nodes=1, brokers=3, workers=1)
            stack.start(lambda line: self._say(f"1  {line}"))
            self._say(f"1  the dashboard, with a login that works once: {stack.login_url()}")
            kept = Road(stack, wishes, self._say, ended).walk()
            if not kept and not ended.is_set():
                raise CommandError("A check was broken; the summary says which.")
        except EndRequested:
            pass
        except StartError as error:
            raise CommandError(str(error)) from error
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if stack is not None:
                self._say("stopping everything")
                stack.stop()
            self._say(f"the demo took {time.monotonic() - began:.0f} s")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        sys.stdout.flush()


def wanted(name: str, default: float, least: float) -> float:
    """A number from the environment. Raises CommandError if it is none, or too small."""
    text = os.environ.get(name, "").strip()
    try:
        number = float(text) if text else default
    except ValueError:
        number = -1.0
    if number < least:
        raise CommandError(f"{name}={text} does not work: give a number of at least {least:g}.")
    return number
