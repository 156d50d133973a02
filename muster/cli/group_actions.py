"""This room asks something of a consumer group: offsets, members, its strategy, its end."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from muster.cli.asking import ask, judged, tag_of, tell
from muster.cli.commands import command
from muster.cli.failures import usage
from muster.cli.rest import named
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.typed import scope, span_ms, whole
from muster.cli.words import at

Group = Annotated[str, typer.Argument(help="The group's name.")]
Member = Annotated[str, typer.Argument(help="The member's id, or a static member's group.instance.id.")]
Topics = Annotated[
    list[str], typer.Option("--topic", help="A topic, or partitions of it as orders:0,2-5; again for more.")
]
_REQUESTS: Final = [
    Column("REQUEST", "request"),
    Column("KIND", "kind"),
    Column("VERDICT", lambda row: row["verdict"] or "waiting"),
    Column("BY", "principal"),
    Column("WHY", "reason"),
    Column("ASKED", lambda row: at(row["asked_at"])),
]


def register(app: typer.Typer) -> None:
    """Add these commands to those of groups."""
    command(app, "reset-offsets", asks=True, dry_run=True)(reset_offsets)
    command(app, "undo-reset", asks=True, dry_run=True)(undo_reset)
    command(app, "delete-offsets", asks=True, dry_run=True)(delete_offsets)
    command(app, "delete", asks=True, dry_run=True)(delete)
    command(app, "remove-member", asks=True, dry_run=True)(remove_member)
    command(app, "lift-quarantine", asks=True, dry_run=True)(lift_quarantine)
    command(app, "rebalance", asks=True, dry_run=True)(rebalance)
    command(app, "set", asks=True, dry_run=True)(set_strategy)
    command(app, "requests", lists=50)(requests)


def reset_offsets(
    session: Session,
    group: Group,
    topic: Topics = [],  # noqa: B006  typer takes the default of a list as it stands
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All that the group has committed.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the beginning of each log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of each log.")] = False,
    to_datetime: Annotated[
        str, typer.Option(help="To the first record at or after 2026-11-21T03:00:00Z.")
    ] = "",
    by_duration: Annotated[str, typer.Option(help="To the first record of the last 2h, 30m, 7d.")] = "",
    to_offset: Annotated[int | None, typer.Option(help="To this offset.", parser=whole(0))] = None,
    shift_by: Annotated[str, typer.Option(help="By so many records, back if below 0.")] = "",
    from_group: Annotated[str, typer.Option(help="To what another group has committed.")] = "",
) -> None:
    """Set what a group without members has committed: shows the difference, then asks."""
    said = [
        {"to": "earliest"} if to_earliest else None,
        {"to": "latest"} if to_latest else None,
        {"to": "time", "time": to_datetime} if to_datetime else None,
        {"to": "time", "time": _ago(by_duration)} if by_duration else None,
        {"to": "offset", "offset": to_offset} if to_offset is not None else None,
        {"to": "shift", "by": _whole(shift_by)} if shift_by else None,
        {"to": "group", "from_group": from_group} if from_group else None,
    ]
    where = [one for one in said if one is not None]
    if len(where) != 1:
        raise usage(
            "Say once where to: --to-earliest, --to-latest, --to-datetime, --by-duration, --to-offset,"
            " --shift-by or --from-group."
        )
    if bool(topic) == all_topics:
        raise usage("Say which: --topic orders, --topic orders:0,2-5, or --all-topics.")
    wish = {"kind": "reset_offsets", **where[0]} | ({"scope": [scope(one) for one in topic]} if topic else {})
    # A span before now is another time whenever it is said.
    again = f"--to-datetime {where[0]['time']} in place of --by-duration {by_duration}" if by_duration else ""
    _destroying(session, group, wish, f"This sets what {group} has committed.", again)


def undo_reset(
    session: Session,
    group: Group,
    request: Annotated[str, typer.Argument(help="The request that reset the offsets.")],
) -> None:
    """Put back what was committed before a reset."""
    _destroying(session, group, {"kind": "undo_reset", "request": request}, "This sets offsets back.")


def delete_offsets(session: Session, group: Group, topic: Topics) -> None:
    """Delete what a group has committed of topics that no member reads."""
    wish = {"kind": "delete_offsets", "scope": [scope(one) for one in topic]}
    _destroying(session, group, wish, f"This deletes what {group} has committed.")


def delete(session: Session, group: Group) -> None:
    """Delete a group without members, with its offsets."""
    _destroying(session, group, {"kind": "delete_group"}, f"This deletes {group} with its offsets.")


def remove_member(
    session: Session,
    group: Group,
    member: Member,
    quarantine: Annotated[
        str, typer.Option(help="Refuse its name for so long, such as 10m; 7d at most.")
    ] = "",
) -> None:
    """Cut a member off; its partitions go to others."""
    wish = {"kind": "remove_member", "member": member}
    if quarantine:
        wish["quarantine_ms"] = span_ms(quarantine)  # type: ignore[assignment]
    _asked(session, group, wish)


def lift_quarantine(session: Session, group: Group, member: Member) -> None:
    """Let whoever has this name come again."""
    _asked(session, group, {"kind": "lift_quarantine", "member": member})


def rebalance(session: Session, group: Group) -> None:
    """Ask for a rebalance now."""
    _asked(session, group, {"kind": "rebalance"})


def set_strategy(
    session: Session,
    group: Group,
    assignor: Annotated[
        str, typer.Option(help="sticky, range, roundrobin, copartitioned, rackaware, redundant.")
    ] = "",
    mode: Annotated[str, typer.Option(help="incremental or eager.")] = "",
    copies: Annotated[
        int, typer.Option(help="Members that the redundant assignor gives a partition to.")
    ] = 0,
) -> None:
    """Let a native group assign otherwise; what is left out stays."""
    stated: dict[str, Any] = {"assignor": assignor, "rebalance_mode": mode, "copies": copies}
    given = {name: value for name, value in stated.items() if value}
    if not given:
        raise usage("Say what is to be another: --assignor, --mode or --copies.")
    _asked(session, group, {"kind": "set_strategy", **given})


def requests(session: Session, group: Group) -> None:
    """List what was asked of a group in the last 7 days, the latest first."""
    rows = session.rest.rows(named("requests", group), session.most)
    session.screen.rows(rows, _REQUESTS, "request")


def _asked(session: Session, group: str, wish: dict[str, Any]) -> None:
    body = wish | {"reason": session.reason(), "dry_run": session.asking.dry_run}
    tag = tag_of(session, named("groups", group))
    tell(session, ask(session, "POST", named("requests", group), body, tag=tag))


def _destroying(session: Session, group: str, wish: dict[str, Any], what: str, again: str = "") -> None:
    """Show what would come of it, let the name be typed, then ask on the version that was looked at.

    `again`: see ask.
    """
    body = wish | {"reason": session.reason(), "dry_run": session.asking.dry_run}
    path, tag = named("requests", group), tag_of(session, named("groups", group))
    if not (session.asking.dry_run or session.asking.yes):
        session.require_somebody(what)
        judged(session, "POST", path, body, tag=tag)
        session.confirm(group, what)
    tell(session, ask(session, "POST", path, body, tag=tag, again=again))


def _ago(text: str) -> str:
    try:
        return (datetime.now(UTC) - timedelta(milliseconds=span_ms(text))).isoformat()
    except OverflowError as error:
        raise usage(
            f"{text} ago there was no time yet.", "--to-earliest is where each log begins."
        ) from error


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise usage(f"{text!r} is no whole number.") from error
