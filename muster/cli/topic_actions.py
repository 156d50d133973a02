"""This room creates topics, lets them grow and shrink, deletes them, and elects leaders of partitions."""

from typing import Annotated, Any

import typer

from muster.cli.asking import ask, follow, judged, tag_of, tell
from muster.cli.commands import command
from muster.cli.failures import usage
from muster.cli.rest import named
from muster.cli.session import Session
from muster.cli.typed import numbers, pairs, scope, whole

Topic = Annotated[str, typer.Argument(help="The topic's name.")]
Total = Annotated[int, typer.Argument(help="How many partitions it is to have in all.", parser=whole(1))]
Assign = Annotated[
    list[str],
    typer.Option(
        "--assign", help="Brokers of a partition as 1,2,3, its preferred leader first; once for each."
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to those of topics."""
    command(app, "create", asks=True, dry_run=True)(create)
    command(app, "delete", asks=True)(delete)
    command(app, "add-partitions", asks=True, dry_run=True)(add_partitions)
    command(app, "remove-partitions", asks=True, dry_run=True)(remove_partitions)
    command(app, "elect", asks=True)(elect)


def create(
    session: Session,
    topic: Topic,
    partitions: Annotated[int | None, typer.Option("-p", "--partitions", parser=whole(1))] = None,
    replicas: Annotated[int | None, typer.Option("-r", "--replicas", parser=whole(1))] = None,
    config: Annotated[list[str], typer.Option("-c", "--config", help="Such as retention.ms=86400000.")] = [],  # noqa: B006
    assign: Assign = [],  # noqa: B006
) -> None:
    """Create a topic; what is left out is the cluster's default. With --wait until its partitions are led."""
    stated: dict[str, Any] = {
        "partitions": partitions,
        "replication_factor": replicas,
        "configs": pairs(config),
        "assignments": _brokers(assign),
    }
    body = {name: value for name, value in stated.items() if value}
    body |= {"topic": topic, "reason": session.reason(), "validate_only": session.asking.dry_run}
    request = ask(session, "POST", "topics", body)
    if session.asking.wait and request["verdict"] == "done":
        _await_leaders(session, topic)
    tell(session, request)


def delete(session: Session, topic: Topic) -> None:
    """Delete a topic with all its records, and what groups have committed for it."""
    path = named("topics", topic)
    tag, reason = tag_of(session, path), session.reason()
    session.confirm(topic, f"All records of {topic} are lost.")
    tell(session, ask(session, "DELETE", path, tag=tag, reason=reason))


def add_partitions(session: Session, topic: Topic, total: Total, assign: Assign = []) -> None:  # noqa: B006
    """Give a topic more partitions; records with a key may go to another one from then on."""
    body: dict[str, Any] = {"partitions": total, "reason": session.reason()}
    body |= {"validate_only": session.asking.dry_run} | ({"assignments": _brokers(assign)} if assign else {})
    path = named("topics", topic, "partitions")
    request = ask(session, "POST", path, body, tag=tag_of(session, named("topics", topic)))
    if session.asking.wait and request["verdict"] == "done":
        _await_leaders(session, topic)
    tell(session, request)


def remove_partitions(
    session: Session,
    topic: Topic,
    total: Total,
    force: Annotated[bool, typer.Option("--force", help="Though groups have not read all of them.")] = False,
) -> None:
    """Remove the highest partitions of a topic, with their records."""
    body = {"partitions": total, "force": force, "reason": session.reason()}
    body |= {"validate_only": session.asking.dry_run}
    path, tag = named("topics", topic, "partitions", "removal"), tag_of(session, named("topics", topic))
    if not (session.asking.dry_run or session.asking.yes):
        what = f"All partitions of {topic} from {total} on are lost."
        session.require_somebody(what)
        judged(session, "POST", path, body, tag=tag, dry="validate_only")
        session.confirm(topic, what)
    tell(session, ask(session, "POST", path, body, tag=tag))


def elect(
    session: Session,
    topic: Annotated[
        list[str], typer.Option("--topic", help="Partitions as orders:0,2-5; a topic alone: all of it.")
    ] = [],  # noqa: B006
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Of all topics.")] = False,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Any live replica where nobody leads; records may be lost.")
    ] = False,
) -> None:
    """Elect the preferred leaders of partitions, or any live replica where nobody leads."""
    if bool(topic) == all_topics:
        raise usage("Say which: --topic orders, --topic orders:0,2-5, or --all-topics.")
    if unclean and all_topics:
        raise usage("Name the partitions: an unclean election may lose records.")
    body: dict[str, Any] = {"election": "unclean" if unclean else "preferred", "reason": session.reason()}
    if topic:
        body["topics"] = [scope(one) for one in topic]
    if unclean:
        session.confirm("unclean", "What only other replicas hold is lost.")
    tell(session, ask(session, "POST", "partitions", body))


def _brokers(said: list[str]) -> list[list[int]]:
    return [[number for part in one.split(",") for number in numbers(part)] for one in said]


def _await_leaders(session: Session, topic: str) -> None:
    def look() -> tuple[str, bool]:
        rows = list(session.rest.rows(named("topics", topic, "partitions")))
        led = sum(row["leader"] is not None for row in rows)
        return f"{led} of {len(rows)} partitions have a leader.", led == len(rows)

    follow(session, look, f"The election for {topic}", f"muster topics show {topic}")
