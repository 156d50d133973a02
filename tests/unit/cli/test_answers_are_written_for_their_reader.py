"""Tables for people at any width, JSON and names for scripts; what strangers named steers no terminal."""

import json
import os
import pty
from io import StringIO

import pytest

from muster.cli.failures import ExitCode, Failure
from muster.cli.screen import Column, Output, Screen
from muster.cli.words import at, partitions, plain, size

COLUMNS = [Column("GROUP", "group"), Column("LAG", "lag", number=True), Column("MEMBERS", "members")]
ROWS: list[dict[str, object]] = [
    {"group": "departures", "lag": 7, "members": ["ann", "ben"]},
    {"group": "[red]arrivals[/red]", "lag": None, "members": []},
]
HOSTILE = "a\x1b]0;owned\x07\x1b[2J\r\nb\u202ec\x9b\U000e0041"


def written(output: Output, rows: list[dict[str, object]], *, quiet: bool = False) -> tuple[str, str]:
    """What stands in a pipe, and beside it."""
    out, err = StringIO(), StringIO()
    Screen(output, quiet, out, err).rows(rows, COLUMNS, "group")
    return out.getvalue(), err.getvalue()


def test_a_pipe_gets_a_plain_table_that_is_cut_nowhere() -> None:
    long = [{"group": "g" * 300, "lag": 1, "members": ["m" * 300]}]
    out, _ = written(Output.TABLE, [*ROWS, *long])
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["GROUP", "departures", "[red]arrivals[/red]", "g" * 300]
    assert lines[1].split() == ["departures", "7", "ann,ben"] and lines[2].split()[1:] == ["-", "-"]
    assert "m" * 300 in lines[3] and "\x1b" not in out
    assert not any(line.endswith(" ") for line in lines)


def test_columns_stand_below_their_titles_whatever_is_in_them() -> None:
    rows: list[dict[str, object]] = [
        {"group": "漢字", "lag": 12_345, "members": ["ann"]},
        {"group": "orders", "lag": 7, "members": []},
    ]
    assert written(Output.TABLE, rows)[0].splitlines() == [
        "GROUP     LAG  MEMBERS",
        "漢字    12345  ann",
        "orders      7  -",
    ]


def test_scripts_get_json_and_names() -> None:
    assert json.loads(written(Output.JSON, ROWS)[0]) == ROWS
    assert written(Output.NAME, ROWS)[0].splitlines() == ["departures", "[red]arrivals[/red]"]
    assert json.loads(written(Output.JSON, [])[0]) == []


def test_an_empty_list_says_so_beside_the_answer() -> None:
    assert written(Output.TABLE, []) == ("", "There is none.\n")
    assert written(Output.TABLE, [], quiet=True) == ("", "")


@pytest.mark.parametrize("output", Output)
def test_what_strangers_named_steers_no_terminal(output: Output) -> None:
    out, _ = written(output, [{"group": HOSTILE, "lag": 1, "members": [HOSTILE]}])
    assert all(one.isprintable() or one == "\n" for one in out)
    if output is Output.JSON:
        assert json.loads(out)[0]["group"] == HOSTILE
    else:
        assert "a\\x1b]0;owned\\x07" in out and len(out.splitlines()) == (1 if output is Output.NAME else 2)


def test_a_failure_says_what_happened_and_what_to_do() -> None:
    out, err = StringIO(), StringIO()
    failure = Failure(ExitCode.CONFLICT, f"It is {HOSTILE}", "Do that.", ("orders: no",))
    Screen(Output.JSON, True, out, err).failed(failure)
    lines = err.getvalue().splitlines()
    assert lines[0].startswith("muster: It is a\\x1b") and lines[1:] == ["  orders: no", "  Do that."]
    assert out.getvalue() == ""


def seen_on_a_terminal(rows: list[dict[str, object]]) -> str:
    """What a terminal is sent."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        Screen(Output.TABLE, False, stream, StringIO()).rows(rows, COLUMNS, "group")
        # Until the other end is closed a terminal keeps what was sent; then it may forget it.
        seen = b""
        while not seen.endswith((b"ben\r\n", b"ben\r\n\r\n")):
            seen += os.read(ours, 65536)
    os.close(ours)
    return seen.decode()


@pytest.mark.parametrize(("columns", "stacked"), [("200", False), ("20", True)])
def test_a_table_that_does_not_fit_is_written_row_below_row(
    monkeypatch: pytest.MonkeyPatch, columns: str, stacked: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")
    seen = seen_on_a_terminal(ROWS[:1]).replace("\x1b[1m", "").replace("\x1b[0m", "")
    lines = [line.split() for line in seen.splitlines() if line]
    if stacked:
        assert lines == [["GROUP", "departures"], ["LAG", "7"], ["MEMBERS", "ann,ben"]]
    else:
        assert lines == [["GROUP", "LAG", "MEMBERS"], ["departures", "7", "ann,ben"]]


def test_values_read_well() -> None:
    assert partitions([3, 0, 1, 2, 7]) == "0-3,7" and partitions([]) == "-"
    assert (size(0), size(999), size(1500), size(50_000_000)) == ("0 bytes", "999 bytes", "1.5 kB", "50.0 MB")
    assert at("2026-11-21T03:12:41.123Z") == "2026-11-21 03:12:41Z" and at(None) == "-"
    assert plain("naïve 漢字") == "naïve 漢字"
