"""This room runs stored plans: proposed, reviewed, run, paused, over (replication.md section 2).

A plan moves nothing itself. It asks for its next moves as anybody would, each only where the partition's
replicas still are those that were reviewed.
"""

from typing import Final, TypeAlias
from uuid import UUID, uuid5

import msgspec

from controller.core import reassignment
from controller.core.draft import Draft
from controller.core.events import LinkId, Say
from controller.core.plan_rows import Plan, PlanPhase, PlanStep, StepState
from controller.core.records import Phase, WorkAdopted, WorkOffered
from controller.core.state import AddingSteps
from controller.core.topics import Refused, why_unknown
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    PlanAnswer,
    PlanKind,
    PlanOptions,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)

COMPUTE_PLAN: Final = "compute_plan"
"""Kind of the work item; its key is the plan's id."""
MOST_OPEN: Final = 20
"""Plans that are not over: the controller keeps their steps in memory."""
PARTS_PER_TURN: Final = 2
STEPS_LOOKED_AT: Final = 1_000
"""By one turn and plan: what is skipped takes no room among the active moves."""

ChangeOfPlan: TypeAlias = ApprovePlan | RunPlan | PausePlan | CancelPlan | ThrottlePlan

_ENDED: Final = {
    Phase.DONE: StepState.DONE,
    Phase.CANCELLED: StepState.CANCELLED,
    Phase.FAILED: StepState.FAILED,
}
_steps = msgspec.json.Decoder(tuple[PlanStep, ...])


# ---------------------------------------------------------------------------------- wishes


def propose(draft: Draft, link: LinkId, frame: ProposePlan, fresh: UUID) -> None:
    """Store what is wanted and have a worker compute it; the answer leaves with this turn."""
    try:
        _check(draft, frame.options)
        if frame.throttle < 0 or frame.at_a_time < 0:
            raise Refused(ErrorCode.INVALID_REQUEST, "a rate and a number of moves are not below zero")
        if sum(not plan.phase.is_over for plan in draft.plans.all()) >= MOST_OPEN:
            text = f"{MOST_OPEN} plans are not over; cancel one of them first"
            raise Refused(ErrorCode.POLICY_VIOLATION, text)
    except Refused as refused:
        _answer(draft, link, frame.correlation_id, None, refused)
        return
    plan = Plan(
        id=fresh,
        options=frame.options,
        phase=PlanPhase.COMPUTING,
        version=draft.version,
        throttle=frame.throttle,
        at_a_time=min(frame.at_a_time or draft.settings.max_reassignments, draft.settings.max_reassignments),
        proposed_by=frame.principal,
        reason=frame.reason,
    )
    draft.plans.put(plan)
    draft.other_records.append(WorkOffered(COMPUTE_PLAN, str(plan.id), draft.version))
    _answer(draft, link, frame.correlation_id, plan)


def change(draft: Draft, link: LinkId, frame: ChangeOfPlan) -> None:
    """Another phase or rate of a plan that is not over; the answer leaves with this turn."""
    plan = draft.plans.plan(frame.plan_id)
    try:
        if plan is None or plan.phase.is_over:
            text = "the plan is over already, or there is no such plan"
            raise Refused(ErrorCode.OPERATION_NOT_ATTEMPTED, text)
        if frame.expected_version not in (None, plan.version):
            text = f"the plan is of version {plan.version} now, and was to be changed as of "
            raise Refused(ErrorCode.INVALID_UPDATE_VERSION, text + str(frame.expected_version))
        plan = _changed(draft, plan, frame)
    except Refused as refused:
        _answer(draft, link, frame.correlation_id, plan, refused)
        return
    plan = msgspec.structs.replace(plan, version=draft.version, changed_by=frame.principal, why=frame.reason)
    draft.plans.put(plan)
    _answer(draft, link, frame.correlation_id, plan)


def not_written(frame: ProposePlan | ChangeOfPlan, why: str) -> PlanAnswer:
    """The answer to a wish whose turn could not be written."""
    text = f"{why}; nothing was changed"
    return PlanAnswer(correlation_id=frame.correlation_id, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text)


def _changed(draft: Draft, plan: Plan, frame: ChangeOfPlan) -> Plan:
    """Raises Refused where the plan's phase does not allow it."""
    match frame:
        case ApprovePlan():
            return _into(plan, PlanPhase.APPROVED, PlanPhase.DRAFT)
        case RunPlan():
            return _into(plan, PlanPhase.RUNNING, PlanPhase.APPROVED, PlanPhase.PAUSED)
        case PausePlan():
            return _into(plan, PlanPhase.PAUSED, PlanPhase.RUNNING)
        case CancelPlan():
            if frame.moves:
                _cancel_moves(draft, plan)
            return msgspec.structs.replace(plan, phase=PlanPhase.CANCELLED)
        case ThrottlePlan():
            if frame.throttle < 0:
                raise Refused(ErrorCode.INVALID_REQUEST, "a rate is not below zero")
            for step in list(draft.plans.asked(plan.id)):
                move = draft.reassignment(step.key)
                if move is not None and move.plan_id == plan.id:
                    reassignment.throttle(draft, move, frame.throttle)
            return msgspec.structs.replace(plan, throttle=frame.throttle)


def _into(plan: Plan, phase: PlanPhase, *allowed: PlanPhase) -> Plan:
    if plan.phase not in allowed:
        ways = " or ".join(f"{one}" for one in allowed)
        text = f"the plan is {plan.phase}; only from {ways} it becomes {phase}"
        raise Refused(ErrorCode.OPERATION_NOT_ATTEMPTED, text)
    return msgspec.structs.replace(plan, phase=phase)


def _cancel_moves(draft: Draft, plan: Plan) -> None:
    """What cannot go back, because too few in-sync replicas would stay, goes on to its target."""
    for step in list(draft.plans.asked(plan.id)):
        move, row = draft.reassignment(step.key), draft.partition(step.key)
        if move is None or row is None or move.plan_id != plan.id:
            continue
        try:
            reassignment.cancel(draft, row, "its plan was cancelled")
        except Refused as refused:
            draft.plans.change_step(plan.id, step.number, StepState.ASKED, f"goes on: {refused.text}")


def _check(draft: Draft, options: PlanOptions) -> None:
    """Raise Refused for what no worker could compute."""
    if unknown := [name for name in options.topics if _topic_is_unknown(draft, name)]:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {unknown[0]}")
    if strangers := [b for b in options.brokers if draft.broker(b) is None]:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, why_unknown(strangers[0]))
    match options.kind:
        case PlanKind.DRAIN | PlanKind.FILL:
            if not options.brokers:
                raise Refused(ErrorCode.INVALID_REQUEST, "name at least one broker")
            if options.kind is PlanKind.FILL and (dead := set(options.brokers) - draft.live()):
                raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {min(dead)} is not live")
            if options.kind is PlanKind.DRAIN and draft.live() <= set(options.brokers):
                raise Refused(ErrorCode.INVALID_REQUEST, "no live broker would be left to move to")
        case PlanKind.REPLICATION_FACTOR:
            if not 1 <= options.replication_factor <= len(draft.live()):
                text = f"from 1 to {len(draft.live())} replicas: there are so many live brokers"
                raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        case PlanKind.EXPLICIT:
            _check_moves(draft, options)
        case PlanKind.UNDO:
            if options.undoes is None:
                raise Refused(ErrorCode.INVALID_REQUEST, "name the plan that is to be undone")
        case PlanKind.SPREAD | PlanKind.RACKS:
            pass


def _topic_is_unknown(draft: Draft, name: str) -> bool:
    topic = draft.topic_named_like(name)
    return topic is None or topic.name != name


def _check_moves(draft: Draft, options: PlanOptions) -> None:
    most = draft.settings.max_partitions_per_request
    if not 1 <= len(options.partitions) <= most:
        raise Refused(ErrorCode.INVALID_REQUEST, f"name from 1 to {most} partitions")
    if len({(one.topic, one.partition) for one in options.partitions}) < len(options.partitions):
        raise Refused(ErrorCode.INVALID_REQUEST, "a partition is named twice")
    for one in options.partitions:
        topic = draft.topic_named_like(one.topic)
        row = draft.partition((topic.topic_id, one.partition)) if topic else None
        if topic is None or topic.name != one.topic or row is None:
            text = f"there is no partition {one.partition} of a topic {one.topic}"
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        reassignment.check_target(draft, row, one.replicas)


def _answer(
    draft: Draft, link: LinkId, correlation_id: int, plan: Plan | None, refused: Refused | None = None
) -> None:
    answer = PlanAnswer(
        correlation_id=correlation_id,
        plan_id=plan.id if plan else None,
        phase=str(plan.phase) if plan else "",
        version=plan.version if plan else 0,
        error=refused.error if refused else ErrorCode.NONE,
        text=refused.text if refused else "",
    )
    draft.replies.append(Say(link, answer))


# ---------------------------------------------------------------------------------- computed


def add_steps(draft: Draft, adding: AddingSteps) -> None:
    """Store what a worker computed, some parts a turn; with the last one the plan is a draft to review.

    A new owner is given the work again, and begins again behind the steps that are stored.
    """
    event = adding.event
    plan = draft.plans.plan(event.plan_id)
    if plan is None or plan.phase is not PlanPhase.COMPUTING:
        draft.other_records.append(WorkAdopted(event.item_id))
        return
    if event.failure:
        plan = msgspec.structs.replace(plan, phase=PlanPhase.FAILED, why=event.failure)
    else:
        upto = min(adding.stored_parts + PARTS_PER_TURN, len(event.parts))
        for part in event.parts[adding.stored_parts : upto]:
            steps = [step for step in _steps.decode(part) if step.number >= plan.step_count]
            draft.plans.add_steps(plan.id, steps)
            plan = msgspec.structs.replace(plan, step_count=plan.step_count + len(steps))
        if upto < len(event.parts):
            draft.plans.put(plan)
            draft.memory.adding_steps.append(AddingSteps(event, upto))
            return
        plan = msgspec.structs.replace(plan, phase=PlanPhase.DRAFT, cost=event.cost)
    draft.plans.put(msgspec.structs.replace(plan, version=draft.version))
    draft.other_records.append(WorkAdopted(event.item_id))


# ---------------------------------------------------------------------------------- running


def ask_next(draft: Draft) -> None:
    """Every running plan asks for its next moves, as many as may be active at a time."""
    for plan in draft.plans.all():
        if plan.phase is PlanPhase.RUNNING:
            room = plan.at_a_time - draft.plans.asked_count(plan.id)
            for step in draft.plans.waiting(plan.id, STEPS_LOOKED_AT) if room > 0 else ():
                room -= _ask(draft, plan, step)
                if room <= 0:
                    break


def _ask(draft: Draft, plan: Plan, step: PlanStep) -> bool:
    """Ask for one move; False: it is skipped, and shown with the reason."""
    try:
        row = draft.partition(step.key)
        if row is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition any more")
        if draft.reassignment(step.key) is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, "another reassignment moves it")
        if row.version != step.version and row.assigned != step.origin:
            # An election or another ISR is no change of what was reviewed: replicas are.
            text = f"its replicas are {', '.join(map(str, row.assigned))} since the review"
            raise Refused(ErrorCode.INVALID_UPDATE_VERSION, text)
        reassignment.check_target(draft, row, step.target)
        reassignment.ask(
            draft,
            row,
            step.topic,
            step.target,
            uuid5(plan.id, str(step.number)),
            principal=plan.changed_by,
            throttle=plan.throttle,
            plan_id=plan.id,
            plan_step=step.number,
        )
    except Refused as refused:
        draft.plans.change_step(plan.id, step.number, StepState.SKIPPED, refused.text)
        return False
    draft.plans.change_step(plan.id, step.number, StepState.ASKED)
    return True


def hear_ends(draft: Draft) -> None:
    """Moves of plans that ended in this turn end their steps; a running plan without any is done."""
    for one in (*draft.reassignments.values(), *draft.failed_moves):
        if one.plan_id is not None and not one.is_active and draft.plans.plan(one.plan_id) is not None:
            draft.plans.change_step(one.plan_id, one.plan_step, _ENDED[one.phase], one.reason)
    draft.memory.planning = False
    for plan in draft.plans.all():
        if plan.phase is not PlanPhase.RUNNING:
            continue
        asked, waiting = draft.plans.asked_count(plan.id), draft.plans.waiting_count(plan.id)
        if waiting and asked < plan.at_a_time:
            draft.memory.planning = True
        elif not waiting and not asked:
            done = msgspec.structs.replace(plan, phase=PlanPhase.DONE, version=draft.version)
            draft.plans.put(done)
