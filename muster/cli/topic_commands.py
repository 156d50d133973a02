"""This room shows topics and their partitions."""

from typing import Annotated, Final

import typer

from muster.cli import topic_actions
from muster.cli.commands import command
from muster.cli.failures import usage
from muster.cli.rest import named
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.words import at, name_of_partition, size

app = typer.Typer(help="Topics.", no_args_is_help=True, rich_markup_mode=None)
Topic = Annotated[str, typer.Argument(help="The topic's name.")]

_TOPICS: Final = [
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partitions", number=True),
    Column("REPLICAS", "replication_factor", number=True),
    Column("CONFIGS", "configs"),
    Column("CREATED", lambda row: at(row["created_at"])),
]
PARTITIONS: Final = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("LEADER", "leader", number=True),
    Column("REPLICAS", "replicas"),
    Column("IN SYNC", "isr"),
    Column("ADDING", "adding"),
    Column("REMOVING", "removing"),
    Column("OFFLINE", "offline_replicas"),
    Column("END", "high_watermark", number=True),
    Column("SIZE", lambda row: size(row.get("size_bytes"))),
]

_THEN: Final = [
    Column("PARTITION", "partition", number=True),
    Column("STATE", "state"),
    Column("SINCE", lambda row: at(row["since"])),
    Column("LEADER", "leader", number=True),
    Column("REPLICAS", "replicas"),
    Column("IN SYNC", "isr"),
    Column("EPOCH", "leader_epoch", number=True),
    Column("REMOVED", lambda row: at(row["removed_at"])),
]
_CHANGES: Final = [
    Column("AT", lambda row: at(row["at"])),
    Column("LEADER", "leader", number=True),
    Column("REPLICAS", "replicas"),
    Column("IN SYNC", "isr"),
    Column("EPOCH", "leader_epoch", number=True),
    Column("CAUSE", "cause"),
    Column("LOSS", "loss"),
]


@command(app, "list", lists=0)
def list_topics(
    session: Session,
    contains: Annotated[str, typer.Option("--contains", help="The name contains this.")] = "",
) -> None:
    """List topics by name."""
    session.screen.rows(session.rest.rows("topics", session.most, q=contains), _TOPICS, "topic")


@command(app, "show", watched=True)
def show(session: Session, topic: Topic) -> None:
    """Show a topic and its partitions."""

    def page() -> None:
        body = session.rest.get(named("topics", topic)).body
        facts = [
            ("topic", body["topic"]),
            ("id", body["topic_id"]),
            ("partitions", body["partitions"]),
            ("replicas", body["replication_factor"]),
            ("configs", body["configs"]),
            ("created", at(body["created_at"])),
        ]
        if session.screen.one(body, facts, body["topic"]):
            session.screen.heading("Partitions")
            rows = session.rest.rows(named("topics", topic, "partitions"))
            session.screen.table(list(rows), PARTITIONS[1:])

    session.show(page)


@command(app, "partitions", lists=0, watched=True)
def list_partitions(
    session: Session,
    topic: Annotated[str, typer.Option("--topic", help="Only of this topic.")] = "",
    state: Annotated[str, typer.Option("--state", help="offline or under-replicated.")] = "",
    leader: Annotated[str, typer.Option("--leader", help="Only those that this broker leads.")] = "",
    replica: Annotated[str, typer.Option("--replica", help="Only those that this broker holds.")] = "",
    partition: Annotated[int | None, typer.Option("--partition", help="Only this one of --topic.")] = None,
) -> None:
    """List partitions of all topics: leaders, replicas, who is in sync."""
    if partition is not None and (not topic or state or leader or replica):
        raise usage("--partition names one of --topic, and nothing else chooses beside it.")

    def page() -> None:
        if partition is not None:
            rows = [session.rest.get(named("partitions", topic, partition)).body]
        else:
            asked = {"topic": topic, "state": state, "leader": leader, "replica": replica}
            rows = list(session.rest.rows("partitions", session.most, **asked))
        # Within one topic a number is a name.
        session.screen.rows(rows, PARTITIONS, name_of_partition(topic))

    session.show(page)


@command(app, "as-of", lists=0)
def as_of(
    session: Session,
    topic: Topic,
    moment: Annotated[str, typer.Argument(help="Such as 2026-11-21T03:04:27Z; UTC without a zone.")],
) -> None:
    """Show who led and who was in sync at a moment, of a topic that is gone by now, too."""
    if not moment:
        raise usage("The moment is empty, and would stand for now.", "It looks like 2026-11-21T03:04:27Z.")
    rows = session.rest.rows(named("topics", topic, "history"), session.most, as_of=moment)
    session.screen.rows(rows, _THEN, "partition")


@command(app, "history", lists=25)
def history(
    session: Session,
    topic: Topic,
    partition: Annotated[int, typer.Argument(help="Its number.")],
) -> None:
    """List what became of a partition, newest first."""
    rows = session.rest.rows(named("partitions", topic, partition, "history"), session.most)
    session.screen.rows(rows, _CHANGES, "version")


topic_actions.register(app)
