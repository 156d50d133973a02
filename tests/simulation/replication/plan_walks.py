"""This room lets operators of the simulated world plan moves, and looks at what plans may never do."""

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from controller.core import reassignment
from controller.core.draft import Draft
from controller.core.events import PlanComputed
from controller.core.plan_rows import Plan, PlanPhase, PlanStep, StepState
from controller.core.proposals import StoredBroker, StoredPartition, propose
from controller.core.records import Phase, PlanChanged, PlanStepsChanged, Reassignment
from controller.core.state import ClusterRows
from controller.core.topics import Refused
from muster.messages.link.brokers import CordonBroker
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    PlanKind,
    PlannedMove,
    PlanOptions,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from muster.messages.link.rows import PartitionRow

if TYPE_CHECKING:
    from controller.core.plans import ChangeOfPlan
    from tests.simulation.replication.wishes import Wishes
    from tests.simulation.replication.world import World

STEERING: Final = ("approve", "run", "pause", "rate", "end", "end_all")
NEXT: Final = {
    PlanPhase.DRAFT: ("approve",) * 20,
    PlanPhase.APPROVED: ("run",) * 20,
    PlanPhase.RUNNING: ("pause", "rate", "end_all") * 3,
    PlanPhase.PAUSED: ("run", "rate", "end_all"),
}
"""What operators mostly do next; the rest is out of turn."""
_P = PlanPhase
FOLLOWS: Final = {
    None: {_P.COMPUTING},
    _P.COMPUTING: {_P.COMPUTING, _P.DRAFT, _P.FAILED, _P.CANCELLED},
    _P.DRAFT: {_P.DRAFT, _P.APPROVED, _P.CANCELLED},
    # A plan that has nothing to move is done in the turn in which it runs.
    _P.APPROVED: {_P.APPROVED, _P.RUNNING, _P.DONE, _P.CANCELLED},
    _P.RUNNING: {_P.RUNNING, _P.PAUSED, _P.DONE, _P.CANCELLED},
    _P.PAUSED: {_P.PAUSED, _P.RUNNING, _P.DONE, _P.CANCELLED},
}
"""What may become of a plan; of one that is over nothing."""


class PlanWalks:
    """What operators do to plans, and what was seen of them."""

    def __init__(self) -> None:
        self._phases: dict[UUID, PlanPhase] = {}
        self._before: dict[UUID, tuple[PlanPhase, frozenset[int]]] = {}
        self._journal_read = 0
        self._skipped = False
        """A step of some plan was not carried out, and its reason told."""

    # ------------------------------------------------------------------------------ operators

    def faults(self, world: "Wishes") -> list[tuple[object, ...]]:
        """Plans of everything, one after the other; any step of their lives, also out of turn."""
        found: list[tuple[object, ...]] = []
        brokers, plans = world.rows().brokers, world.rows().plans.plans
        if world.left("plan"):
            found += [("plan", b) for b in brokers]
        if world.left("drain"):
            holding = {b for row in world.rows().partitions.values() for b in row.assigned}
            found += [("drain", b) for b in sorted(holding)]
        if world.left("reassign_all"):
            found += [("reassign_all", b) for b in brokers]
        if world.left("steer"):
            for plan_id, plan in plans.items():
                is_drain = plan.options.kind is PlanKind.DRAIN
                likely = (*(() if is_drain else STEERING), *NEXT.get(plan.phase, ()))
                found += [("steer", plan_id, how) for how in likely]
        return found

    def propose(self, world: "Wishes", newcomer: int) -> None:
        """Every partition loses its last broker, or gets `newcomer`; one at a time."""
        moves = tuple(
            PlannedMove(
                topic=world.rows().topics[row.topic_id].name,
                partition=row.partition,
                replicas=world.target_with(row.assigned, newcomer),
            )
            for row in world.rows().partitions.values()
        )
        options = PlanOptions(kind=PlanKind.EXPLICIT, partitions=moves)
        world.ask(ProposePlan(options=options, throttle=1_000, at_a_time=1))

    def drain(self, world: "Wishes", broker_id: int) -> None:
        """What the broker has goes to others, and nothing new comes to it."""
        world.ask(CordonBroker(broker_id=broker_id, cordoned=True))
        options = PlanOptions(kind=PlanKind.DRAIN, brokers=(broker_id,))
        world.ask(ProposePlan(options=options, throttle=1_000, at_a_time=1))

    def next_of_drain(self, world: "Wishes") -> tuple[object, ...] | None:
        """What whoever wants a broker drained does next."""
        for plan_id, plan in world.rows().plans.plans.items():
            if plan.options.kind is PlanKind.DRAIN and plan.phase in (_P.DRAFT, _P.APPROVED, _P.PAUSED):
                return ("steer", plan_id, NEXT[plan.phase][0])
        return None

    def steer(self, world: "Wishes", plan_id: UUID, how: str) -> str:
        """One wish; what it broke, "" if nothing."""
        rate = world.rows().plans.plans[plan_id].throttle + 1_000
        wishes: dict[str, ChangeOfPlan] = {
            "approve": ApprovePlan(plan_id=plan_id),
            "run": RunPlan(plan_id=plan_id),
            "pause": PausePlan(plan_id=plan_id),
            "rate": ThrottlePlan(plan_id=plan_id, throttle=rate),
            "end": CancelPlan(plan_id=plan_id),
            "end_all": CancelPlan(plan_id=plan_id, moves=True),
        }
        was_over = world.rows().plans.plans[plan_id].phase.is_over
        if not world.ask(wishes[how]) or how != "end_all" or was_over or world.controller.deposed:
            return ""
        draft = Draft(world.controller.state, world.now, world.controller.settings)
        for step in world.rows().plans.asked.get(plan_id, {}).values():
            try:
                reassignment.check_cancel(draft, world.rows().reassignments[step.key])
            except Refused:
                continue
            return "a move of a plan that was cancelled with its moves goes on"
        return ""

    # ------------------------------------------------------------------------------ what must hold

    def look(self, world: "World") -> str:
        """What is broken; "" if nothing is."""
        rows = world.rows()
        text = next(filter(None, (_of_row(row, rows) for row in rows.partitions.values())), "")
        text = text or self._look_at_phases(world)
        of_plans: dict[UUID, dict[int, Reassignment]] = {}
        for move in rows.reassignments.values():
            if move.plan_id is not None:
                of_plans.setdefault(move.plan_id, {})[move.plan_step] = move
        if of_plans.keys() - rows.plans.plans.keys():
            text = text or "a plan is forgotten that has moves"
        for plan in rows.plans.plans.values():
            asked = rows.plans.asked.get(plan.id, {})
            text = text or self._look_at_plan(plan, asked, of_plans.get(plan.id, {}))
            self._before[plan.id] = (plan.phase, frozenset(asked))
        return text

    def _look_at_phases(self, world: "World") -> str:
        journal, text = world.database.journal, ""
        for record in journal[self._journal_read :]:
            if isinstance(record, PlanChanged):
                before = self._phases.get(record.row.id)
                if record.row.phase not in FOLLOWS.get(before, set()):
                    return f"a plan that was {before} is {record.row.phase}"
                self._phases[record.row.id] = record.row.phase
                text = text or _of_drained(record.row, world.rows(), self._skipped)
            elif isinstance(record, PlanStepsChanged) and record.state is not StepState.DONE:
                self._skipped |= record.state is not StepState.ASKED
        self._journal_read = len(journal)
        return text

    def _look_at_plan(self, plan: Plan, asked: dict[int, PlanStep], moves: dict[int, Reassignment]) -> str:
        if asked.keys() != moves.keys():
            return "the steps that are asked are not the moves of the plan"
        if len(asked) > plan.at_a_time:
            return "a plan has more moves at a time than it may"
        for number, step in asked.items():
            if moves[number].origin != step.origin or moves[number].target != step.target:
                return "a plan moves what was not reviewed so"
            if moves[number].throttle != plan.throttle:
                return "a move goes at another rate than its plan"
        phase, before = self._before.get(plan.id, (plan.phase, frozenset[int]()))
        rests = phase is not PlanPhase.RUNNING and plan.phase is phase
        if rests and not before >= asked.keys():
            return "a plan that does not run asks for moves"
        return ""

    def left_over(self, world: "World") -> str:
        """At rest every request is answered, every plan is computed, and who runs gets on."""
        if world.controller.state.memory.altering:
            return "a request for moves is never answered"
        table = world.rows().plans
        for plan in table.plans.values():
            waiting, asked = table.waiting.get(plan.id), table.asked.get(plan.id)
            if plan.phase is PlanPhase.COMPUTING:
                return "a plan is never computed"
            if plan.phase is PlanPhase.RUNNING and not asked:
                return "a plan stands still" if waiting else "a plan never ends"
        return ""


def _of_row(row: PartitionRow, rows: ClusterRows) -> str:
    """Adding, removing and throttled replicas are those of a move in progress, and of nothing else."""
    active = rows.reassignments.get(row.key)
    moving = active if active is not None and active.phase is Phase.IN_PROGRESS else None
    adding, removing, assigned = set(row.adding), set(row.removing), set(row.assigned)
    if not adding | removing <= assigned or adding & removing:
        return "adding and removing replicas are not two parts of the assignment"
    if (adding or removing) and moving is None:
        return "replicas come and go without a reassignment in progress"
    if moving is not None and (set(moving.origin), set(moving.target)) != (
        assigned - adding,
        assigned - removing,
    ):
        return "the row is not between origin and target"
    if row.throttle != (moving.throttle if moving is not None and adding else 0):
        return "a partition is throttled otherwise than what moves it"
    return ""


def _of_drained(plan: Plan, rows: ClusterRows, is_skipped: bool) -> str:
    """Of a plan of the world's one drain that is done: nothing is left behind that it does not tell of."""
    if plan.phase is not PlanPhase.DONE or plan.options.kind is not PlanKind.DRAIN or is_skipped:
        return ""
    told: Any = plan.cost.get("left_out", ())
    left_out = {name for one in told for name in one["names"]}
    for row in rows.partitions.values():
        name = f"{rows.topics[row.topic_id].name}-{row.partition}"
        if name not in left_out and not {row.leader, *row.assigned}.isdisjoint(plan.options.brokers):
            return "a broker that was drained has a replica"
    return ""


def compute_plan(rows: ClusterRows, plan_id: UUID) -> PlanComputed:
    """A worker computes it from the rows as they are, a step a part."""
    plan = rows.plans.plans.get(plan_id)
    if plan is None:
        return PlanComputed(str(plan_id), plan_id, (), {}, "the plan is no more")
    brokers = [StoredBroker(b, row.rack, row.live, row.cordoned) for b, row in rows.brokers.items()]
    topics = {topic_id: topic.name for topic_id, topic in rows.topics.items()}
    partitions = [
        StoredPartition(
            *row.key, row.assigned, row.leader, row.isr, row.version, -1, row.key in rows.reassignments
        )
        for row in rows.partitions.values()
    ]
    made = propose(plan.options, plan.throttle, brokers, topics, partitions)
    parts = tuple(msgspec.json.encode((step,)).decode() for step in made.steps)
    return PlanComputed(str(plan_id), plan_id, parts, msgspec.to_builtins(made.cost) or {}, made.failure)
