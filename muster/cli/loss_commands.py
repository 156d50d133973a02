"""This room shows what elections may have lost, and lets an operator say that it was seen."""

from typing import Annotated, Any, Final

import typer

from muster.cli.asking import ask, tell
from muster.cli.commands import command
from muster.cli.failures import ExitCode, Failure, usage
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.typed import scope
from muster.cli.words import at, name_of_partition

app = typer.Typer(help="What elections may have lost.", no_args_is_help=True, rich_markup_mode=None)
State = Annotated[str, typer.Option("--state", help="open or acknowledged.")]
_MOST: Final = 1_000
"""Losses that one request acknowledges."""

_LOSSES: Final = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("EPOCH", "leader_epoch", number=True),
    Column("LEADER", "leader", number=True),
    Column("LOST", lambda row: "unknown" if row["lost"] is None else row["lost"], number=True),
    Column("WAITS FOR", "waits_for"),
    Column("ELECTED", lambda row: at(row["elected_at"])),
    Column("WHY", "reason"),
    Column("ACKNOWLEDGED BY", "acknowledged_by"),
]


@command(app, "list", lists=0, watched=True)
def list_losses(
    session: Session,
    state: State = "",
    topic: Annotated[str, typer.Option("--topic", help="Only of this topic.")] = "",
    partition: Annotated[str, typer.Option("--partition", help="Only of partitions of this number.")] = "",
) -> None:
    """List elections that may have lost records."""
    asked = {"state": state, "topic": topic, "partition": partition}
    session.show(
        lambda: session.screen.rows(
            session.rest.rows("losses", session.most, **asked),
            _LOSSES,
            name_of_partition(topic),
        )
    )


@command(app, "acknowledge", asks=True)
def acknowledge(
    session: Session,
    topic: Annotated[
        list[str],
        typer.Option("--topic", help="Of this topic, or of partitions as orders:0,2-5; again for more."),
    ] = [],  # noqa: B006
    everything: Annotated[bool, typer.Option("--all-topics", help="All that are open.")] = False,
) -> None:
    """Say that what was lost was seen: it is a finding no more."""
    if bool(topic) == everything:
        raise usage("Say which: --topic orders, --topic orders:0,2-5, or --all-topics.")
    rows = list(session.rest.rows("losses", _MOST, state="open"))
    losses = [_named(one) for one in rows if everything or any(_meant(scope(said), one) for said in topic)]
    if not losses:
        raise Failure(ExitCode.NOT_FOUND, "None of that is open.", "`muster losses list` names what is.")
    tell(session, ask(session, "POST", "losses", {"losses": losses, "reason": session.reason()}))


def _meant(said: dict[str, Any], one: dict[str, Any]) -> bool:
    return said["topic"] == one["topic"] and one["partition"] in said.get("partitions", [one["partition"]])


def _named(one: dict[str, Any]) -> dict[str, Any]:
    """One loss as it was seen: what is told of it meanwhile is not acknowledged."""
    return {name: one[name] for name in ("topic", "partition", "leader_epoch", "version")}
