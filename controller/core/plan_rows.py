"""This room holds stored plans and their steps, as far as they are not over (replication.md section 2)."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Final
from uuid import UUID

import msgspec

from muster.messages.link.plans import PlanOptions
from muster.messages.link.rows import PartitionKey

STEPS_COPIED: Final = 1_000
"""Steps that are copied when one of them changes."""


class PlanPhase(StrEnum):
    """Where a plan stands."""

    COMPUTING = "Computing"
    """A worker computes its steps."""
    DRAFT = "Draft"
    """To be reviewed."""
    APPROVED = "Approved"
    RUNNING = "Running"
    PAUSED = "Paused"
    """No more of its steps are asked; those that are active go on."""
    DONE = "Done"
    """Every step was asked or skipped, and none is active."""
    CANCELLED = "Cancelled"
    FAILED = "Failed"
    """It could not be computed."""

    @property
    def is_over(self) -> bool:
        return self in (PlanPhase.DONE, PlanPhase.CANCELLED, PlanPhase.FAILED)


class StepState(StrEnum):
    """What became of one step."""

    WAITING = "Waiting"
    """Not asked yet; of a plan that is over: never asked."""
    ASKED = "Asked"
    """Its reassignment is active."""
    DONE = "Done"
    SKIPPED = "Skipped"
    """The partition was not as reviewed any more, or cannot be moved there."""
    CANCELLED = "Cancelled"
    FAILED = "Failed"


class PlanStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition and where it goes; a bare array, as a plan may have a hundred thousand.

    `version` is that of the partition's row when it was computed, `size_bytes` what its leader held then;
    −1: nobody knew.
    """

    number: int
    topic_id: UUID
    topic: str
    partition: int
    version: int
    origin: tuple[int, ...]
    target: tuple[int, ...]
    size_bytes: int = -1

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition


class Plan(msgspec.Struct, frozen=True):
    """One plan without its steps. `version` is the metadata version of the turn that last changed it."""

    id: UUID
    options: PlanOptions
    phase: PlanPhase
    version: int
    throttle: int = 0
    at_a_time: int = 0
    step_count: int = 0
    proposed_by: str = ""
    reason: str = ""
    changed_by: str = ""
    """Who approved, ran, paused or cancelled it last."""
    why: str = ""
    """Why it ended as it did, or was changed last."""
    cost: dict[str, object] = {}
    """As the worker computed it: see controller.core.proposals.Cost."""


class StepsByNumber(Mapping[int, PlanStep]):
    """Steps that wait, in the order of their numbers. A copy shares all but the thousands that change.

    A turn that asks for one step of a hundred thousand copies a thousand of them.
    """

    def __init__(self) -> None:
        self._thousands: dict[int, dict[int, PlanStep]] = {}
        self._own: set[int] = set()
        self._count = 0

    def copy(self) -> "StepsByNumber":
        other = StepsByNumber()
        other._thousands, other._count = dict(self._thousands), self._count
        self._own.clear()
        return other

    def add(self, step: PlanStep) -> None:
        """Behind all others: numbers rise."""
        kept = self._changeable(step.number // STEPS_COPIED)
        self._count += step.number not in kept
        kept[step.number] = step

    def take(self, number: int) -> PlanStep | None:
        """The step of this number, which waits no more; None: it does not wait."""
        place = number // STEPS_COPIED
        if number not in self._thousands.get(place, ()):
            return None
        kept = self._changeable(place)
        step = kept.pop(number)
        self._count -= 1
        if not kept:
            del self._thousands[place]
        return step

    def _changeable(self, place: int) -> dict[int, PlanStep]:
        if place not in self._own:
            self._own.add(place)
            self._thousands[place] = dict(self._thousands.get(place, ()))
        return self._thousands.setdefault(place, {})

    def __getitem__(self, number: int) -> PlanStep:
        return self._thousands[number // STEPS_COPIED][number]

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and number in self._thousands.get(number // STEPS_COPIED, ())

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._thousands.values())

    def __len__(self) -> int:
        return self._count


class PlanTable:
    """Plans that are not over or still have active moves; of their steps those that wait or are active.

    Copied by plan when one changes, as a turn must leave the rows before it as they are.
    """

    def __init__(self) -> None:
        self.plans: dict[UUID, Plan] = {}
        self.waiting: dict[UUID, StepsByNumber] = {}
        """By number, in the order in which they are asked."""
        self.asked: dict[UUID, dict[int, PlanStep]] = {}
        self._shared = False
        self._own: set[UUID] = set()

    @classmethod
    def of(
        cls,
        plans: Iterable[Plan],
        waiting: Iterable[tuple[UUID, PlanStep]],
        asked: Iterable[tuple[UUID, PlanStep]],
    ) -> "PlanTable":
        """What the store read: steps in the order of their numbers."""
        table = cls()
        table.plans = {plan.id: plan for plan in plans}
        for plan_id, step in waiting:
            table.waiting.setdefault(plan_id, StepsByNumber()).add(step)
        for plan_id, step in asked:
            table.asked.setdefault(plan_id, {})[step.number] = step
        return table

    def copy(self) -> "PlanTable":
        """Another table with the same rows."""
        other = PlanTable()
        other.plans = dict(self.plans)
        other.waiting, other.asked = dict(self.waiting), dict(self.asked)
        self._shared = other._shared = True
        self._own.clear()
        return other

    def put(self, plan: Plan) -> None:
        """Another phase of a plan, or a new one; what is over is forgotten with its last active move."""
        self.plans[plan.id] = plan
        if plan.phase.is_over:
            self.waiting.pop(plan.id, None)
            self._forget_if_over(plan.id)

    def add_steps(self, plan_id: UUID, steps: Iterable[PlanStep]) -> None:
        waiting, _ = self._of(plan_id)
        for step in steps:
            waiting.add(step)

    def change_steps(self, plan_id: UUID, state: StepState, numbers: Iterable[int]) -> None:
        """Steps that were asked become active, others are over."""
        waiting, asked = self._of(plan_id)
        for number in numbers:
            step = waiting.take(number) or asked.pop(number, None)
            if state is StepState.ASKED and step is not None:
                asked[number] = step
        self._forget_if_over(plan_id)

    def _of(self, plan_id: UUID) -> tuple[StepsByNumber, dict[int, PlanStep]]:
        """Waiting and asked steps of one plan, to be changed in place."""
        if self._shared and plan_id not in self._own:
            self._own.add(plan_id)
            self.waiting[plan_id] = self.waiting.get(plan_id, StepsByNumber()).copy()
            self.asked[plan_id] = dict(self.asked.get(plan_id, {}))
        waiting = self.waiting.setdefault(plan_id, StepsByNumber())
        return waiting, self.asked.setdefault(plan_id, {})

    def _forget_if_over(self, plan_id: UUID) -> None:
        if self.plans[plan_id].phase.is_over and not self.asked.get(plan_id):
            del self.plans[plan_id]
            self.waiting.pop(plan_id, None)
            self.asked.pop(plan_id, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanTable) and self._content == other._content

    __hash__ = None  # type: ignore[assignment]

    @property
    def _content(self) -> tuple[object, ...]:
        return (
            self.plans,
            {plan_id: list(steps.values()) for plan_id, steps in self.waiting.items() if steps},
            {plan_id: steps for plan_id, steps in self.asked.items() if steps},
        )
