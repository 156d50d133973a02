"""This room shows configs of topics, brokers and the cluster, and changes them."""

from typing import Annotated, Any, Final

import typer

from muster.cli.asking import ask, tag_of, tell
from muster.cli.commands import command
from muster.cli.failures import ExitCode, Failure, usage
from muster.cli.rest import named
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.typed import pairs

app = typer.Typer(
    help="Configs of topics, brokers, the cluster.", no_args_is_help=True, rich_markup_mode=None
)
Topic = Annotated[str, typer.Option("--topic", help="Of this topic.")]
Broker = Annotated[int | None, typer.Option("--broker", help="Of this broker.")]
Cluster = Annotated[
    bool, typer.Option("--cluster", help="Of the cluster: what brokers have unless they say otherwise.")
]
_CONFIGS: Final = [
    Column("NAME", "name"),
    Column("VALUE", "value"),
    Column("FROM", "source"),
    Column("TAKES", "takes"),
]
_SET: Final = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG")


@command(app, "list")
def list_configs(
    session: Session,
    key: Annotated[str, typer.Argument(help="Only this one, with all that is said of it.")] = "",
    topic: Topic = "",
    broker: Broker = None,
    cluster: Cluster = False,
    everything: Annotated[bool, typer.Option("--all", help="Also what nobody set.")] = False,
) -> None:
    """List configs that somebody has set, where each comes from, and what it takes."""
    rows = session.rest.get(_path(topic, broker, cluster)).body["configs"]
    if key:
        found = next((row for row in rows if row["name"] == key), None)
        if found is None:
            raise Failure(ExitCode.NOT_FOUND, f"There is no config {key} here.", "`--all` lists them.")
        facts = [("name", key), ("value", found["value"]), ("takes", found["takes"])]
        facts += [("what", found["documentation"])]
        facts += [("said by", f"{one['source']} {one['name']}={one['value']}") for one in found["synonyms"]]
        session.screen.one(found, facts, found["value"])
        return
    rows = [row for row in rows if everything or row["source"] in _SET]
    session.screen.rows(rows, _CONFIGS, "name")


@command(app, "change", asks=True, dry_run=True)
def change(
    session: Session,
    topic: Topic = "",
    broker: Broker = None,
    cluster: Cluster = False,
    to: Annotated[list[str], typer.Option("-s", "--set", help="Such as retention.ms=86400000.")] = [],  # noqa: B006
    unset: Annotated[list[str], typer.Option("--unset", help="A key that is to have its default.")] = [],  # noqa: B006
    append: Annotated[list[str], typer.Option("--append", help="Words to add to a list, as key=a,b.")] = [],  # noqa: B006
    subtract: Annotated[list[str], typer.Option("--subtract", help="Words to take from it.")] = [],  # noqa: B006
) -> None:
    """Change configs: all that is said, or nothing."""
    stated = {"set": pairs(to), "unset": unset, "append": pairs(append), "subtract": pairs(subtract)}
    body: dict[str, Any] = {name: value for name, value in stated.items() if value}
    if not body:
        raise usage("Say what is to be another: --set, --unset, --append or --subtract.")
    body |= {"reason": session.reason(), "validate_only": session.asking.dry_run}
    path = _path(topic, broker, cluster)
    tell(session, ask(session, "PATCH", path, body, tag=tag_of(session, path)))


def _path(topic: str, broker: int | None, cluster: bool) -> str:
    if (topic != "") + (broker is not None) + cluster != 1:
        raise usage("Say whose: --topic NAME, --broker ID, or --cluster.")
    if topic:
        return named("topics", topic, "configs")
    return "cluster/configs" if cluster else named("brokers", broker, "configs")
