"""This room is the command that runs a whole stack in front, until it is told to end."""

import os
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from config import environment
from standalone.children import StartError
from standalone.commanding import InFrontCommand
from standalone.ending import End
from standalone.folder import lack_of_room
from standalone.stack import Stack
from standalone.supervision import NotAnswering, NotRunning

LOOK_AGAIN_S = 1.0


class Command(InFrontCommand):
    help = "Run a whole stack on this machine until Ctrl-C or SIGTERM."
    _trouble = _over = ""

    def add_arguments(self, parser: ArgumentParser) -> None:
        for name in ("nodes", "brokers", "workers"):
            parser.add_argument(f"--{name}", type=int)

    def stack(self, home: Path, options: Mapping[str, Any]) -> Stack:
        told = environment.reader(os.environ)
        nodes, brokers, workers = (
            told.number(name.upper()) if options[name] is None else options[name]
            for name in ("nodes", "brokers", "workers")
        )
        if min(nodes, brokers) < 1 or workers < 0:
            raise CommandError("A stack has at least one node and one broker; workers may be 0.")
        return Stack(
            home,
            nodes=nodes,
            brokers=brokers,
            workers=workers,
            database_url=told.text("MUSTER_DATABASE_URL"),
            redis_url=told.text("MUSTER_REDIS_URL"),
            port=told.number("PORT"),
        )

    def run(self, stack: Stack, ended: End) -> None:
        stack.start(lambda line: self.say(f"up: {line}"))
        self.say(f"up: sign in, once within 10 minutes: {stack.login_url()}")
        self.say(f"up: another link: make login{stack.where}")
        self.say(f"ready bootstrap={stack.ports.bootstrap} web={stack.ports.web_url}")
        while not ended.wait(LOOK_AGAIN_S):
            self._look_after(stack)

    def _look_after(self, stack: Stack) -> None:
        trouble, over = lack_of_room(stack.home), f"{stack.home} can be written again"
        try:
            stack.refresh_info(lambda line: self.say(f"up: {line}"))
        except NotAnswering as error:
            trouble, over = str(error), "the supervisor answers again"
        except NotRunning as error:
            raise StartError(f"{error} Its supervisor was ended by somebody.") from error
        except OSError as error:
            trouble = trouble or f"stack.json cannot be kept true: {error}"
        if trouble != self._trouble:
            self.say(f"up: {trouble or self._over}")
            self._trouble, self._over = trouble, over
