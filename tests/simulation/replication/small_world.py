"""This room is a small world of one partition that moves, to be searched whole (replication.md section 2).

The rules are the product's: each turn is `controller.core.turn.decide`, each broker a `Replica`. What is here
is only what lies between them: logs of a record or two, links that keep their order, and fate, as long as its
budget lasts. A state is a tuple of small numbers that stand for what was met before, so that each question to
a core is asked once, however many states it is asked in.
"""

from collections.abc import Iterator
from typing import Any

from controller.core.records import Phase
from muster.messages.link.rows import NO_LEADER, PartitionRow
from tests.simulation.replication.broker_process import ALWAYS_LAGS, NEVER_LAGS
from tests.simulation.replication.small_brokers import SmallBrokers
from tests.simulation.replication.small_states import TOPIC, Action, Control, Hosted, Machine, Record, State
from tests.simulation.replication.wishes import Broken


class SmallWorld(SmallBrokers):
    """One partition and its brokers; `targets` are where it may be asked to go, `mortal` who may die."""

    def __init__(
        self,
        assigned: tuple[int, ...],
        targets: tuple[tuple[int, ...], ...],
        budget: dict[str, int],
        brokers: int = 3,
        min_insync: int = 1,
        values: int = 1,
        mortal: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        super().__init__(brokers, min_insync)
        self.assigned = assigned
        self.targets = targets
        self.budget = budget
        self.values = values
        self.mortal = mortal
        self.names = tuple(budget)

    def control(self, state: State) -> Control:
        found: Control = self.things[state[0]]
        return found

    def machine(self, state: State, b: int) -> Machine:
        found: Machine = self.things[state[2 + b]]
        return found

    def committed(self, state: State) -> tuple[Record, ...]:
        found: tuple[Record, ...] = self.things[state[1]]
        return found

    def left(self, state: State, fault: str) -> int:
        return int(self.things[state[2]][self.names.index(fault)]) if fault in self.names else 0

    def begin(self) -> State:
        """Everybody is linked and knows the row; the first of the assignment leads, nothing is stored."""
        everybody = range(1, self.brokers + 1)
        row = PartitionRow(TOPIC, 0, self.assigned, self.assigned[0], 1, self.assigned, 1)
        ones = (1,) * self.brokers
        control = Control(
            1, row, None, (True,) * self.brokers, ones, ones, frozenset(everybody), frozenset(everybody)
        )
        machines = [self._obeying(b, Machine(), row, False) for b in everybody]
        budget = tuple(self.budget.values())
        return tuple(map(self.number, (control, (), budget, *machines)))

    # ------------------------------------------------------------------------------ what may happen

    def actions(self, state: State) -> Iterator[Action]:
        """Everything that may happen, faults as long as their budget lasts."""
        control, committed = self.control(state), self.committed(state)
        for b in range(1, self.brokers + 1):
            machine = self.machine(state, b)
            if machine.outbox:
                yield "read", b
            if self.may_expire(state, b) or (
                self.left(state, "expire") and b in control.sessions - control.bound
            ):
                yield "expire", b
            if not machine.up:
                yield "start", b
                continue
            if machine.inbox:
                yield "heed", b
            if not machine.linked and b not in control.bound:
                yield "hello", b
            if machine.late:
                yield "receive", b
            if self.left(state, "kill") and b in self.mortal:
                yield "kill", b
            if self.left(state, "power") and not any(
                self.machine(state, other).lost for other in range(1, self.brokers + 1)
            ):
                yield from (("power", b, kept) for kept in range(len(machine.log) or 1))
            if self.left(state, "break") and machine.linked:
                yield "break", b
            if machine.hosted is not None:
                yield from self._of_replica(state, b, machine, machine.hosted, len(committed))
        if control.move is not None and control.move.phase is Phase.INIT:
            yield ("slot",)
        if self.left(state, "takeover"):
            yield ("takeover",)
        if control.bound:
            asked = set(control.row.assigned) if control.move is None else {*control.move.target}
            if self.left(state, "ask"):
                yield from (("ask", target) for target in self.targets if set(target) != asked)
            if self.left(state, "cancel") and control.move is not None:
                yield ("cancel",)

    def may_expire(self, state: State, b: int) -> bool:
        """True if the process that the session is of is gone: nobody keeps it."""
        control, machine = self.control(state), self.machine(state, b)
        is_there = machine.up and control.runs[b - 1] == machine.run
        return b in control.sessions and b not in control.bound and not is_there

    def _of_replica(
        self, state: State, b: int, machine: Machine, hosted: Hosted, committed: int
    ) -> Iterator[Action]:
        row = hosted.row
        if row.leader == b:
            if len(machine.log) < self.values and len(machine.log) <= committed + 1:
                yield "append", b
            if hosted.pending is None and machine.linked and machine.ready:
                yield "grow", b
                if self.left(state, "shrink"):
                    yield "shrink", b
        elif row.leader != NO_LEADER and not machine.late:
            yield "fetch", b, row.leader, "now"
            if self.left(state, "lose"):
                yield "fetch", b, row.leader, "lost"
            if self.left(state, "slow"):
                yield "fetch", b, row.leader, "late"

    # ------------------------------------------------------------------------------ doing it

    def do(self, state: State, action: Action) -> State:
        """The state behind `action`; the same one if nothing happened. Raises Broken."""
        made = list(state)
        name, b = str(action[0]), int(str(action[1])) if len(action) > 1 and is_of_broker(action) else 0
        spent = {"fetch": {"lost": "lose", "late": "slow"}.get(str(action[-1]), "")}.get(name, name)
        if name == "expire" and self.may_expire(state, b):
            spent = ""
        if spent in self.names:
            left = list(self.things[state[2]])
            left[self.names.index(spent)] -= 1
            made[2] = self.number(tuple(left))
        if name in ("heed", "receive", "append"):
            made[2 + b] = self.once(getattr(self, name), b, state[2 + b])
        elif name in ("grow", "shrink"):
            lag = NEVER_LAGS if name == "grow" else ALWAYS_LAGS
            proposed = self.once(self.propose, b, state[2 + b], lag)
            if proposed is None or (name == "shrink" and not self._shrinks(proposed, b)):
                return state
            made[2 + b] = proposed
        elif name == "fetch":
            leader = int(str(action[2]))
            asked = (b, state[2 + b], leader, state[2 + leader], action[3])
            made[2 + b], made[2 + leader] = self.once(self.fetch, *asked)
        elif name in ("kill", "power", "start", "break"):
            self._fate(made, name, b, action)
        else:
            self._turn(made, name, b, action)
        after = tuple(made)
        if after != state:
            after = self._exposed(state, after)
            self._look(after)
        return after

    def _shrinks(self, number: int, b: int) -> bool:
        machine: Machine = self.things[number]
        hosted = machine.hosted
        return (
            hosted is not None and hosted.pending is not None and len(hosted.pending[1]) < len(hosted.row.isr)
        )

    def _fate(self, made: list[int], name: str, b: int, action: Action) -> None:
        machine: Machine = self.things[made[2 + b]]
        if name == "start":
            machine = machine._replace(up=True, run=machine.run + 1, epoch=0)
        else:
            if machine.linked:
                machine = machine._replace(
                    linked=False, ready=False, inbox=(), outbox=(*machine.outbox, None)
                )
            if name != "break":
                machine = machine._replace(up=False, hosted=None, late=())
            if name == "power":
                machine = machine._replace(lost=True, log=machine.log[: int(str(action[2]))])
        made[2 + b] = self.number(machine)

    def _turn(self, made: list[int], name: str, b: int, action: Action) -> None:
        control: Control = self.things[made[0]]
        event: tuple[Any, ...] = (name, b)
        if name == "read":
            machine: Machine = self.things[made[2 + b]]
            frame = machine.outbox[0]
            event = ("close", b) if frame is None else frame
            made[2 + b] = self.number(machine._replace(outbox=machine.outbox[1:]))
            if b not in control.bound:
                return
        elif name == "hello":
            machine = self.things[made[2 + b]]
            event = ("hello", b, machine.run, machine.epoch, machine.lost)
        elif name in ("ask", "cancel"):
            event = ("wish", min(control.bound), action[1] if name == "ask" else None)
        elif name in ("takeover", "slot"):
            event = (name,)
        made[0], said = self.once(self.turn, made[0], event, name == "slot")
        if name == "takeover":
            for one in range(1, self.brokers + 1):
                machine = self.things[made[2 + one]]
                closed = machine._replace(linked=False, ready=False, inbox=(), outbox=())
                made[2 + one] = self.number(closed)
        for to, frame in said:
            machine = self.things[made[2 + to]]
            if frame[0] == "snapshot":
                machine = machine._replace(linked=True, ready=False, inbox=(), outbox=())
            if machine.linked:
                made[2 + to] = self.number(machine._replace(inbox=(*machine.inbox, frame)))

    # ------------------------------------------------------------------------------ what must hold

    def _exposed(self, before: State, after: State) -> State:
        """What is below a high watermark may be read, and is acknowledged: it must stay."""
        committed, row = self.committed(after), self.control(after).row
        # Leaders first: in one step a leader may commit and its follower hear of it.
        changed = [b for b in range(1, self.brokers + 1) if before[2 + b] != after[2 + b]]
        hosted = [(b, self.machine(after, b)) for b in changed]
        for b, machine in sorted(
            hosted, key=lambda one: one[1].hosted is None or one[1].hosted.row.leader != one[0]
        ):
            known = machine.hosted
            if known is None:
                continue
            seen = machine.log[: known.high_watermark]
            if known.high_watermark > len(machine.log):
                raise Broken("high watermark above the log end")
            if seen[: len(committed)] != committed[: len(seen)]:
                raise Broken("committed records differ between brokers")
            if len(seen) <= len(committed):
                continue
            if known.row.leader != b:
                raise Broken("a follower exposes what no leader committed")
            committed = seen
            others = [(one, self.machine(after, one)) for one in range(1, self.brokers + 1)]
            holds = [o.log[: len(seen)] == seen or (o.lost and one in known.row.isr) for one, o in others]
            if sum(holds) < min(self.min_insync, row.settled_count):
                raise Broken("committed with fewer copies than min.insync.replicas")
        return (after[0], self.number(committed), *after[2:])

    def _look(self, state: State) -> None:
        control, committed = self.control(state), self.committed(state)
        row = control.row
        machines = [self.machine(state, b) for b in range(1, self.brokers + 1)]
        for b in row.isr:
            machine = machines[b - 1]
            is_lost = machine.lost and (not machine.up or control.runs[b - 1] != machine.run)
            if not is_lost and machine.log[: len(committed)] != committed:
                raise Broken("an ISR member lacks committed records")
        for place, one in enumerate(machines):
            for other in machines[:place]:
                for i in range(min(len(one.log), len(other.log)) - 1, -1, -1):
                    if one.log[i][0] == other.log[i][0]:
                        if one.log[: i + 1] != other.log[: i + 1]:
                            raise Broken("same offset and epoch, other record or prefix")
                        break


def is_of_broker(action: Action) -> bool:
    """True if the action is that of one broker."""
    return action[0] != "ask"
