"""This room holds what one turn does to stored plans while it is decided."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from uuid import UUID

from controller.core.plan_rows import Plan, PlanStep, PlanTable, StepState
from controller.core.records import ClusterRecord, PlanChanged, PlanStepsAdded, PlanStepsChanged


class PlanDraft:
    """The plans as they would be, laid over the rows."""

    def __init__(self, rows: PlanTable) -> None:
        self._rows = rows
        self._plans: dict[UUID, Plan] = {}
        self._added: list[PlanStepsAdded] = []
        self._changed: dict[UUID, dict[int, tuple[StepState, str]]] = defaultdict(dict)
        self._asked_more: dict[UUID, int] = defaultdict(int)

    # ------------------------------------------------------------------------------ reading

    def plan(self, plan_id: UUID) -> Plan | None:
        return self._plans.get(plan_id) or self._rows.plans.get(plan_id)

    def all(self) -> list[Plan]:
        """Those that are not over, or have active moves."""
        return list({**self._rows.plans, **self._plans}.values())

    def waiting(self, plan_id: UUID, most: int) -> list[PlanStep]:
        """The next steps that are neither asked nor over in this turn; of those that it adds none."""
        touched = self._changed.get(plan_id, {})
        waiting = self._waiting(plan_id)
        return [waiting[number] for number in islice((n for n in waiting if n not in touched), most)]

    def asked(self, plan_id: UUID) -> Iterator[PlanStep]:
        """Steps whose moves were active before this turn, or were asked for in it, and are so still."""
        touched = self._changed.get(plan_id, {})
        for number, step in self._rows.asked.get(plan_id, {}).items():
            if number not in touched:
                yield step
        for number, (state, _) in touched.items():
            if state is StepState.ASKED:
                waiting, asked = self._waiting(plan_id), self._rows.asked.get(plan_id, {})
                yield waiting[number] if number in waiting else asked[number]

    def asked_count(self, plan_id: UUID) -> int:
        return len(self._rows.asked.get(plan_id, ())) + self._asked_more[plan_id]

    def waiting_count(self, plan_id: UUID) -> int:
        """How many steps are neither asked nor over, those that this turn adds among them."""
        waiting = self._waiting(plan_id)
        touched = sum(number in waiting for number in self._changed.get(plan_id, ()))
        return len(waiting) - touched + sum(len(one.steps) for one in self._added if one.plan_id == plan_id)

    def _waiting(self, plan_id: UUID) -> Mapping[int, PlanStep]:
        return self._rows.waiting.get(plan_id) or {}

    # ------------------------------------------------------------------------------ writing

    def put(self, plan: Plan) -> None:
        """A new plan, or one that changed."""
        self._plans[plan.id] = plan

    def add_steps(self, plan_id: UUID, steps: Sequence[PlanStep]) -> None:
        if steps:
            self._added.append(PlanStepsAdded(plan_id, tuple(steps)))

    def change_step(self, plan_id: UUID, number: int, state: StepState, why: str = "") -> None:
        """A step was asked, skipped, or its move ended."""
        before = self._changed[plan_id].get(number)
        was_asked = before is not None and before[0] is StepState.ASKED
        was_asked = was_asked or (before is None and number in self._rows.asked.get(plan_id, ()))
        self._asked_more[plan_id] += (state is StepState.ASKED) - was_asked
        self._changed[plan_id][number] = (state, why)

    # ------------------------------------------------------------------------------ the end of the turn

    def records(self) -> list[ClusterRecord]:
        """Steps first: a plan that is over is forgotten with the last of them. What became alike is one."""
        found: list[ClusterRecord] = [*self._added]
        for plan_id, changed in self._changed.items():
            alike: dict[tuple[StepState, str], list[int]] = defaultdict(list)
            for number, outcome in changed.items():
                alike[outcome].append(number)
            found += [
                PlanStepsChanged(plan_id, state, tuple(numbers), why)
                for (state, why), numbers in alike.items()
            ]
        return found + [PlanChanged(plan) for plan in self._plans.values()]
