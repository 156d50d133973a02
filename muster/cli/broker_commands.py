"""This room shows brokers, and lets them come, hand over and go."""

from typing import Annotated, Any, Final

import typer

from muster.cli.asking import ask, tag_of, tell
from muster.cli.commands import command
from muster.cli.failures import ExitCode, Failure, usage
from muster.cli.plans import Throttle, await_computed, carry_out, proposal, show_plan
from muster.cli.rest import named
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.typed import whole
from muster.cli.words import NOTHING, at, name_of_partition, size

app = typer.Typer(help="Brokers.", no_args_is_help=True, rich_markup_mode=None)
Broker = Annotated[int, typer.Argument(help="The broker's id.", parser=whole(1))]

_BROKERS: Final = [
    Column("BROKER", "broker_id", number=True),
    Column("STATE", "state"),
    Column("CORDONED", "cordoned"),
    Column("RACK", "rack"),
    Column("LEADERS", "leaders", number=True),
    Column("REPLICAS", "replicas", number=True),
    Column("OUT OF SYNC", "out_of_sync", number=True),
    Column("SIZE", lambda row: size(row.get("size_bytes"))),
    Column("CLIENTS", lambda row: row["endpoints"].get("client")),
    Column("CHANGED", lambda row: at(row["changed_at"])),
]
_LOGS: Final = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("BROKER", "broker_id", number=True),
    Column("STATE", "state"),
    Column("SINCE", lambda row: at(row["since"])),
    Column("WHY", "why"),
]
_THROTTLED: Final = [
    Column("USER", "user"),
    Column("CLIENT", "client_id"),
    Column("QUOTA", "quota"),
    Column("RATE", lambda row: f"{size(row['rate'])}/s"),
    Column("WAITS MS", "wait_ms", number=True),
    Column("SINCE", lambda row: at(row["since"])),
]


@command(app, "list", lists=0, watched=True)
def list_brokers(
    session: Session,
    state: Annotated[str, typer.Option("--state", help="live, fenced or never-connected.")] = "",
) -> None:
    """List brokers, and what they lead and hold."""
    session.show(
        lambda: session.screen.rows(
            session.rest.rows("brokers", session.most, state=state), _BROKERS, "broker_id"
        )
    )


@command(app, "show", watched=True)
def show(session: Session, broker: Broker) -> None:
    """Show a broker: its state, its disk, its logs in trouble, clients that its quotas make wait."""

    def page() -> None:
        body = session.rest.get(named("brokers", broker)).body
        condition = session.rest.found(named("brokers", broker, "condition"))
        how = condition.body if condition else {}
        disk = how.get("disk") or {}
        room = f"{size(disk['usable_bytes'])} of {size(disk['total_bytes'])}" if disk else NOTHING
        facts = [
            ("broker", body["broker_id"]),
            ("state", body["state"]),
            ("cordoned", body["cordoned"]),
            ("rack", body["rack"]),
            ("endpoints", body["endpoints"]),
            ("room on disk", room),
            ("logs offline", how.get("logs_offline")),
            ("logs damaged", how.get("logs_damaged")),
            ("version", how.get("program")),
            ("changed", at(body["changed_at"])),
        ]
        if session.screen.one(body | {"condition": how or None}, facts, body["broker_id"]):
            if disk.get("short_since"):
                session.screen.line(f"It takes no records since {at(disk['short_since'])}: its disk is full.")
            if how.get("throttled"):
                session.screen.heading("Made to wait")
                session.screen.table(how["throttled"], _THROTTLED)

    session.show(page)


@command(app, "logs", lists=0, watched=True)
def logs(
    session: Session,
    broker: Annotated[str, typer.Option("--broker", help="Only on this broker.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="Only of this topic.")] = "",
    state: Annotated[str, typer.Option("--state", help="offline, damaged or mended.")] = "",
) -> None:
    """List logs in trouble."""
    asked = {"broker": broker, "topic": topic, "state": state}
    session.show(
        lambda: session.screen.rows(
            session.rest.rows("logs", session.most, **asked),
            _LOGS,
            name_of_partition(topic),
        )
    )


@command(app, "cordon", asks=True)
def cordon(session: Session, broker: Broker) -> None:
    """Let a broker get nothing new; what it has it keeps."""
    tell(session, _wished(session, broker, "cordon"))


@command(app, "uncordon", asks=True)
def uncordon(session: Session, broker: Broker) -> None:
    """Let a broker get replicas again."""
    tell(session, _wished(session, broker, "uncordon"))


@command(app, "remove", asks=True)
def remove(session: Session, broker: Broker) -> None:
    """Take a broker that stopped and holds nothing out of the cluster for good."""
    path = named("brokers", broker)
    tag, reason = tag_of(session, path), session.reason()
    session.confirm(str(broker), f"The secret of broker {broker} opens nothing from then on.")
    tell(session, ask(session, "DELETE", path, tag=tag, reason=reason))


@command(app, "drain", asks=True)
def drain(session: Session, broker: Broker, throttle: Throttle = "") -> None:
    """Propose a plan that moves everything off a broker. With --yes it is approved and run at once."""
    _planned(session, broker, "drain", throttle)


@command(app, "fill", asks=True)
def fill(session: Session, broker: Broker, throttle: Throttle = "") -> None:
    """Propose a plan that gives a broker as much as the others have. With --yes it is run at once."""
    _planned(session, broker, "fill", throttle)


@command(app, "decommission", asks=True)
def decommission(session: Session, broker: Broker, throttle: Throttle = "") -> None:
    """Cordon a broker, drain it, and take it out once it stopped; may be repeated until it is gone."""
    _require_no_version(session)
    path = named("brokers", broker)
    body, reason = session.rest.get(path).body, session.reason()
    if not session.asking.yes and (body["state"] != "live" or _holds(session, broker)):
        # Before anything is changed: what follows asks whether that is meant.
        session.require_somebody(f"Broker {broker} is taken out of the cluster.")
    if not body["cordoned"]:
        request = _wished(session, broker, "cordon", step=1)
        if request["verdict"] != "done":
            tell(session, request)
        session.screen.note(
            f"Broker {broker} is cordoned: it gets nothing new. Back: muster brokers uncordon {broker}"
        )
    if _holds(session, broker):
        plan = proposal(session, {"kind": "drain", "brokers": [broker]}, throttle, step=2)
        carry_out(session, plan, f"Everything that broker {broker} holds is moved.", str(broker), step=3)
        _require_empty(session, broker, plan)
    left = session.rest.get(path).body
    if left["state"] == "live":
        to_do = f"Broker {broker} holds nothing. Stop its process (SIGTERM), then:"
        to_do = f"{to_do} muster brokers remove {broker}"
        if session.screen.one(left, [], broker):
            session.screen.line(to_do)
        else:
            session.screen.note(to_do)
        return
    session.confirm(str(broker), f"The secret of broker {broker} opens nothing from then on.")
    tag = tag_of(session, path, is_nameable=False)
    tell(session, ask(session, "DELETE", path, tag=tag, reason=reason, step=5))


def _holds(session: Session, broker: int) -> bool:
    """Whether any replica is assigned to the broker. Raises Failure."""
    return next(session.rest.rows("partitions", 1, replica=broker), None) is not None


def _require_empty(session: Session, broker: int, plan: str) -> None:
    """Raise Failure if a plan left something on the broker."""
    left = [f"{one['topic']}-{one['partition']}" for one in session.rest.rows("partitions", replica=broker)]
    if left:
        count = f"{len(left)} partition{'s' if len(left) > 1 else ''}"
        advice = f"Why: muster plans show {plan}. A topic needs as many other brokers as it has replicas."
        raise Failure(
            ExitCode.CONFLICT, f"Broker {broker} still holds {count}: {', '.join(left[:10])}.", advice
        )


def _require_no_version(session: Session) -> None:
    """Raise Failure if a version is named to a command that asks for several changes."""
    if session.asking.if_match:
        raise usage(
            "Several changes are asked for, each on the version that the one before it made.",
            "Leave --if-match out.",
        )


def _planned(session: Session, broker: int, kind: str, throttle: str) -> None:
    _require_no_version(session)
    if session.rest.found(named("brokers", broker)) is None:
        raise Failure(ExitCode.NOT_FOUND, f"There is no broker {broker}.")
    plan = proposal(session, {"kind": kind, "brokers": [broker]}, throttle, is_first=session.asking.yes)
    if session.asking.yes:
        carry_out(session, plan, "", str(broker), step=1)
    elif session.asking.wait:
        await_computed(session, plan)
    show_plan(session, plan)


def _wished(session: Session, broker: int, kind: str, *, step: int = 0) -> dict[str, Any]:
    path = named("brokers", broker)
    body = {"kind": kind, "reason": session.reason()}
    return ask(session, "POST", path, body, tag=tag_of(session, path, is_nameable=not step), step=step)
