"""This room is the command that starts a stack and walks the demo's road through it."""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from config import environment
from muster.kernel.environment import SettingError
from standalone.belongings import DEMO
from standalone.commanding import InFrontCommand
from standalone.demo.road import BROKERS, Road, Wishes
from standalone.ending import End
from standalone.folder import remove
from standalone.stack import Stack

SLOWEST = 0.01


class Command(InFrontCommand):
    help = "Replay 2013 through a stack: SPEED= days a second, FLIGHTS= how many, EXIT=1 to stop after it."

    def stack(self, home: Path, options: Mapping[str, Any]) -> Stack:
        told = environment.reader(os.environ)
        self.wishes = Wishes(
            days_a_second=speed(told.text("SPEED")),
            flights=told.number("FLIGHTS"),
            exit_after_summary=told.switch("EXIT"),
        )
        self.began = time.monotonic()
        return Stack(home / DEMO, nodes=1, brokers=BROKERS, workers=1)

    def run(self, stack: Stack, ended: End) -> None:
        # A replay begins with an empty log: what an earlier demo left here would be counted twice.
        remove(stack.home)
        stack.start(lambda line: self.say(f"1  {line}"))
        self.say(f"1  the dashboard, with a login that works once within 10 minutes: {stack.login_url()}")
        kept = Road(stack, self.wishes, self.say, ended).walk()
        if not kept and not ended.is_set():
            raise CommandError("A check was broken; the summary says which.")

    def at_the_end(self) -> None:
        self.say(f"stopping everything; the demo took {time.monotonic() - self.began:.0f} s")


def speed(text: str) -> float:
    """Days a second. Raises SettingError for what is no number, too small or without end."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not SLOWEST <= number < math.inf:
        raise SettingError(f"SPEED={text} does not work: give a number of at least {SLOWEST:g}.")
    return number
