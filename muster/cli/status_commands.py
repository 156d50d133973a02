"""This room says how the cluster is as a whole: in one look, and as an exit code for a watchman."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from muster.cli.commands import command
from muster.cli.failures import ExitCode, Failure
from muster.cli.screen import Column
from muster.cli.session import Session
from muster.cli.words import at, shown

_FINDINGS: Final = [Column("WHAT", "what"), Column("WHICH", "which"), Column("DETAIL", "detail")]
_PROCESSES: Final = [
    Column("KIND", "kind"),
    Column("NAME", "name"),
    Column("PROCESSES", "number", number=True),
    Column("VERSION", "version"),
    Column("STATE", "state"),
    Column("SINCE", lambda row: at(row["since"])),
]
_IN_DETAIL: Final = (
    "broker_fenced",
    "logs_damaged",
    "logs_offline",
    "partitions_offline",
    "partitions_one_copy",
    "records_lost",
)
"""Kinds of findings of which each broker, partition or log has a row of its own here."""

_MOST: Final = 500
"""Findings of one kind; whoever has more has one problem, not so many."""

_NEVER_CAME: Final = "never-connected"


def register(app: typer.Typer) -> None:
    """Add these commands at the top."""
    command(app, "status", watched=True)(status)
    command(app, "health", watched=True)(health)
    command(app, "processes", lists=0, watched=True)(processes)


def status(session: Session) -> None:
    """Show the cluster: brokers, partitions in trouble, moves, plans, groups that wait."""

    def page() -> None:
        brokers = list(session.rest.rows("brokers"))
        findings = list(_findings(session, brokers))
        states = [one["state"] for one in brokers]
        body = {
            "url": session.place.url,
            "brokers": {state: states.count(state) for state in sorted(set(states))},
            "cordoned": [one["broker_id"] for one in brokers if one["cordoned"]],
            "moves": _count(session, "reassignments", phase="InProgress"),
            "plans_running": _count(session, "plans", phase="Running"),
            "findings": findings,
        }
        facts = [
            ("cluster", body["url"]),
            ("brokers", body["brokers"]),
            ("cordoned", body["cordoned"]),
            ("moves", body["moves"]),
            ("running plans", body["plans_running"]),
            ("findings", len(findings)),
        ]
        if session.screen.one(body, facts, body["url"]) and findings:
            session.screen.heading("Findings")
            session.screen.table(findings, _FINDINGS)

    session.show(page)


def health(session: Session) -> None:
    """Say what is wrong, and end with 1 if anything is."""
    found: list[dict[str, Any]] = []

    def page() -> None:
        brokers = list(session.rest.rows("brokers"))
        found[:] = _findings(session, brokers)
        session.screen.rows(found, _FINDINGS, "which")
        expected = [str(one["broker_id"]) for one in brokers if one["state"] == _NEVER_CAME]
        if expected:
            session.screen.note(f"Enrolled, and never came yet: broker {', '.join(expected)}.")

    session.show(page)
    if found:
        raise Failure(ExitCode.REFUSED, "1 finding." if len(found) == 1 else f"{len(found)} findings.")


def processes(
    session: Session,
    kind: Annotated[str, typer.Option("--kind", help="node, broker, web or worker.")] = "",
) -> None:
    """List processes, and which version each of them runs."""
    session.show(
        lambda: session.screen.rows(
            session.rest.rows("processes", session.most, kind=kind), _PROCESSES, "name"
        )
    )


def _findings(session: Session, brokers: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    rest = session.rest
    # Who is enrolled may come, and is missed by nobody but a cluster that has no broker yet.
    well = {"live", _NEVER_CAME} if any(one["state"] == "live" for one in brokers) else {"live"}
    for one in brokers:
        if one["state"] not in well:
            yield _finding(f"broker {one['state']}", one["broker_id"], f"since {at(one['changed_at'])}")
    for state, what in (("offline", "partition without a leader"), ("under-replicated", "under-replicated")):
        for one in rest.rows("partitions", _MOST, state=state):
            lagging = one.get("lagging_replicas", ())
            in_sync = [broker for broker in one["isr"] if broker not in lagging]
            replicas = f"replicas {one['replicas']}, in sync {in_sync}"
            yield _finding(what, f"{one['topic']}-{one['partition']}", replicas)
    # Those that are mended need nobody any more.
    for state in ("offline", "damaged"):
        for one in rest.rows("logs", _MOST, state=state):
            where = f"{one['topic']}-{one['partition']} on broker {one['broker_id']}"
            yield _finding(f"log {state}", where, one["why"])
    for one in rest.rows("losses", _MOST, state="open"):
        lost = "an unknown number of" if one["lost"] is None else one["lost"]
        yield _finding(
            "records lost", f"{one['topic']}-{one['partition']}", f"{lost} records; {one['reason']}"
        )
    # A token that names bound is told of no findings, and of its groups all the same.
    unsettled = set()
    for phase in ("PreparingRebalance", "CompletingRebalance"):
        for one in rest.rows("groups", _MOST, phase=phase):
            if one["error"]:
                unsettled.add(one["group"])
                yield _finding("group cannot rebalance", one["group"], one["error"])
    for one in rest.rows("findings", _MOST):
        if one["kind"] == "group_error":
            if not unsettled.issuperset(one["groups"]):
                yield _finding("group error", shown(one["groups"]), one["because"])
        elif one["kind"] not in _IN_DETAIL:
            yield _finding(one["kind"].replace("_", " "), one["what"], f"{one['means']} {one['may']}")


def _finding(what: str, which: object, detail: str) -> dict[str, Any]:
    return {"what": what, "which": which, "detail": detail}


def _count(session: Session, path: str, **asked: str) -> int | None:
    """How many rows there are; None: the token may not know."""
    try:
        return sum(1 for _ in session.rest.rows(path, **asked))
    except Failure as failure:
        if failure.code is ExitCode.NOT_ALLOWED:
            return None
        raise
