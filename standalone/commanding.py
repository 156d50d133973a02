"""This room is what the commands on a stack share: how they speak, fail, and end what runs in front."""

import contextlib
import errno
import os
import sys
from abc import abstractmethod
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from muster.kernel.environment import SettingError
from standalone.belongings import DEMO
from standalone.children import StartError
from standalone.ending import End, EndRequested, do_not_disturb, end_with_parent, listen_for_the_end
from standalone.folder import lack_of_room, update_info
from standalone.stack import Stack
from standalone.supervision import NotAnswering, NotRunning, State, Supervision


class StackCommand(BaseCommand):
    """A command on the stack in MUSTER_HOME; whatever a person can mend fails with one line."""

    # The checks need a database, which a stack that is about to start does not have yet.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        home = Path(settings.MUSTER_HOME).absolute()
        with _one_line_for_each_failure(home):
            self.act(home, options)

    @abstractmethod
    def act(self, home: Path, options: Mapping[str, Any]) -> None:
        """Do it."""

    def say(self, line: str) -> None:
        """Print a line at once. That nobody listens any more, or that a sign is not known there, is no reason
        to break off."""
        stream = sys.stdout
        if stream is None:
            return
        known = line.encode(stream.encoding or "utf-8", "replace").decode(stream.encoding or "utf-8")
        try:
            print(known, file=stream, flush=True)
        except OSError:
            # Python would try once more at its end, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class InFrontCommand(StackCommand):
    """A command that runs a stack in front: however it ends, the stack ends in good order before it."""

    def act(self, home: Path, options: Mapping[str, Any]) -> None:
        stack = self.stack(home, options)
        end_with_parent(os.environ.get("MAKELEVEL"))
        ended = listen_for_the_end()
        try:
            self.run(stack, ended)
        except EndRequested:
            pass
        except Exception:
            # Raised in the middle of somebody's clearing up, the end may come out as a failure of theirs.
            if not ended.is_set():
                raise
        finally:
            do_not_disturb()
            if stack.is_there:
                self.at_the_end()
            stack.stop()

    @abstractmethod
    def stack(self, home: Path, options: Mapping[str, Any]) -> Stack:
        """The stack to be, not started."""

    @abstractmethod
    def run(self, stack: Stack, ended: End) -> None:
        """Start it and do the work; EndRequested may be raised anywhere in it."""

    def at_the_end(self) -> None:
        """What there is to say before everything stops: that takes some seconds."""
        self.say("stopping everything")


class OneProcessCommand(StackCommand):
    """A command on one process of a running stack, named as `make status` shows it."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", metavar="WHAT", help="the process's name, as `make status` shows it")

    def act(self, home: Path, options: Mapping[str, Any]) -> None:
        name = options["what"]
        supervision, states = running(home)
        if name not in states:
            raise CommandError(f"There is no process {name!r}; WHAT is one of {', '.join(sorted(states))}.")
        self.change(supervision, name)
        states = supervision.states()
        pid = states[name].pid
        self.say(f"{name} {states[name].text}" + (f" (pid {pid})" if pid else ""))
        try:
            update_info(supervision.home, states)
        except OSError as error:
            # It is done; whoever runs the stack writes it down when that is possible again.
            self.say(lack_of_room(supervision.home) or f"stack.json cannot be kept true: {error}")

    @abstractmethod
    def change(self, supervision: Supervision, name: str) -> None:
        """Do it to the process ``name``."""


def running(home: Path) -> tuple[Supervision, dict[str, State]]:
    """The stack that runs in ``home``, or the demo's, and its processes. Raises NotRunning."""
    for folder in (home, home / DEMO):
        supervision = Supervision(folder)
        try:
            return supervision, supervision.states()
        except NotAnswering:
            raise
        except NotRunning:
            continue
    raise NotRunning(f"No stack runs in {home}.")


@contextlib.contextmanager
def _one_line_for_each_failure(home: Path) -> Iterator[None]:
    try:
        yield
    except (NotRunning, StartError, SettingError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise CommandError(f"{error.strerror or error}{where}{_what_to_do(error, home)}") from error


def _what_to_do(error: OSError, home: Path) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS | errno.ENOTDIR:
            return ". Name a folder in which this user may write with MUSTER_HOME=dir."
        case errno.ENOSPC | errno.EDQUOT:
            is_there = not error.filename or home in Path(error.filename).absolute().parents
            where = f"on the disk of {home}" if is_there else "there"
            return f". Make room {where}, or name a folder on another disk with MUSTER_HOME=dir."
    return ""
