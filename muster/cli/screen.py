"""This room writes what a command found: tables for people, JSON and names for scripts, notes beside them."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
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


class Screen:
    """The two streams of one command."""

    def __init__(
        self, output: Output, quiet: bool, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.output = output
        self.quiet = quiet
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.is_terminal = self._out.isatty()

    def rows(self, rows: Iterable[dict[str, Any]], columns: Sequence[Column], name: str) -> None:
        """A list; `name` is the field by which `-o name` calls a row."""
        found = list(rows)
        if self.output is Output.JSON:
            self._json(found)
        elif self.output is Output.NAME:
            for row in found:
                self.line(row.get(name))
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
        for label, value in facts:
            self._out.write(f"{label.ljust(width)}  {shown(value)}\n")
        self._out.flush()

    def heading(self, text: str) -> None:
        """The title of what follows, where several tables are written."""
        if self.output is Output.TABLE:
            self._out.write(f"\n{plain(text)}\n")

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
                self._out.write("\n")
            return
        titles, *others = [_laid(line, columns, widths) for line in lines]
        with console.capture() as written:
            console.print(Text(titles, style="bold", no_wrap=True))
        # Laid out by hand: rich needs a second for each thousand rows.
        self._out.write("\n".join((written.get().rstrip("\n"), *others, "")))
        self._out.flush()

    def line(self, value: object) -> None:
        """One line of the answer."""
        self._out.write(f"{plain(value)}\n")
        self._out.flush()

    def json(self, body: Any) -> None:
        """What is asked for as JSON, and nothing otherwise."""
        if self.output is Output.JSON:
            self._json(body)

    def note(self, text: str) -> None:
        """Something beside the answer, for whoever looks."""
        if not self.quiet:
            self._err.write(f"{plain(text)}\n")
            self._err.flush()

    def failed(self, failure: Failure) -> None:
        """What went wrong, and what to do."""
        lines = [f"muster: {failure.text}", *(f"  {line}" for line in failure.details)]
        if failure.advice:
            lines.append(f"  {failure.advice}")
        self._err.write("".join(f"{plain(line)}\n" for line in lines))
        self._err.flush()

    def clear(self) -> None:
        """Begin the page anew, where there is one."""
        if self.is_terminal and self.output is Output.TABLE:
            self._out.write("\x1b[H\x1b[2J")

    def _json(self, body: Any) -> None:
        # All but ASCII is escaped, and so is what steers a terminal; DEL is the one that json lets through.
        text = json.dumps(body, indent=2).replace("\x7f", "\\u007f")
        self._out.write(f"{text}\n")
        self._out.flush()

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
