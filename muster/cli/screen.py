"""This room writes what a command found: tables for people, JSON and names for scripts, notes beside them."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from muster.cli.failures import Failure
from muster.cli.words import NOTHING, plain, shown

WIDE: Final = 100_000
"""Columns of a page that nobody looks at: a pipe cuts nothing off."""

_FROM_THE_TOP: Final = "\x1b[H\x1b[2J"
"""Empties a terminal."""


class Output(StrEnum):
    """How the answer is written."""

    TABLE = "table"
    JSON = "json"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, the field or what makes it of a row, and whether it is a number."""

    title: str
    of: str | Callable[[dict[str, Any]], object]
    number: bool = False

    def cell(self, row: dict[str, Any]) -> str:
        """What stands in it."""
        return shown(row.get(self.of) if isinstance(self.of, str) else self.of(row))


def close(stream: TextIO) -> None:
    """Write nowhere from now on what nobody takes; Python would complain once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Screen:
    """The two streams of one command. `is_needed`: it ends when nobody reads the answer any more."""

    def __init__(
        self,
        output: Output,
        quiet: bool,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        is_needed: bool = True,
    ) -> None:
        self.output = output
        self.quiet = quiet
        self._is_needed = is_needed
        self._gathered: list[Any] | None = None
        self._page: list[str] | None = None
        self._last_page = ""
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.is_terminal = self._out.isatty()

    def rows(
        self,
        rows: Iterable[dict[str, Any]],
        columns: Sequence[Column],
        name: str | Callable[[dict[str, Any]], object],
    ) -> None:
        """A list; `name` is the field by which `-o name` calls a row, or how it is made of several."""
        found = list(rows)
        if self.output is Output.JSON:
            self._json(found)
        elif self.output is Output.NAME:
            for row in found:
                self.line(row.get(name) if isinstance(name, str) else name(row))
        else:
            self.table(found, columns)

    def one(self, body: dict[str, Any], facts: Sequence[tuple[str, object]], name: object) -> bool:
        """One thing; True if it was written for people, who may be told more."""
        if self.output is Output.JSON:
            self._json(body)
        elif self.output is Output.NAME:
            self.line(name)
        else:
            self.facts(facts)
        return self.output is Output.TABLE

    def facts(self, facts: Sequence[tuple[str, object]]) -> None:
        """Names and values, one a line."""
        width = max((len(label) for label, _ in facts), default=0)
        self._write("".join(f"{label.ljust(width)}  {shown(value)}\n" for label, value in facts))

    def heading(self, text: str) -> None:
        """The title of what follows, where several tables are written."""
        if self.output is Output.TABLE:
            self._write(f"\n{plain(text)}\n")

    def table(self, rows: Sequence[dict[str, Any]], columns: Sequence[Column]) -> None:
        """A table; where the terminal is too narrow for it, one row below the other."""
        if not rows:
            self.note("There is none.")
            return
        cells = [[column.cell(row) for column in columns] for row in rows]
        console = self._console()
        lines = [[column.title for column in columns], *cells]
        widths = [max(map(cell_len, given)) for given in zip(*lines, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) > console.width:
            for line in cells:
                self.facts([(column.title, cell) for column, cell in zip(columns, line, strict=True)])
                self._write("\n")
            return
        titles, *others = [_laid(line, columns, widths) for line in lines]
        with console.capture() as written:
            console.print(Text(titles, style="bold", no_wrap=True))
        # Laid out by hand: rich needs a second for each thousand rows.
        self._write("\n".join((written.get().rstrip("\n"), *others, "")))

    def line(self, value: object) -> None:
        """One line of the answer."""
        self._write(f"{plain(value)}\n")

    def json(self, body: Any) -> None:
        """What is asked for as JSON, and nothing otherwise."""
        if self.output is Output.JSON:
            self._json(body)

    def note(self, text: str) -> None:
        """Something beside the answer, for whoever looks; of a page, below what stands above it there."""
        if self.quiet:
            return
        if self._page is not None:
            self._page.append(f"{plain(text)}\n")
        else:
            self.aside(text)

    def aside(self, text: str) -> None:
        """What goes on while an answer is waited for: it is no part of a page, and is seen at once."""
        if not self.quiet:
            self._say(f"{plain(text)}\n")

    def failed(self, failure: Failure) -> None:
        """What went wrong, and what to do."""
        lines = [f"muster: {failure.text}", *(f"  {line}" for line in failure.details)]
        if failure.advice:
            lines.append(f"  {failure.advice}")
        self._say("".join(f"{plain(line)}\n" for line in lines))

    @contextmanager
    def as_one_page(self) -> Iterator[None]:
        """At a terminal, write all that is told in here in one piece, where the page before it stood.

        Till then that one stays, though the answers to one page may take minutes.
        """
        if not self._has_pages:
            yield
            return
        self._page = []
        try:
            yield
            self._last_page = _FROM_THE_TOP + "".join(self._page)
        finally:
            self._page = None
        self._write(self._last_page)

    def last_page(self, age_s: float) -> None:
        """At a terminal, write the last page once more, and how old it is, above what went wrong since."""
        if self._has_pages:
            self._write(f"{self._last_page}\nThat was so {age_s:.0f} s ago.\n")

    @property
    def _has_pages(self) -> bool:
        return self.is_terminal and self.output is Output.TABLE

    @contextmanager
    def as_one_list(self) -> Iterator[None]:
        """Write all that is told in here as JSON as one array, also where it ends badly."""
        gathered: list[Any] = []
        self._gathered = gathered
        try:
            yield
        finally:
            self._gathered = None
            self.json(gathered)

    def _json(self, body: Any) -> None:
        if self._gathered is not None:
            self._gathered.append(body)
            return
        # All but ASCII is escaped, and so is what steers a terminal; DEL is the one that json lets through.
        text = json.dumps(body, indent=2).replace("\x7f", "\\u007f")
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        """Raises BrokenPipeError when nobody reads on, unless what is to be done is done all the same."""
        if self._page is not None:
            self._page.append(text)
            return
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            if self._is_needed:
                raise
            close(self._out)

    def _say(self, text: str) -> None:
        """What is said beside an answer ends nothing where nobody hears it."""
        try:
            self._err.write(text)
            self._err.flush()
        except OSError:
            close(self._err)

    def _console(self) -> Console:
        """Colours and width as the terminal has them; rich obeys NO_COLOR."""
        width = None if self.is_terminal else WIDE
        return Console(file=self._out, width=width, highlight=False, markup=False, emoji=False)


def _laid(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """One line of a table, without blanks at its end."""
    parts = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        blanks = " " * (width - cell_len(cell))
        parts.append(blanks + cell if column.number else cell + blanks)
    return "  ".join(parts).rstrip()


def joined(values: Iterable[object]) -> str:
    """Values in one cell."""
    return ", ".join(map(shown, values)) or NOTHING
