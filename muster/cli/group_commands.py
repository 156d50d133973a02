"""This room shows consumer groups: their members, what they have read, how they came to be so."""

from typing import Annotated, Any, Final

import typer

from muster.cli import group_actions
from muster.cli.commands import command
from muster.cli.failures import usage
from muster.cli.rest import named
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.words import NOTHING, at, name_of_partition, partitions

app = typer.Typer(help="Consumer groups.", no_args_is_help=True, rich_markup_mode=None)
Group = Annotated[str, typer.Argument(help="The group's name.")]

_GROUPS: Final = [
    Column("GROUP", "group"),
    Column("PHASE", "phase"),
    Column("PROTOCOL", "protocol"),
    Column("MEMBERS", "members", number=True),
    Column("PARTITIONS", "partitions", number=True),
    Column("LAG", lambda row: lag_of(row), number=True),
    Column("CHANGED", lambda row: at(row["changed_at"])),
]
_MEMBERS: Final = [
    Column("MEMBER", "member"),
    Column("CLIENT", "client_id"),
    Column("HOST", "client_host"),
    Column("PARTITIONS", lambda row: owned(row["owns"])),
    Column("STANDS BY", "stands_by"),
    Column("JOINED", lambda row: at(row["joined_at"])),
]
OFFSETS: Final = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("COMMITTED", "offset", number=True),
    Column("END", "high_watermark", number=True),
    Column("LAG", "lag", number=True),
    Column("COMMITTED AT", lambda row: at(row["committed_at"])),
]
_REBALANCES: Final = [
    Column("STARTED", lambda row: at(row["started"])),
    Column("CAUSE", "cause"),
    Column("DETAIL", "detail"),
    Column("GENERATION", "generation", number=True),
    Column("MEMBERS", "members", number=True),
    Column("MOVED", "moved", number=True),
    Column("MS", lambda row: round(row["length_ms"]), number=True),
    Column("STATE", lambda row: "open" if row["open"] else "failed" if row["failed"] else "done"),
]


@command(app, "list", lists=0, watched=True)
def list_groups(
    session: Session,
    contains: Annotated[str, typer.Option("--contains", help="Group or topic contains this.")] = "",
    phase: Annotated[str, typer.Option("--phase", help="Only groups in this phase, such as Stable.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="Only groups that read this topic.")] = "",
    protocol: Annotated[str, typer.Option("--protocol", help="native or classic.")] = "",
    lag_over: Annotated[str, typer.Option("--lag-over", help="Only groups with at least this lag.")] = "",
) -> None:
    """List groups by name."""
    asked = {"q": contains, "phase": phase, "topic": topic, "protocol": protocol, "lag_over": lag_over}
    session.show(
        lambda: session.screen.rows(session.rest.rows("groups", session.most, **asked), _GROUPS, "group")
    )


@command(app, "show", watched=True)
def show(session: Session, group: Group) -> None:
    """Show a group: its state, its members, what it has read."""

    def page() -> None:
        body = session.rest.get(named("groups", group)).body
        if session.screen.one(body, _facts(body), body["group"]):
            session.screen.heading("Members")
            session.screen.table(body["members"], _MEMBERS)
            session.screen.heading("Offsets")
            session.screen.table(list(session.rest.rows("offsets", group=group)), OFFSETS)

    session.show(page)


@command(app, "members", lists=0, watched=True)
def members(session: Session, group: Group) -> None:
    """List the members of a group, and what each owns."""
    path = named("members", group)
    session.show(lambda: session.screen.rows(session.rest.rows(path, session.most), _MEMBERS, "member"))


@command(app, "offsets", lists=0, watched=True)
def offsets(
    session: Session,
    group: Group,
    topic: Annotated[str, typer.Option("--topic", help="Only of this topic.")] = "",
    partition: Annotated[
        int | None, typer.Option("--partition", help="Only this partition of --topic.")
    ] = None,
) -> None:
    """List what a group has committed, and its lag."""
    if partition is not None and not topic:
        raise usage("--partition names one of --topic.")

    def page() -> None:
        if partition is not None:
            rows = [session.rest.get(named("offsets", group, topic, partition)).body]
        else:
            rows = list(session.rest.rows("offsets", session.most, group=group, topic=topic))
            if not rows:
                _require(session, group, topic)
        session.screen.rows(rows, OFFSETS, name_of_partition(topic))

    session.show(page)


@command(app, "history", lists=50)
def history(session: Session, group: Group) -> None:
    """List the rebalances of a group, the latest first."""
    rows = session.rest.rows(named("rebalances", group), session.most)
    session.screen.rows(rows, _REBALANCES, "started")


group_actions.register(app)


def _require(session: Session, group: str, topic: str) -> None:
    """Raise Failure if there is no such group or topic: no lag is shown for a slip of the pen."""
    session.rest.get(named("groups", group))
    if topic:
        session.rest.get(named("topics", topic))


def lag_of(row: dict[str, Any]) -> str:
    """The lag that is known; a plus where of some partitions it is not."""
    if row["lag"] is None:
        return NOTHING
    return f"{row['lag']}{'+' if row['lag_unknown'] else ''}"


def owned(owns: list[dict[str, Any]]) -> str:
    """`orders:0-3 clicks:1` of the partitions that a member owns."""
    topics: dict[str, list[int]] = {}
    for one in owns:
        topics.setdefault(one["topic"], []).append(one["partition"])
    return " ".join(f"{topic}:{partitions(numbers)}" for topic, numbers in sorted(topics.items()))


def _facts(body: dict[str, Any]) -> list[tuple[str, object]]:
    waiting = body.get("waiting")
    facts = [
        ("group", body["group"]),
        ("phase", body["phase"]),
        ("protocol", " ".join(filter(None, (body["protocol"], body["protocol_type"])))),
        ("assignor", body["assignor"]),
        ("rebalance mode", body["rebalance_mode"]),
        ("generation", body["generation"]),
        ("members", body["member_count"]),
        ("changed", at(body["changed_at"])),
    ]
    if waiting:
        facts.append(("waits for", f"{waiting['missing']}: {', '.join(waiting['members'])}"))
    if body["error"]:
        facts.append(("error", body["error"]))
    return facts
