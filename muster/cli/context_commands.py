"""This room keeps contexts: names for clusters, each with its address and how to get in."""

import os
import sys
from typing import Annotated

import typer

from muster.cli.commands import command
from muster.cli.failures import ExitCode, Failure
from muster.cli.places import Contexts, Place, checked, checked_name, contexts_path, secret_in
from muster.cli.screen import Column
from muster.cli.session import Session

app = typer.Typer(help="Names for clusters.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(help="The context's name.")]


@command(app, "add")
def add(session: Session, name: Name) -> None:
    """Keep an address under a name, and use it. Without --token or --token-file, a token is typed unseen."""
    wanted, contexts = session.wanted, _contexts(session)
    if not wanted.url:
        raise Failure(ExitCode.USAGE, "Say where it is: --url https://muster.example.")
    if wanted.token_file:
        secret_in(wanted.token_file)
    token = "" if wanted.token_file else wanted.token or _token_typed()
    place = checked(Place(wanted.url, token), wanted.plaintext)
    before = contexts.named.get(checked_name(name))
    contexts.named[name] = {
        "url": place.url,
        "token": token,
        "token_file": _whole(wanted.token_file),
        "ca_file": _whole(wanted.ca_file),
        "plaintext": "yes" if wanted.plaintext else "",
    }
    contexts.current = name
    contexts.write()
    if before is not None and before.get("url", "") != place.url:
        session.screen.note(f"{name} was {before.get('url', '')} until now.")
    session.screen.note(f"{name} is used from now on; it is kept in {contexts.path}.")


@command(app, "use")
def use(session: Session, name: Name) -> None:
    """Use another context from now on."""
    contexts = _contexts(session)
    _require(contexts, name)
    contexts.current = name
    contexts.write()
    session.screen.note(f"{name} is used from now on.")


@command(app, "list")
def list_contexts(session: Session) -> None:
    """List contexts; tokens are not shown."""
    contexts = _contexts(session)
    rows = [
        {
            "name": name,
            "url": one.get("url", ""),
            "token": "kept here" if one.get("token") else one.get("token_file", ""),
            "current": name == contexts.current,
        }
        for name, one in sorted(contexts.named.items())
    ]
    columns = [
        Column("CURRENT", lambda row: "*" if row["current"] else ""),
        Column("NAME", "name"),
        Column("ADDRESS", "url"),
        Column("TOKEN", "token"),
    ]
    session.screen.rows(rows, columns, "name")


@command(app, "remove")
def remove(session: Session, name: Name) -> None:
    """Forget a context, and its token."""
    contexts = _contexts(session)
    _require(contexts, name)
    del contexts.named[name]
    if contexts.current == name:
        contexts.current = ""
    contexts.write()
    session.screen.note(f"{name} is forgotten.")


@command(app, "show")
def show(session: Session) -> None:
    """Say which cluster is asked, and why that one."""
    place = session.place
    said = {"url": place.url, "token": bool(place.token), "ca_file": place.ca_file, "found": place.found}
    facts = [
        ("address", place.url),
        ("found by", place.found),
        ("token", place.token != ""),
        ("authorities", place.ca_file or "the system's"),
    ]
    session.screen.one(said, facts, place.url)


def _contexts(session: Session) -> Contexts:
    contexts = Contexts.read(contexts_path(session.environment))
    if contexts.others_may_read:
        session.screen.note(f"Others can read the tokens in {contexts.path}: chmod 600 it.")
    return contexts


def _require(contexts: Contexts, name: str) -> None:
    if name not in contexts.named:
        there = ", ".join(sorted(contexts.named)) or "none"
        raise Failure(ExitCode.NOT_FOUND, f"There is no context {name}.", f"There are: {there}.")


def _whole(name: str) -> str:
    """A file's name that holds in every folder."""
    return os.path.abspath(os.path.expanduser(name)) if name else ""


def _token_typed() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    import getpass

    return getpass.getpass("Token: ").strip()
