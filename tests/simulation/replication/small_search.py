"""This room searches small worlds of moves whole, breadth first, and ends many states with a fair run.

python -m tests.simulation.replication.small_search [--large]: each world, how large it was, how long it took.
"""

import argparse
import os
import sys
import time
from collections import deque
from typing import NamedTuple

from muster.kernel.invariants import InvariantViolation
from tests.simulation.replication.small_states import Action, State
from tests.simulation.replication.small_world import SmallWorld
from tests.simulation.replication.wishes import Broken

FAIR_RUN_EACH = 50
"""One fair run for so many states, in turn with all machines revived and with only those that live."""
FAIR_ORDER = (
    "start",
    "expire",
    "read",
    "hello",
    "heed",
    "slot",
    "receive",
    "fetch",
    "grow",
    "shrink",
    "append",
)
NOTICED = (Broken, InvariantViolation, AssertionError, LookupError)
"""What a rule that is missing raises: the world's own checks, and those of the cores."""


class Found(NamedTuple):
    """What a search broke ("" if nothing), the steps that lead there, and how much was searched."""

    violation: str
    path: tuple[Action, ...]
    states: int
    steps: int
    fair_runs: int


def search(world: SmallWorld, most: int = 10_000_000) -> Found:
    """Every state that `world` can reach, the nearest first; raises MemoryError above `most` of them."""
    first = world.begin()
    came: dict[State, tuple[State, Action] | None] = {first: None}
    waiting = deque([first])
    steps = runs = 0
    while waiting:
        state = waiting.popleft()
        for action in world.actions(state):
            steps += 1
            try:
                after = world.do(state, action)
            except NOTICED as broken:
                return Found(repr(broken), (*_path(came, state), action), len(came), steps, runs)
            if after in came:
                continue
            came[after] = (state, action)
            waiting.append(after)
            if len(came) > most:
                raise MemoryError(f"more than {most} states")
            if len(came) % FAIR_RUN_EACH == 0:
                runs += 1
                text = settle(world, after, revive=runs % 2 == 0)
                if text:
                    return Found(f"after a fair run: {text}", _path(came, after), len(came), steps, runs)
    return Found("", (), len(came), steps, runs)


def _path(came: dict[State, tuple[State, Action] | None], state: State) -> tuple[Action, ...]:
    path: list[Action] = []
    while (before := came[state]) is not None:
        state, action = before
        path.append(action)
    return tuple(reversed(path))


# ---------------------------------------------------------------------------------- fair runs


def settle(world: SmallWorld, state: State, revive: bool) -> str:
    """Go on without faults until nothing changes; what is not settled then."""
    values, world.values = world.values, world.values + 1
    try:
        for _ in range(200):
            after = _next(world, state, revive)
            if after is None:
                return _unsettled(world, state)
            state = after
        return "never comes to rest"
    except NOTICED as broken:
        return repr(broken)
    finally:
        world.values = values


def _next(world: SmallWorld, state: State, revive: bool) -> State | None:
    up = {b for b in range(1, world.brokers + 1) if world.machine(state, b).up}
    possible = [a for a in (*world.actions(state), *_shrinks(world, state, up)) if a[0] in FAIR_ORDER]
    for action in sorted(possible, key=lambda one: FAIR_ORDER.index(str(one[0]))):
        match action:
            case ("start", _):
                is_fair = revive
            case ("expire", int(b)):
                is_fair = world.may_expire(state, b)
            case ("fetch", _, _, fate):
                is_fair = fate == "now"
            case ("shrink", _):
                is_fair = not set(world.control(state).row.isr) <= up
            case _:
                is_fair = True
        if is_fair and (after := world.do(state, action)) != state:
            return after
    return None


def _shrinks(world: SmallWorld, state: State, up: set[int]) -> list[Action]:
    """Whoever leads drops who is dead and lags, whatever is left of the budget."""
    found: list[Action] = []
    for b in up:
        machine = world.machine(state, b)
        hosted = machine.hosted
        leads = hosted is not None and hosted.row.leader == b and hosted.pending is None
        if leads and machine.linked and machine.ready:
            found.append(("shrink", b))
    return found


def _unsettled(world: SmallWorld, state: State) -> str:
    control = world.control(state)
    row, move = control.row, control.move
    machines = {b: world.machine(state, b) for b in range(1, world.brokers + 1)}
    up = {b for b, machine in machines.items() if machine.up}
    if row.leader not in up:
        return "no leader" if up & set(row.isr) else ""
    leader = machines[row.leader].hosted
    if leader is None or leader.row != row:
        return "the leader does not know it"
    if leader.pending is not None:
        return "a proposal is pending for ever"
    if not set(row.assigned) & up <= set(row.isr):
        return "a live replica stays out of the ISR"
    log = machines[row.leader].log
    if set(row.isr) <= up and len(row.isr) >= min(world.min_insync, row.settled_count):
        if leader.high_watermark != len(log):
            return "the high watermark stands still"
        if any(machines[b].log != log for b in row.isr):
            return "replicas differ at rest"
    if any(machines[b].log for b in up - set(row.assigned)):
        return "a log that was set aside is still there"
    if move is None:
        return ""
    if set(move.target) <= up:
        return "the reassignment does not end"
    kept = set(move.target) & set(row.isr)
    enough = len(kept) >= min(world.min_insync, len(move.target)) and kept & up
    if enough and set(row.adding) <= set(row.isr):
        return "a replica that is kept and dead blocks the reassignment"
    return ""


# ---------------------------------------------------------------------------------- the worlds

ALONE, PAIR = (1,), (1, 2)


def bounded_worlds() -> dict[str, SmallWorld]:
    """Those that `make test` searches; fresh ones, that know nothing yet."""
    return {
        "cancelled": SmallWorld(PAIR, ((1, 3),), {"ask": 1, "cancel": 1}),
        "replaced by another": SmallWorld(PAIR, ((1, 3), (3, 2)), {"ask": 2}),
        "there and back": SmallWorld(PAIR, ((1, 3), PAIR), {"ask": 2}),
        "taken over": SmallWorld(PAIR, ((3, 2),), {"ask": 1, "takeover": 1}),
        "an answer comes late": SmallWorld(PAIR, ((3, 2),), {"ask": 1, "slow": 1}),
        "a link breaks": SmallWorld(PAIR, ((1, 3),), {"ask": 1, "break": 1}),
        "from one to two": SmallWorld(ALONE, (PAIR,), {"ask": 1, "kill": 1}, brokers=2, min_insync=2),
        "from one to another": SmallWorld(ALONE, ((2,),), {"ask": 1, "kill": 1}, brokers=2),
        "somebody dies": SmallWorld(PAIR, ((2, 3),), {"ask": 1, "kill": 1}, values=0),
        "the old one dies, and it is cancelled": SmallWorld(
            ALONE, ((2, 3),), {"ask": 1, "kill": 1, "cancel": 1}, values=0, mortal=(1,)
        ),
    }


def large_worlds() -> dict[str, SmallWorld]:
    """Minutes and gigabytes."""
    return {
        "somebody dies": SmallWorld(PAIR, ((2, 3),), {"ask": 1, "kill": 1}),
        "one falls behind": SmallWorld(PAIR, ((1, 3),), {"ask": 1, "shrink": 1}),
        "a machine crashes": SmallWorld(PAIR, ((2, 3),), {"ask": 1, "power": 1}, min_insync=2),
        "replaced or cancelled": SmallWorld(PAIR, ((1, 3), (3, 2)), {"ask": 2, "cancel": 1}),
        "taken over and cancelled": SmallWorld(PAIR, ((3, 2),), {"ask": 1, "takeover": 1, "cancel": 1}),
        "a session ends too early": SmallWorld(PAIR, ((1, 3),), {"ask": 1, "expire": 1, "break": 1}),
        "out, back, and dead": SmallWorld(ALONE, ((2,), PAIR), {"ask": 2, "kill": 1, "cancel": 1}, brokers=2),
        "taken over while somebody dies": SmallWorld(PAIR, ((2, 3),), {"ask": 1, "kill": 1, "takeover": 1}),
        "two records": SmallWorld(PAIR, ((3, 2),), {"ask": 1, "cancel": 1}, values=2),
        "replaced while one falls behind": SmallWorld(PAIR, ((1, 3), (3, 2)), {"ask": 2, "shrink": 1}),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replication.small_search")
    parser.add_argument("--large", action="store_true", help="worlds with more faults: minutes, gigabytes")
    asked = parser.parse_args(arguments)
    failed = 0
    worlds = large_worlds() if asked.large else bounded_worlds()
    for name, world in worlds.items():
        started = time.monotonic()
        found = search(world)
        took = time.monotonic() - started
        print(
            f"{name}: {found.states} states, {found.steps} steps, {found.fair_runs} fair runs, {took:.1f} s",
            flush=True,
        )
        if found.violation:
            failed += 1
            print(f"  {found.violation}")
            for action in found.path:
                print(f"    {action}")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.exit(main(sys.argv[1:]))
