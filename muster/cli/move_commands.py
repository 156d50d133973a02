"""This room moves partitions to other brokers, as kafka-reassign-partitions.sh does."""

from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer

from muster.cli.asking import ask, follow, tag_of, tell
from muster.cli.commands import command
from muster.cli.failures import usage
from muster.cli.plans import Throttle
from muster.cli.rest import named
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.typed import reassignment
from muster.cli.typed import size as typed_size
from muster.cli.words import NOTHING, at, size

app = typer.Typer(help="Moves of partitions.", no_args_is_help=True, rich_markup_mode=None)
File = Annotated[str, typer.Argument(help="A file of kafka-reassign-partitions: topic, partition, replicas.")]
_ACTIVE: Final = ("Init", "InProgress")
_MOVES: Final = [
    Column("MOVE", "id"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("FROM", "origin"),
    Column("TO", "target"),
    Column("PHASE", "phase"),
    Column("COPIED", lambda row: _copied(row)),
    Column("BY", "principal"),
    Column("ASKED", lambda row: at(row["asked_at"])),
    Column("WHY ENDED", "reason"),
]


@command(app, "list", lists=100, watched=True)
def list_moves(
    session: Session,
    topic: Annotated[str, typer.Option("--topic", help="Only of this topic.")] = "",
    phase: Annotated[str, typer.Option("--phase", help="Init, InProgress, Done, Cancelled or Failed.")] = "",
) -> None:
    """List moves, those that were asked for last first."""
    session.show(
        lambda: session.screen.rows(
            session.rest.rows("reassignments", session.most, topic=topic, phase=phase), _MOVES, "id"
        )
    )


@command(app, "show", watched=True)
def show(session: Session, move: Annotated[str, typer.Argument(help="The move's id.")]) -> None:
    """Show one move."""

    def page() -> None:
        body = session.rest.get(named("reassignments", move)).body
        facts = [(column.title.lower(), column.cell(body)) for column in _MOVES]
        session.screen.one(body, facts, body["id"])

    session.show(page)


@command(app, "start", asks=True)
def start(
    session: Session,
    file: File,
    throttle: Throttle = "",
    change_factor: Annotated[
        bool, typer.Option("--change-factor", help="More or fewer replicas than now are meant.")
    ] = False,
) -> None:
    """Move partitions to the brokers that a file names. With --wait until they are there."""
    if session.asking.if_match:
        raise usage("Partitions have a version each, and a file names none.", "Leave --if-match out.")
    rows = reassignment(file)
    # Nobody looks between reading their versions and asking; and the move makes others of them, so that the
    # same command under its key would ask for something else.
    wanted = [one | {"version": None} for one in rows]
    body: dict[str, Any] = {"partitions": wanted, "may_change_factor": change_factor}
    body |= {"reason": session.reason()} | ({"throttle": typed_size(throttle)} if throttle else {})
    request = ask(session, "POST", "reassignments", body)
    tell(session, request)
    if session.asking.wait:
        _await_end(session, rows)


@command(app, "cancel", asks=True)
def cancel(
    session: Session,
    move: Annotated[list[str], typer.Argument(help="Moves, by their ids.")] = [],  # noqa: B006
    file: Annotated[str, typer.Option("--file", help="All that move what this file names.")] = "",
) -> None:
    """Cancel moves: their partitions go back to where they were."""
    if bool(move) == bool(file):
        raise usage("Name moves by their ids, or --file FILE.")
    if session.asking.if_match and (file or len(move) > 1):
        raise usage("One version is none of several moves.", "Leave --if-match out, or name one move.")
    reason = session.reason()
    if file:
        rows = [one | {"replicas": None, "version": None} for one in reassignment(file)]
        tell(session, ask(session, "POST", "reassignments", {"partitions": rows, "reason": reason}))
        return
    # The key is the whole command's: the version of its first move is none of the next.
    with session.screen.as_one_list() if len(move) > 1 else nullcontext():
        for number, one in enumerate(move, start=1 if len(move) > 1 else 0):
            path = named("reassignments", one)
            tag = tag_of(session, path, is_nameable=len(move) == 1)
            tell(session, ask(session, "DELETE", path, tag=tag, reason=reason, step=number))


def _copied(row: dict[str, Any]) -> str:
    """How far its new replicas are."""
    copying = row["copying"]
    if copying is None:
        return NOTHING if row["copied_bytes"] is None else size(row["copied_bytes"])
    text = f"{size(copying['copied_bytes'])} of {size(copying['to_copy_bytes'])}"
    if copying["stalled_since"]:
        return f"{text}, nothing comes since {at(copying['stalled_since'])}"
    return f"{text}, {size(copying['rate'])}/s" if copying["rate"] else text


def _await_end(session: Session, rows: list[dict[str, Any]]) -> None:
    meant = {(one["topic"], one["partition"]) for one in rows}

    def look() -> tuple[str, bool]:
        active = {
            (one["topic"], one["partition"])
            for topic in sorted({topic for topic, _ in meant})
            for phase in _ACTIVE
            for one in session.rest.rows("reassignments", topic=topic, phase=phase)
        }
        left = len(active & meant)
        return f"{len(meant) - left} of {len(meant)} partitions move no more.", left == 0

    follow(session, look, "The move", "muster moves list --phase InProgress")
