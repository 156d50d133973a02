"""This room switches single rules of reassignment off, to show that walks and scenes would notice.

The names are those of the table of replication.md section 2; registered with the other mutants.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import msgspec

from broker.core.throttling import Throttle
from controller.core import plans, proposals, reassignment
from controller.core.draft import Draft
from controller.core.plan_rows import Plan, PlanPhase, PlanStep
from controller.core.records import Phase, Reassignment
from controller.core.state import ClusterRows
from controller.core.topics import Refused
from muster.messages.link.rows import PartitionRow
from tests.simulation.replication.mutants import MUTANTS, mutant, replaced
from tests.simulation.replication.small_brokers import SmallBrokers
from tests.simulation.replication.small_states import Machine

__all__ = ["MUTANTS"]


def _without_epoch(draft: Draft, row: PartitionRow, changed: PartitionRow) -> PartitionRow:
    kept = changed.leader == row.leader
    return msgspec.structs.replace(changed, leader_epoch=row.leader_epoch) if kept else changed


MUTANTS["switch_no_epoch"] = replaced(
    reassignment,
    "_with_replicas",
    lambda make: lambda draft, row, *seats: _without_epoch(draft, row, make(draft, row, *seats)),
)


@mutant("switch_early")
def _() -> Iterator[None]:
    """One of the target in sync is enough, whoever is still copying."""
    switch = reassignment._switch

    def switch_early(draft: Draft, one: Reassignment) -> bool:
        row = draft.partition(one.key)
        assert row is not None
        kept = set(row.isr).intersection(one.target)
        if kept and not draft.live().isdisjoint(kept):
            settled = tuple(b for b in row.assigned if b in row.isr or b in one.target)
            draft.put_partition(msgspec.structs.replace(row, adding=(), assigned=settled))
            with patch.object(reassignment, "floor", lambda *_: 1):
                return switch(draft, one)
        return False

    with patch.object(reassignment, "_switch", switch_early):
        yield


@mutant("init_is_done")
def _() -> Iterator[None]:
    """Beginning takes the new replicas for replicas in sync."""
    begin = reassignment._beginning

    def begin_in_sync(
        draft: Draft, row: PartitionRow, target: tuple[int, ...], throttle: int
    ) -> PartitionRow:
        began = begin(draft, row, target, throttle)
        return msgspec.structs.replace(
            began, isr=tuple(b for b in began.assigned if b in (*row.isr, *target))
        )

    with patch.object(reassignment, "_beginning", begin_in_sync):
        yield


@mutant("cancel_empties_isr")
def _() -> Iterator[None]:
    with patch.object(reassignment, "_require_isr", lambda *_: None):
        yield


@mutant("throttle_isr")
def _() -> Iterator[None]:
    """Whoever is being added pays for what it is sent, though acknowledgements wait for it."""
    holding = Throttle.holding

    def holding_all(self: Throttle, row: PartitionRow, follower: int, *more: Any) -> Any:
        return holding(self, msgspec.structs.replace(row, isr=()), follower, *more)

    with patch.object(Throttle, "holding", holding_all):
        yield


@mutant("plan_asks_changed")
def _() -> Iterator[None]:
    """A plan moves what somebody else has moved since it was reviewed."""
    ask = plans._ask

    def ask_anyway(draft: Draft, plan: Plan, step: PlanStep) -> bool:
        row = draft.partition(step.key)
        return ask(draft, plan, step if row is None else msgspec.structs.replace(step, origin=row.assigned))

    with patch.object(plans, "_ask", ask_anyway):
        yield


@mutant("drain_keeps_leaders")
def _() -> Iterator[None]:
    """What a broker stands first for stays with it."""
    drain = proposals._drain

    def drain_followers(world: Any, free: Any, leavers: set[int], leave_out: Any) -> None:
        drain(world, [place for place in free if world.now(place)[0] not in leavers], leavers, leave_out)

    with patch.object(proposals, "_drain", drain_followers):
        yield


@mutant("plan_runs_unapproved")
def _() -> Iterator[None]:
    """What nobody has reviewed runs."""
    into = plans._into
    with patch.object(plans, "_into", lambda plan, phase, *allowed: into(plan, phase, *allowed, plan.phase)):
        yield


@mutant("two_writes")
def _() -> Iterator[None]:
    """The new replicas first, the end of the reassignment in a turn that may never come."""
    switch = reassignment._switch

    def switch_row_alone(draft: Draft, one: Reassignment) -> bool:
        switched = switch(draft, one)
        if switched:
            draft.put_reassignment(one)
        return switched

    with patch.object(reassignment, "_switch", switch_row_alone):
        yield


@mutant("two_active")
def _() -> Iterator[None]:
    """A new wish does not end the one before it."""
    put = Draft.put_reassignment

    def put_unless_replaced(self: Draft, row: Reassignment) -> None:
        if row.phase is not Phase.CANCELLED or "replaced" not in row.reason:
            put(self, row)

    with patch.object(Draft, "put_reassignment", put_unless_replaced):
        yield


@mutant("takeover_forgets")
def _() -> Iterator[None]:
    """A new owner loads the rows and not what moves them."""
    make = ClusterRows.of

    def without_reassignments(*stored: Any, **plans: Any) -> ClusterRows:
        return make(*stored[:6], **plans)

    with patch.object(ClusterRows, "of", without_reassignments):
        yield


@mutant("floor_counts_adding")
def _() -> Iterator[None]:
    with patch.object(PartitionRow, "settled_count", property(lambda row: len(row.assigned))):
        yield


@mutant("drain_waits_for_the_dead")
def _() -> Iterator[None]:
    """The whole target must be in sync: a kept replica that is dead blocks the move."""
    switch = reassignment._switch

    def switch_whole(draft: Draft, one: Reassignment) -> bool:
        row = draft.partition(one.key)
        assert row is not None
        return set(one.target) <= set(row.isr) and switch(draft, one)

    with patch.object(reassignment, "_switch", switch_whole):
        yield


@mutant("cancel_no_epoch")
def _() -> Iterator[None]:
    """A cancel drops the new replicas within the leader epoch in which they were fetching."""
    cancel = reassignment.cancel

    def cancel_within_the_epoch(draft: Draft, row: PartitionRow, *why: Any) -> None:
        make = reassignment._with_replicas
        with patch.object(reassignment, "_with_replicas", lambda *a: _without_epoch(draft, row, make(*a))):
            cancel(draft, row, *why)

    with patch.object(reassignment, "cancel", cancel_within_the_epoch):
        yield


@mutant("fail_by_timer")
def _() -> Iterator[None]:
    """A reassignment whose target is away fails at the next look."""
    go_on = reassignment.go_on

    def go_on_or_fail(draft: Draft) -> None:
        for one in draft.moving():
            row = draft.partition(one.key)
            if row is not None and not draft.live().issuperset(row.adding):
                with suppress(Refused):
                    reassignment.cancel(draft, row, "it took too long", Phase.FAILED)
        go_on(draft)

    with patch.object(reassignment, "go_on", go_on_or_fail):
        yield


@mutant("stray_reused")
def _() -> Iterator[None]:
    """A replica that comes back goes on with the log that it was told to set aside."""

    def kept(self: SmallBrokers, machine: Machine) -> Machine:
        return machine._replace(hosted=None, late=())

    with patch.object(SmallBrokers, "stopped", kept):
        yield


@mutant("plan_runs_on_in_a_pause")
def _() -> Iterator[None]:
    """A plan that is paused asks for its next moves."""
    ask_next = plans.ask_next

    def ask_in_pauses(draft: Draft) -> None:
        ask_next(draft)
        for plan in draft.plans.all():
            if plan.phase is PlanPhase.PAUSED:
                for step in draft.plans.waiting(plan.id, 1):
                    plans._ask(draft, plan, step)

    with patch.object(plans, "ask_next", ask_in_pauses):
        yield


@mutant("plan_ends_without_its_moves")
def _() -> Iterator[None]:
    """What was to be cancelled with its plan goes on."""
    with patch.object(plans, "_cancel_moves", lambda *_: None):
        yield


@mutant("plan_stands_still")
def _() -> Iterator[None]:
    """Nobody looks whether there is room for the next moves."""
    with patch.object(plans, "ask_next", lambda _: None):
        yield


@mutant("rate_of_the_plan_alone")
def _() -> Iterator[None]:
    """Another rate of a plan holds for moves that begin later, not for those under way."""
    with patch.object(reassignment, "throttle", lambda *_: None):
        yield


@mutant("throttle_left_behind")
def _() -> Iterator[None]:
    """What was throttled stays so when nothing is added any more."""
    make = reassignment._with_replicas

    def make_throttled(draft: Draft, row: PartitionRow, *seats: Any) -> PartitionRow:
        made = make(draft, row, *seats)
        return made if made.throttle else msgspec.structs.replace(made, throttle=row.throttle)

    with patch.object(reassignment, "_with_replicas", make_throttled):
        yield


@mutant("request_forgotten")
def _() -> Iterator[None]:
    """What one turn leaves of a request for moves is left for good."""
    go_on = reassignment.go_on_altering

    def go_on_and_forget(draft: Draft) -> None:
        go_on(draft)
        draft.memory.altering = []

    with patch.object(reassignment, "go_on_altering", go_on_and_forget):
        yield
