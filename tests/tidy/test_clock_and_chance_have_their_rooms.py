"""Time, identifiers and chance are arguments (law 4): only the rooms named here read a clock or roll dice."""

import ast

from tests.tidy.sources import calls, dotted, modules, shown, spelled, tree

CLOCKS = {
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
    "time.perf_counter_ns", "monotonic", "monotonic_ns", "perf_counter",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now",
    "timezone.now", "uuid.uuid4", "uuid4", "uuid.uuid1", "os.urandom", "urandom",
}  # fmt: skip
CHANCE = ("random.", "secrets.")
# Shells: they talk to the world, and hand what they read there to the cores.
SHELLS = (
    "runtime", "node", "web", "standalone", "access", "broker", "kafkaserver", "pipeline", "coordinator",
    "groups", "controller", "gateway", "muster.client", "muster.cli", "config",
)  # fmt: skip
# Inside a shell, a core is still a core; and these rooms get time handed in.
WITHOUT_A_CLOCK = (
    "runtime.journal", "runtime.models", "groups.models", "controller.models",
    "coordinator.store", "controller.store", "groups.queries", "controller.queries", "controller.catalog",
    "gateway.translation",
)  # fmt: skip

CALENDARS = {name for name in CLOCKS if name.startswith(("time.time", "date", "timezone."))}
# Of what decides about groups and replicas; pages and REST (`_page`, `_api`) show people how long ago.
WITHOUT_A_CALENDAR = (
    "runtime", "node", "broker", "kafkaserver", "coordinator", "groups", "gateway", "controller",
    "muster.client",
)  # fmt: skip
SAYS_A_DAY = {
    "runtime.database_clock.now",  # until it has heard the database's
    "broker.process.wall_clock_ms",  # records and segments are kept for days
    "kafkaserver.tls._end",  # and certificates; it is only told
}


def _may_read_the_clock(name: str) -> bool:
    if ".core" in name or name.startswith(WITHOUT_A_CLOCK):
        return False
    return name.startswith(SHELLS)


def test_only_shells_read_clocks_or_roll_dice() -> None:
    found = []
    for path in modules():
        if _may_read_the_clock(dotted(path)):
            continue
        for call in calls(tree(path)):
            name = spelled(call.func)
            if name in CLOCKS or name.startswith(CHANCE):
                found.append(f"{shown(path)}:{call.lineno} {name}")
    assert found == []


def test_durations_are_not_measured_with_the_wall_clock() -> None:
    """A wall clock jumps: it is for people and for records' time stamps, never compared or subtracted."""
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.BinOp | ast.Compare)
        and any(
            isinstance(side, ast.Call) and spelled(side.func) == "time.time"
            for side in (
                [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
            )
        )
        and not isinstance(getattr(node, "op", None), ast.Mult)
    ]
    assert found == []


def test_nothing_that_is_decided_asks_what_day_it_is() -> None:
    """Whoever sets a machine's clock ends no session, takes no lease and frees nobody's partitions."""
    found = {
        f"{dotted(path)}.{function.name}"
        for path in modules()
        if dotted(path).startswith(WITHOUT_A_CALENDAR)
        and not dotted(path).endswith(("_page", "_api", ".api"))
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in calls(function)
        if spelled(call.func) in CALENDARS
    }
    assert found == SAYS_A_DAY
