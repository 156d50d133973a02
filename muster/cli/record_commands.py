"""This room shows what was asked, by whom and why, and what became true turn by turn."""

from typing import Annotated, Any, Final

import typer

from muster.cli.asking import followed_request, request_of, tell
from muster.cli.commands import command
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.words import at

requests_app = typer.Typer(help="What was asked of the cluster.", no_args_is_help=True, rich_markup_mode=None)
_REQUESTS: Final = [
    Column("REQUEST", "request"),
    Column("KIND", "kind"),
    Column("ABOUT", lambda row: _about(row)),
    Column("STATE", lambda row: row.get("verdict") or row["state"]),
    Column("BY", "principal"),
    Column("WHY", "reason"),
    Column("ASKED", lambda row: at(row["asked_at"])),
]
_TURNS: Final = [
    Column("AT", lambda row: at(row["at"])),
    Column("LANE", "lane"),
    Column("SEQ", "seq", number=True),
    Column("KEY", "key"),
    Column("CAUSE", "cause"),
    Column("RECORDS", lambda row: len(row["records"]), number=True),
    Column("NODE", "node"),
]


def register(app: typer.Typer) -> None:
    """Add these commands at the top."""
    command(app, "journal", lists=50)(journal)
    app.add_typer(requests_app, name="requests")


@command(requests_app, "list", lists=50)
def list_requests(
    session: Session,
    contains: Annotated[str, typer.Option(help="Only those with this in who asked, or why.")] = "",
    kind: Annotated[str, typer.Option(help="Only such requests, as DeleteTopics.")] = "",
    state: Annotated[str, typer.Option(help="waiting, answered, done, refused or failed.")] = "",
) -> None:
    """List what was asked of the controller in the last 7 days; of a group: `muster groups requests`."""
    rows = session.rest.rows("controller/requests", session.most, contains=contains, kind=kind, state=state)
    session.screen.rows(rows, _REQUESTS, "request")


@command(requests_app, "show")
def show(
    session: Session,
    request: Annotated[str, typer.Argument(help="The request's id.")],
    wait: Annotated[bool, typer.Option("--wait", help="Until it is answered.")] = False,
) -> None:
    """Show what became of a request, to the controller or about a group; ends as the command that asked."""
    body = request_of(session, request)
    tell(session, followed_request(session, request, body) if wait else body)


def journal(
    session: Session,
    lane: Annotated[str, typer.Option(help="Only this lane: controller, or coordinator/SHARD.")] = "",
    key: Annotated[str, typer.Option(help="Only turns about this: a group, or cluster.")] = "",
) -> None:
    """List the journal, the latest first; -o json tells the records of each turn."""
    rows = session.rest.rows("journal", session.most, lane=lane, key=key)
    session.screen.rows(rows, _TURNS, "seq")


def _about(row: dict[str, Any]) -> str:
    """`orders, orders-3, broker 3 and 12 more`; a web of before names nothing."""
    names = [_named(one) for one in row.get("about") or ()]
    more = row.get("about_count", 0) - len(names)
    return f"{', '.join(names)} and {more} more" if names and more > 0 else ", ".join(names)


def _named(one: dict[str, Any]) -> str:
    if one["partition"] is not None:
        return f"{one['name']}-{one['partition']}"
    is_kind_said = one["kind"] in ("broker", "plan", "cluster")
    return f"{one['kind']} {one['name']}".strip() if is_kind_said else str(one["name"])
