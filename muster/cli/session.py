"""This room is one run of a command: the cluster that it asks, the page that it writes, what it may do."""

import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from muster.cli.failures import ExitCode, Failure, usage
from muster.cli.places import Place, Wanted, find
from muster.cli.rest import Rest
from muster.cli.screen import Screen


@dataclass(frozen=True, slots=True)
class Asking:
    """How a write is asked: why, on which version, under which key, and whether to wait for its end."""

    reason: str = ""
    if_match: str = ""
    key: str = ""
    dry_run: bool = False
    wait: bool = False
    yes: bool = False


@dataclass
class Session:
    """What every command is given."""

    screen: Screen
    wanted: Wanted
    timeout_s: float
    watch_s: float = 0.0
    most: int = 0
    asking: Asking = Asking()
    is_writing: bool = False
    """Whether the command can change anything."""
    asked: str = ""
    """How what was asked last is asked again, once something was."""
    to_go_on: str = ""
    """How a command of several changes goes on behind one that was made, until it asks for the next."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @cached_property
    def place(self) -> Place:
        """The cluster that is meant. Raises Failure."""
        try:
            folder = Path.cwd()
        except OSError:
            # It was removed: no stack is beside it.
            folder = Path(os.sep)
        return find(self.wanted, self.environment, folder)

    @cached_property
    def rest(self) -> Rest:
        """Its REST door."""
        return Rest(self.place, self.timeout_s, self.screen.aside)

    def close(self) -> None:
        """Let go what was opened."""
        if "rest" in self.__dict__:
            self.rest.close()

    def show(self, page: Callable[[], None]) -> None:
        """Write the page, and again and again if it is watched: once it was seen, no outage ends that."""
        if not self.watch_s:
            page()
            return
        seen_at = None
        while True:
            asked_at = time.monotonic()
            try:
                with self.screen.as_one_page():
                    page()
                seen_at = asked_at
            except Failure as failure:
                if seen_at is None or failure.code is not ExitCode.UNREACHABLE:
                    raise
                self.screen.last_page(time.monotonic() - seen_at)
                self.screen.failed(failure)
            time.sleep(self.watch_s)

    @cached_property
    def key(self) -> str:
        """The Idempotency-Key of this command."""
        return self.asking.key or uuid.uuid4().hex

    def reason(self) -> str:
        """Why it is asked; somebody at a terminal is asked for it. Raises Failure."""
        if self.asking.reason.strip():
            return self.asking.reason.strip()
        if self.asking.dry_run:
            return "only to look"
        if not sys.stdin.isatty():
            raise usage("Say why: --reason TEXT.", "The journal keeps it.")
        return self._typed("Why? ") or self._nothing_done()

    def confirm(self, name: str, what: str) -> None:
        """Let somebody type the name of what is to be lost, unless --yes was said. Raises Failure."""
        if self.asking.yes:
            return
        self.require_somebody(what)
        if self._typed(f"{what} Type {name} to go on: ") != name:
            self._nothing_done()

    def require_somebody(self, what: str) -> None:
        """Raise Failure where nobody can be asked whether that is meant."""
        if not sys.stdin.isatty():
            raise usage(f"{what} Nobody can be asked here.", "Say --yes if that is meant.")

    def _typed(self, question: str) -> str:
        from muster.cli.words import plain

        sys.stderr.write(plain(question))
        sys.stderr.flush()
        return sys.stdin.readline().strip()

    def _nothing_done(self) -> Any:
        if self.to_go_on:
            raise usage("Nothing more was done.", self.to_go_on)
        raise usage("Nothing was done.")
