"""This room shows and sets what clients may send and fetch."""

from typing import Annotated, Any, Final

import typer

from muster.cli.asking import ask, tell
from muster.cli.commands import command
from muster.cli.failures import ExitCode, Failure, usage
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.typed import size as typed_size
from muster.cli.words import at, size

app = typer.Typer(help="Quotas of clients.", no_args_is_help=True, rich_markup_mode=None)
User = Annotated[str, typer.Option("--user", help="A user, or <default>; left out: any user.")]
Client = Annotated[str, typer.Option("--client-id", help="A client id, or <default>; left out: any.")]
_RATES: Final = ("producer_byte_rate", "consumer_byte_rate")
_QUOTAS: Final = [
    Column("USER", lambda row: row["user"] or "any"),
    Column("CLIENT", lambda row: row["client_id"] or "any"),
    Column("SENDS", lambda row: _rate(row["producer_byte_rate"])),
    Column("FETCHES", lambda row: _rate(row["consumer_byte_rate"])),
    Column("CHANGED", lambda row: at(row["changed_at"])),
]


@command(app, "list", lists=0)
def list_quotas(session: Session) -> None:
    """List quotas, in bytes a second and broker."""
    session.screen.rows(session.rest.rows("quotas", session.most), _QUOTAS, _name)


@command(app, "set", asks=True)
def set_quota(
    session: Session,
    user: User = "",
    client_id: Client = "",
    producer: Annotated[
        str, typer.Option("--producer", help="Bytes a second to send, as 10MB, or none.")
    ] = "",
    consumer: Annotated[str, typer.Option("--consumer", help="Bytes a second to fetch, or none.")] = "",
) -> None:
    """Set what a user, a client id or both together may send and fetch; what is left out stays."""
    if not producer and not consumer:
        raise usage("Say how much: --producer, --consumer or both.")
    now = _now(session, user, client_id)
    body: dict[str, Any] = {"reason": session.reason()}
    for name, said in zip(_RATES, (producer, consumer), strict=True):
        body[name] = now.get(name) if not said else None if said == "none" else typed_size(said)
    request = ask(session, "PUT", "quotas", body, tag=_tag(session, now), user=user, client_id=client_id)
    tell(session, request)


@command(app, "delete", asks=True)
def delete(session: Session, user: User = "", client_id: Client = "") -> None:
    """Take a quota away; the next wider one holds from then on."""
    now = _now(session, user, client_id)
    # Under a key that was said it may be gone because the same command took it away.
    if not (now or session.asking.key):
        raise Failure(ExitCode.NOT_FOUND, "There is no such quota.", "`muster quotas list` names them.")
    tag, reason = _tag(session, now), session.reason()
    tell(session, ask(session, "DELETE", "quotas", tag=tag, user=user, client_id=client_id, reason=reason))


def _now(session: Session, user: str, client_id: str) -> dict[str, Any]:
    """The quota as it is; empty: there is none yet."""
    if not user and not client_id:
        raise usage("Say for whom: --user, --client-id or both.")
    whom = (user or None, client_id or None)
    rows = session.rest.rows("quotas")
    return next((row for row in rows if (row["user"], row["client_id"]) == whom), {})


def _tag(session: Session, now: dict[str, Any]) -> str:
    said = session.asking.if_match.strip()
    if said == "*" or said.endswith('"'):
        return said
    return f'"{said or now.get("version", 0)}"'


def _name(row: dict[str, Any]) -> str:
    """As Kafka calls it: a user and a client id may be spelled alike."""
    parts = (("users", row["user"]), ("clients", row["client_id"]))
    return "/".join(f"{kind}/{name}" for kind, name in parts if name is not None)


def _rate(value: int | None) -> str:
    return "any" if value is None else f"{size(value)}/s"
