"""This room looks step by step whether a cluster can be asked, and says what to do where it cannot."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
import typer

from muster.cli.commands import command
from muster.cli.failures import ExitCode, Failure
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.kernel.version import VERSION

_STEPS: Final = [
    Column("STEP", "step"),
    Column("STATE", "state"),
    Column("FOUND", "found"),
    Column("TO DO", "do"),
]
_OFF_S: Final = 30
"""Seconds by which two clocks may differ before times in commands mean something else."""


def register(app: typer.Typer) -> None:
    """Add this command at the top."""
    command(app, "doctor")(doctor)


def doctor(session: Session) -> None:
    """Look whether the cluster can be asked: address, TLS, readiness, clock, token, role, versions."""
    rows = list(_looked(session))
    session.screen.rows(rows, _STEPS, "step")
    wrong = [row for row in rows if row["state"] == "wrong"]
    if wrong:
        raise Failure(ExitCode.REFUSED, f"{wrong[0]['step']}: {wrong[0]['found']}", wrong[0]["do"])


def _looked(session: Session) -> Iterator[dict[str, Any]]:
    steps: list[tuple[str, Callable[[Session], tuple[str, str, str]]]] = [
        ("cluster", _named),
        ("answer", _answers),
        ("readiness", _ready),
        ("clock", _clock),
        ("token", _token),
        ("role", _role),
        ("brokers", _brokers),
        ("version", _versions),
    ]
    for step, look in steps:
        try:
            state, found, to_do = look(session)
        except Failure as failure:
            yield _row(step, "wrong", failure.text, failure.advice)
            if step in ("cluster", "answer", "token"):
                return
            continue
        yield _row(step, state, found, to_do)


def _row(step: str, state: str, found: str, to_do: str) -> dict[str, Any]:
    return {"step": step, "state": state, "found": found, "do": to_do}


def _named(session: Session) -> tuple[str, str, str]:
    place = session.place
    return "well", f"{place.url}, by {place.found}", ""


def _answers(session: Session) -> tuple[str, str, str]:
    began = time.monotonic()
    status, _, _ = session.rest.probe("/livez")
    if status != 200:
        text = f"{status} at /livez"
        return "wrong", text, "Is it the address of the pages, and does nothing else answer in their place?"
    return "well", f"in {(time.monotonic() - began) * 1000:.0f} ms", ""


def _ready(session: Session) -> tuple[str, str, str]:
    status, _, text = session.rest.probe("/readyz")
    said = text.strip()[:200]
    if status != 200:
        return "wrong", said, "The log of the web process says more; docs/operations.md what to do."
    return "well", said, ""


def _clock(session: Session) -> tuple[str, str, str]:
    _, headers, _ = session.rest.probe("/livez")
    off_s = _off_s(headers)
    if off_s is None:
        return "unknown", "the answer has no date", ""
    if abs(off_s) > _OFF_S:
        return "wrong", f"{off_s:+.0f} s beside that of the server", "Set one of the two clocks."
    return "well", "as that of the server", ""


def _off_s(headers: httpx.Headers) -> float | None:
    try:
        return (datetime.now(UTC) - parsedate_to_datetime(headers["Date"])).total_seconds()
    except (ArithmeticError, KeyError, ValueError, TypeError):
        return None


def _token(session: Session) -> tuple[str, str, str]:
    if not session.place.token:
        return "wrong", "none is given", "Give one: MUSTER_TOKEN, --token-file, or `muster context add`."
    session.rest.get("topics", limit=1)
    return "well", "it is good", ""


def _role(session: Session) -> tuple[str, str, str]:
    """A request that says nothing is refused as such to whoever may ask, and changes nothing."""
    try:
        session.rest.send("POST", "topics", session.key, body={})
    except Failure as failure:
        if failure.code is ExitCode.NOT_ALLOWED:
            return "well", "it may view, and change nothing", ""
        if failure.code is not ExitCode.REFUSED:
            raise
    return "well", "it may operate", ""


def _brokers(session: Session) -> tuple[str, str, str]:
    rows = list(session.rest.rows("brokers"))
    live = sum(row["state"] == "live" for row in rows)
    # To start again who is kept out helps nobody; a door of before says of nobody that it is.
    kept_out = sorted(row["broker_id"] for row in rows if row.get("set_back"))
    to_do = []
    if kept_out:
        to_do.append(
            f"The database was set back, which keeps out {', '.join(map(str, kept_out))}: stop what runs on"
            " another copy of it, then run `manage.py adopt_restore`."
        )
    if live + len(kept_out) < len(rows) or not rows:
        to_do.append("`muster brokers list` names the others: start them.")
    if to_do:
        return "wrong", f"{live} of {len(rows)} live", " ".join(to_do)
    return "well", f"{live} live", ""


def _versions(session: Session) -> tuple[str, str, str]:
    theirs = session.rest.get("schema/").body.get("info", {}).get("version", "unknown")
    if theirs != "1":
        return (
            "wrong",
            f"REST {theirs}, and this command speaks 1",
            "Install the command of the same release.",
        )
    return "well", f"command {VERSION}, REST {theirs}", ""
