"""This room proposes plans, shows what they would move and cost, and carries them out."""

from typing import Annotated, Any, Final

import typer

from muster.cli.asking import ask, follow, tag_of, tell, version_of
from muster.cli.failures import ExitCode, Failure
from muster.cli.rest import named
from muster.cli.screen import Column, Output
from muster.cli.session import Session
from muster.cli.typed import size as typed_size
from muster.cli.words import NOTHING, at, shown, size
from muster.kernel.instants import spelled

Throttle = Annotated[
    str, typer.Option("--throttle", help="Bytes a second that a broker may send, and take, such as 50MB.")
]
OVER: Final = ("Done", "Cancelled", "Failed")
_STANDS: Final = (*OVER, "Paused")
_NOT_BEGUN: Final = {"Draft": "approve", "Approved": "run"}
"""Phases before a plan moves anything, and what is asked of it in each."""

STEPS: Final = [
    Column("STEP", "number", number=True),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("FROM", "origin"),
    Column("TO", "target"),
    Column("SIZE", lambda row: size(row["size_bytes"]), number=True),
    Column("STATE", "state"),
    Column("WHY", lambda row: _why(row)),
]
_BROKERS: Final = [
    Column("BROKER", "broker", number=True),
    Column("REPLICAS", lambda row: f"{row['before']} → {row['after']}"),
    Column("STANDS FIRST", lambda row: f"{row['first_before']} → {row['first_after']}"),
    Column("TAKES", lambda row: size(row["takes"]), number=True),
    Column("SENDS", lambda row: size(row["sends"]), number=True),
]
_BROKER_FIELDS: Final = ("broker", "before", "after", "first_before", "first_after", "takes", "sends")
_SHOWN_STEPS: Final = 20
_NEXT: Final = {
    "Computing": "A worker computes it. Then: muster plans show {plan}",
    "Draft": "Next: muster plans approve {plan}",
    "Approved": "Next: muster plans run {plan}",
}


def proposal(
    session: Session, wish: dict[str, Any], throttle: str, *, step: int = 0, is_first: bool = False
) -> str:
    """Propose it; the plan's id. `is_first`: of several changes of one command. Raises Failure."""
    body = wish | {"reason": session.reason()} | ({"throttle": typed_size(throttle)} if throttle else {})
    request = ask(session, "POST", "plans", body, step=step, is_first=is_first)
    if request["verdict"] != "done":
        tell(session, request)
    [plan] = [one["name"] for one in request["results"]]
    session.screen.note(f"Plan {plan} is proposed; nothing moves before it was approved and run.")
    return str(plan)


def show_plan(session: Session, plan_id: str, *, is_left_there: bool = True) -> None:
    """Write a plan: what it is, what it costs, its first steps; if it is left there, what to do next."""
    body = session.rest.get(named("plans", plan_id)).body
    cost, steps = body["cost"], body["steps"]
    facts = [
        ("plan", body["plan"]),
        ("kind", body["kind"]),
        ("phase", body["phase"]),
        ("why", body["reason"]),
        ("by", body["proposed_by"]),
        ("proposed", at(body["proposed_at"])),
        ("throttle", f"{size(body['throttle'])}/s" if body["throttle"] else "none"),
        ("steps", progress(body)),
    ]
    if body["changed_by"]:
        facts.append(("last change", f"{body['why'] or NOTHING} ({body['changed_by']})"))
    if cost:
        facts += [
            ("copies", f"{size(cost['bytes'])} to {cost['replicas_added']} new replicas"),
            ("leaders moved", cost["leaders_moved"]),
            ("takes", NOTHING if body["started_at"] else _takes(cost, body["throttle"])),
        ]
    if not session.screen.one(body, facts, body["plan"]):
        return
    if cost:
        session.screen.heading("Brokers")
        session.screen.table(
            [dict(zip(_BROKER_FIELDS, one, strict=False)) for one in cost["brokers"]], _BROKERS
        )
        for one in cost.get("left_out", ()):
            session.screen.line(f"left out, {one['why']}: {one['number']} ({shown(one['names'])})")
    # A web process of the version before does not tell it, here and below.
    if (stalled := body.get("stalled")) and stalled["moves"]:
        session.screen.line(_stalled(stalled))
    for one in body["too_slow"]:
        session.screen.line(_too_slow(one))
    if body["step_count"]:
        session.screen.heading("Steps")
        rows = list(session.rest.rows(named("plans", plan_id, "steps"), _SHOWN_STEPS))
        session.screen.table(rows, STEPS)
        if body["step_count"] > len(rows):
            session.screen.note(f"All {body['step_count']}: muster plans steps {body['plan']}")
    if steps["failed"]:
        session.screen.note(f"Those that failed: muster plans steps {body['plan']} --state Failed")
    if is_left_there and body["phase"] in _NEXT:
        session.screen.note(_NEXT[body["phase"]].format(plan=body["plan"]))


def _takes(cost: dict[str, Any], throttle: int) -> str:
    """How long the busiest broker has to copy, at the rate of now."""
    if not throttle or not cost.get("busiest_bytes"):
        return NOTHING
    return f"{spelled(cost['busiest_bytes'] / throttle)} at least, for broker {cost['busiest_broker']}"


def _stalled(told: dict[str, Any]) -> str:
    """Moves that cannot end before somebody comes back."""
    text = "1 move cannot finish" if told["moves"] == 1 else f"{shown(told['moves'])} moves cannot finish"
    text = f"{text} since {at(told['since'])}{_because(told['brokers'], told['leaderless'])}."
    if told["brokers"]:
        return f"{text} Start who is fenced, or move to others, or cancel."
    return f"{text} Bring back a broker that holds an in-sync replica."


def _because(brokers: list[int], leaderless: int | bool) -> str:
    """Whom moves wait for, as the end of a sentence."""
    causes = []
    if brokers:
        causes.append(f"{'broker' if len(brokers) == 1 else 'brokers'} {shown(brokers)} fenced")
    if leaderless:
        some = "no leader" if leaderless is True else f"{shown(leaderless)} without a leader"
        causes.append(f"{some} to copy from")
    return f": {', '.join(causes)}" if causes else ""


def _why(row: dict[str, Any]) -> str:
    """Why a step was skipped or ended early, or what its move waits for."""
    if row.get("waits_for") or row.get("leaderless"):
        return f"stands still since {at(row['stalled_since'])}{_because(row['waits_for'], row['leaderless'])}"
    if row.get("stalled_since"):
        return f"nothing comes since {at(row['stalled_since'])}"
    return shown(row["why"])


def _too_slow(one: dict[str, Any]) -> str:
    """Where a throttle lets less through than producers write."""
    text = f"Broker {one['broker']}: the throttle of {size(one['throttle'])}/s is not above the"
    what = "partition" if one["partitions"] == 1 else "partitions"
    text = f"{text} {size(one['produced'])}/s that producers write to {shown(one['partitions'])} {what}."
    return f"{text} {'The copy never ends.' if one['never'] else 'The copies fall behind.'} Give it more."


def progress(body: dict[str, Any]) -> str:
    """How far a plan is, in one line."""
    steps = body["steps"]
    over = steps["done"] + steps["skipped"] + steps["cancelled"] + steps["failed"]
    parts = [f"{over} of {body['step_count']}"]
    copied = body["progress"]
    if copied["to_copy_bytes"]:
        parts.append(f"{size(copied['copied_bytes'])} of {size(copied['to_copy_bytes'])} copied")
    if copied["stalled_since"]:
        parts.append(f"nothing comes since {at(copied['stalled_since'])}")
    elif copied["rate"]:
        parts.append(f"{size(copied['rate'])}/s, ends about {at(copied['ends_at'])}")
    if (stalled := body.get("stalled")) and stalled["moves"]:
        parts.append(f"{stalled['moves']} cannot finish")
    parts += [f"{steps[name]} {name}" for name in ("skipped", "cancelled", "failed") if steps[name]]
    return ", ".join(parts)


def change(session: Session, plan_id: str, kind: str, **more: Any) -> dict[str, Any]:
    """Approve, run, pause, cancel or throttle it, as it is now. Raises Failure."""
    path = named("plans", plan_id)
    body = {"kind": kind, "reason": session.reason()} | more
    return ask(session, "POST", path, body, tag=tag_of(session, path))


def await_computed(session: Session, plan_id: str) -> dict[str, Any]:
    """The plan when a worker has computed it. Raises Failure."""
    path, body = named("plans", plan_id), {}

    def look() -> tuple[str, bool]:
        nonlocal body
        body = session.rest.get(path).body
        return f"Plan {plan_id}: {body['phase']}.", body["phase"] != "Computing"

    follow(session, look, f"The computing of plan {plan_id}", f"muster plans show {plan_id}")
    if body["phase"] == "Failed":
        raise Failure(ExitCode.REFUSED, f"Plan {plan_id} failed: {body['why']}.")
    return body


def await_end(session: Session, plan_id: str) -> None:
    """Follow a running plan until it moves nothing any more. Raises Failure if it did not do all."""
    path, body = named("plans", plan_id), {}

    def look() -> tuple[str, bool]:
        nonlocal body
        body = session.rest.get(path).body
        return f"Plan {plan_id}: {body['phase']}, {progress(body)}.", body["phase"] in _STANDS

    follow(session, look, f"Plan {plan_id}", f"muster plans show {plan_id} --watch")
    steps = body["steps"]
    if body["phase"] != "Done" or steps["failed"] or steps["skipped"]:
        text = f"Plan {plan_id} is {body['phase']}: {progress(body)}."
        raise Failure(ExitCode.REFUSED, text, f"Look at it: muster plans show {plan_id}")


def carry_out(session: Session, plan_id: str, what: str, name: str, *, step: int) -> None:
    """Wait for the plan, show it, let `name` be typed, approve and run it, follow it to its end.

    A command that is repeated under its key goes on where the one before it ended.
    """
    body = await_computed(session, plan_id)
    if not body["step_count"]:
        session.screen.note("There is nothing to move.")
        return
    if not session.asking.yes and body["phase"] in _NOT_BEGUN:
        if session.screen.output is Output.TABLE:
            show_plan(session, plan_id, is_left_there=False)
        session.confirm(name, what)
    path = named("plans", plan_id)
    for number, (phase, kind) in enumerate(_NOT_BEGUN.items()):
        seen = session.rest.get(path)
        if seen.body["phase"] != phase:
            continue
        wish, tag = {"kind": kind, "reason": session.reason()}, version_of(session, seen, is_nameable=False)
        request = ask(session, "POST", path, wish, tag=tag, step=step + number)
        if request["verdict"] != "done":
            tell(session, request)
    await_end(session, plan_id)
