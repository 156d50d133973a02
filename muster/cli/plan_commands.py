"""This room is everything about plans: propose, review, approve, run, steer, undo."""

from typing import Annotated, Any, Final

import typer

from muster.cli.asking import tell
from muster.cli.commands import command
from muster.cli.plans import (
    STEPS,
    Throttle,
    await_computed,
    await_end,
    change,
    proposal,
    show_plan,
)
from muster.cli.rest import named
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.typed import numbers, reassignment, whole
from muster.cli.typed import size as typed_size
from muster.cli.words import at, size

app = typer.Typer(help="Plans that move partitions.", no_args_is_help=True, rich_markup_mode=None)
Plan = Annotated[str, typer.Argument(help="The plan's id.")]
_PLANS: Final = [
    Column("PLAN", "plan"),
    Column("KIND", "kind"),
    Column("PHASE", "phase"),
    Column("STEPS", "step_count", number=True),
    Column("THROTTLE", lambda row: f"{size(row['throttle'])}/s" if row["throttle"] else "none"),
    Column("BY", "proposed_by"),
    Column("WHY", "reason"),
    Column("PROPOSED", lambda row: at(row["proposed_at"])),
]


@command(app, "list", lists=50, watched=True)
def list_plans(
    session: Session,
    phase: Annotated[str, typer.Option("--phase", help="Only those in this phase, such as Running.")] = "",
    kind: Annotated[str, typer.Option("--kind", help="Only those of this kind, such as drain.")] = "",
) -> None:
    """List plans, the latest first."""
    session.show(
        lambda: session.screen.rows(
            session.rest.rows("plans", session.most, phase=phase, kind=kind), _PLANS, "plan"
        )
    )


@command(app, "show", watched=True)
def show(session: Session, plan: Plan) -> None:
    """Show a plan: what it moves, what that costs, how far it is."""
    session.show(lambda: show_plan(session, plan))


@command(app, "steps", lists=0)
def steps(
    session: Session,
    plan: Plan,
    state: Annotated[str, typer.Option("--state", help="Only those in this state, such as Failed.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="Only of this topic.")] = "",
) -> None:
    """List the steps of a plan: its diff, and what became of each."""
    rows = session.rest.rows(named("plans", plan, "steps"), session.most, state=state, topic=topic)
    session.screen.rows(rows, STEPS, "number")


@command(app, "propose", asks=True)
def propose(
    session: Session,
    kind: Annotated[str, typer.Argument(help="spread, drain, fill, replication-factor, racks or explicit.")],
    broker: Annotated[str, typer.Option("--broker", help="Whom to drain or fill, as 3 or 3,4.")] = "",
    topic: Annotated[list[str], typer.Option("--topic", help="Only these topics; again for more.")] = [],  # noqa: B006
    replicas: Annotated[int | None, typer.Option("--replicas", help="The replication factor.")] = None,
    file: Annotated[
        str, typer.Option("--file", help="For explicit: a file of kafka-reassign-partitions.")
    ] = "",
    throttle: Throttle = "",
    at_a_time: Annotated[int | None, typer.Option(help="So many moves at a time.", parser=whole(1))] = None,
) -> None:
    """Propose a plan; a worker computes it. With --wait until that is done."""
    stated: dict[str, Any] = {
        "brokers": numbers(broker) if broker else [],
        "topics": topic,
        "replication_factor": replicas,
        "partitions": reassignment(file) if file else [],
        "at_a_time": at_a_time,
    }
    wish = {"kind": kind} | {name: value for name, value in stated.items() if value}
    _shown(session, proposal(session, wish, throttle))


@command(app, "undo", asks=True)
def undo(session: Session, plan: Plan, throttle: Throttle = "") -> None:
    """Propose a plan that takes back what another one did."""
    _shown(session, proposal(session, {"kind": "undo", "undoes": plan}, throttle))


@command(app, "approve", asks=True)
def approve(session: Session, plan: Plan) -> None:
    """Say that a plan was reviewed and may run."""
    tell(session, change(session, plan, "approve"))


@command(app, "run", asks=True)
def run(session: Session, plan: Plan) -> None:
    """Begin a plan that was approved, or go on after a pause. With --wait to its end."""
    request = change(session, plan, "run")
    tell(session, request)
    if session.asking.wait:
        await_end(session, plan)


@command(app, "pause", asks=True)
def pause(session: Session, plan: Plan) -> None:
    """Ask for no more moves; those that are active go on."""
    tell(session, change(session, plan, "pause"))


@command(app, "cancel", asks=True)
def cancel(
    session: Session,
    plan: Plan,
    moves: Annotated[bool, typer.Option("--moves", help="Active moves as well; they go back.")] = False,
) -> None:
    """End a plan."""
    tell(session, change(session, plan, "cancel", moves=moves))


@command(app, "throttle", asks=True)
def throttle(
    session: Session,
    plan: Plan,
    rate: Annotated[str, typer.Argument(help="Bytes a second, such as 50MB; none: as fast as it goes.")],
) -> None:
    """Give a plan another rate, for its active moves at once."""
    tell(session, change(session, plan, "throttle", throttle=0 if rate == "none" else typed_size(rate)))


def _shown(session: Session, plan: str) -> None:
    if session.asking.wait:
        await_computed(session, plan)
    show_plan(session, plan)
