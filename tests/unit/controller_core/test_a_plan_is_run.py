"""This room shows stored plans: proposed, reviewed, run a few moves at a time, paused, cancelled, over."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from controller.core.draft import ClusterDecision
from controller.core.events import Heard, PlanComputed, TimePassed, TookOver
from controller.core.plan_rows import Plan, PlanPhase, PlanStep, StepState
from controller.core.plans import COMPUTE_PLAN
from controller.core.records import PlanStepsChanged, WorkAdopted, WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import (
    AlterReassignments,
    DeleteTopics,
    FromBroker,
    NamedTopic,
    WantedReplicas,
)
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    PlanAnswer,
    PlanKind,
    PlannedMove,
    PlanOptions,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from tests.unit.controller_core.stage import ORDERS, Cluster, hello, row, said
from tests.unit.controller_core.test_a_partition_is_moved import ask, die, in_sync, loaded

ALL = (1, 2, 3)
DRAIN = PlanOptions(kind=PlanKind.DRAIN, brokers=(1,))


def cluster_of(count: int = 4, **settings: Any) -> Cluster:
    made = replace(ControllerSettings(), **settings)
    return Cluster([row(n, ALL, 1, ALL) for n in range(count)], brokers=4, settings=made)


def wish(cluster: Cluster, frame: FromBroker) -> PlanAnswer:
    decision = cluster.turn(Heard("link-2a", frame, uuid4()))
    [answer] = [one for one in said(decision, "link-2a") if isinstance(one, PlanAnswer)]
    return answer


def proposed(cluster: Cluster, options: PlanOptions = DRAIN, **wanted: int) -> UUID:
    frame = ProposePlan(correlation_id=1, options=options, principal="mira", reason="it is old", **wanted)
    answer = wish(cluster, frame)
    assert answer.plan_id is not None
    return answer.plan_id


def steps(cluster: Cluster) -> list[PlanStep]:
    """Broker 4 in the place of broker 1."""
    rows = cluster.state.rows.partitions.values()
    return [
        PlanStep(place, ORDERS, "orders", one.partition, one.version, one.assigned, (4, 2, 3))
        for place, one in enumerate(rows)
    ]


def computed(plan_id: UUID, made: list[PlanStep], part: int = 2, failure: str = "") -> PlanComputed:
    parts = [msgspec.json.encode(made[at : at + part]).decode() for at in range(0, len(made), part)]
    return PlanComputed("item", plan_id, tuple(parts), {"bytes": 7}, failure)


def running(cluster: Cluster, **wanted: int) -> UUID:
    plan_id = proposed(cluster, DRAIN, **wanted)
    decision = cluster.turn(computed(plan_id, steps(cluster)))
    while decision.look_again_at == cluster.now:
        decision = cluster.turn(TimePassed())
    assert wish(cluster, ApprovePlan(correlation_id=2, plan_id=plan_id, principal="ann")).text == ""
    assert wish(cluster, RunPlan(correlation_id=3, plan_id=plan_id, principal="ben")).phase == "Running"
    return plan_id


def plan(cluster: Cluster, plan_id: UUID) -> Plan:
    return cluster.state.rows.plans.plans[plan_id]


def outcomes(decision: ClusterDecision) -> list[tuple[StepState, tuple[int, ...], str]]:
    changed = [one for one in decision.records if isinstance(one, PlanStepsChanged)]
    return [(one.state, one.numbers, one.why) for one in changed]


def moving(cluster: Cluster) -> list[int]:
    return [one.partition for one in cluster.state.rows.reassignments.values()]


def test_a_plan_is_computed_reviewed_and_moves_nothing_before_it_runs() -> None:
    cluster = cluster_of()
    frame = ProposePlan(correlation_id=1, options=DRAIN, throttle=5_000, principal="mira", reason="old")
    plan_id = uuid4()
    decision = cluster.turn(Heard("link-2a", frame, plan_id))
    assert [r.key for r in decision.records if isinstance(r, WorkOffered) and r.kind == COMPUTE_PLAN] == [
        str(plan_id)
    ]
    assert (plan(cluster, plan_id).phase, plan(cluster, plan_id).reason) == (PlanPhase.COMPUTING, "old")
    decision = cluster.turn(computed(plan_id, steps(cluster)))
    now = plan(cluster, plan_id)
    assert (now.phase, now.step_count, now.cost) == (PlanPhase.DRAFT, 4, {"bytes": 7})
    assert [one.item_id for one in decision.records if isinstance(one, WorkAdopted)] == ["item"]
    refused = wish(cluster, RunPlan(correlation_id=2, plan_id=plan_id))
    assert refused.error is ErrorCode.OPERATION_NOT_ATTEMPTED and "Draft" in refused.text
    assert wish(cluster, ApprovePlan(correlation_id=3, plan_id=plan_id, principal="ann")).phase == "Approved"
    assert not cluster.state.rows.reassignments


def test_a_running_plan_has_only_so_many_moves_at_a_time() -> None:
    cluster = cluster_of()
    plan_id = running(cluster, at_a_time=2)
    assert moving(cluster) == [0, 1]
    in_sync(cluster, 4, 2, 3, 1)
    cluster.turn(TimePassed())
    assert moving(cluster) == [1, 2]
    one = cluster.state.rows.reassignments[ORDERS, 1]
    assert (one.principal, one.plan_id, one.plan_step) == ("ben", plan_id, 1)
    for number in (1, 2, 3):
        in_sync(cluster, 4, 2, 3, 1, partition=number)
        cluster.turn(TimePassed())
    assert plan_id not in cluster.state.rows.plans.plans, "done, and forgotten"
    assert [cluster.partition(n).assigned for n in range(4)] == [(4, 2, 3)] * 4


def test_the_turn_that_ends_the_last_move_ends_the_plan() -> None:
    cluster = cluster_of(1)
    plan_id = running(cluster)
    decision = in_sync(cluster, 4, 2, 3, 1)
    assert outcomes(decision) == [(StepState.DONE, (0,), "")]
    assert plan_id not in cluster.state.rows.plans.plans


def test_what_changed_since_the_review_is_skipped_and_an_election_is_no_change() -> None:
    """`plan_asks_changed`: a plan would undo what somebody decided after it was reviewed."""
    cluster = cluster_of(3)
    plan_id = proposed(cluster)
    cluster.turn(computed(plan_id, steps(cluster)))
    wish(cluster, ApprovePlan(correlation_id=2, plan_id=plan_id))
    ask(cluster, (1, 2))
    in_sync(cluster, 1, 2, partition=1)
    assert cluster.partition(1).version > 5
    frame = RunPlan(correlation_id=3, plan_id=plan_id)
    decision = cluster.turn(Heard("link-2a", frame, uuid4()))
    assert outcomes(decision) == [
        (StepState.SKIPPED, (0,), "its replicas are 1, 2 since the review"),
        (StepState.ASKED, (1, 2), ""),
    ]
    assert moving(cluster) == [1, 2]


def test_a_partition_that_another_moves_is_left_to_him() -> None:
    cluster = cluster_of(1)
    plan_id = proposed(cluster)
    cluster.turn(computed(plan_id, steps(cluster)))
    ask(cluster, (1, 2, 4))
    wish(cluster, ApprovePlan(correlation_id=2, plan_id=plan_id))
    decision = cluster.turn(Heard("link-2a", RunPlan(correlation_id=3, plan_id=plan_id), uuid4()))
    assert outcomes(decision) == [(StepState.SKIPPED, (0,), "another reassignment moves it")]
    assert cluster.state.rows.reassignments[ORDERS, 0].target == (1, 2, 4)


def test_pause_asks_nothing_more_and_run_goes_on() -> None:
    cluster = cluster_of()
    plan_id = running(cluster, at_a_time=1)
    assert wish(cluster, PausePlan(correlation_id=4, plan_id=plan_id)).phase == "Paused"
    in_sync(cluster, 4, 2, 3, 1)
    cluster.turn(TimePassed())
    assert moving(cluster) == []
    assert wish(cluster, RunPlan(correlation_id=5, plan_id=plan_id)).phase == "Running"
    assert moving(cluster) == [1]


@pytest.mark.parametrize("moves", [False, True])
def test_cancel_ends_the_plan_and_its_moves_if_that_is_wanted(moves: bool) -> None:
    cluster = cluster_of()
    plan_id = running(cluster, at_a_time=2)
    answer = wish(cluster, CancelPlan(correlation_id=4, plan_id=plan_id, moves=moves, reason="not now"))
    assert answer.phase == "Cancelled"
    assert moving(cluster) == ([] if moves else [0, 1])
    assert (plan_id in cluster.state.rows.plans.plans) is not moves
    if not moves:
        decision = in_sync(cluster, 4, 2, 3, 1)
        assert outcomes(decision) == [(StepState.DONE, (0,), "")]
        in_sync(cluster, 4, 2, 3, 1, partition=1)
    assert cluster.state.rows.plans == type(cluster.state.rows.plans)()


def test_a_move_that_cannot_go_back_goes_on_when_its_plan_is_cancelled() -> None:
    cluster = cluster_of(1, default_min_insync_replicas=2)
    plan_id = running(cluster)
    for broker_id in (2, 3):
        die(cluster, broker_id)
    in_sync(cluster, 1, 4)
    decision = cluster.turn(
        Heard("link-1a", CancelPlan(correlation_id=4, plan_id=plan_id, moves=True), uuid4())
    )
    [(state, numbers, why)] = outcomes(decision)
    assert (state, numbers) == (StepState.ASKED, (0,)) and why.startswith("goes on: 1 of the replicas")
    assert moving(cluster) == [0]


def test_whoever_reviewed_another_version_changes_nothing() -> None:
    cluster = cluster_of()
    plan_id = proposed(cluster)
    cluster.turn(computed(plan_id, steps(cluster)))
    version = plan(cluster, plan_id).version
    approve = ApprovePlan(correlation_id=2, plan_id=plan_id, expected_version=version - 1)
    refused = wish(cluster, approve)
    assert (refused.error, refused.version) == (ErrorCode.INVALID_UPDATE_VERSION, version)
    assert str(version) in refused.text
    assert wish(cluster, msgspec.structs.replace(approve, expected_version=version)).phase == "Approved"


def test_a_plan_goes_on_under_the_next_owner() -> None:
    cluster = cluster_of()
    plan_id = running(cluster, at_a_time=1)
    rows = loaded(cluster.state.rows)
    rows.plans = cluster.state.rows.plans.copy()
    cluster.state = ClusterState(rows)
    cluster.turn(TookOver(8))
    for broker_id in (1, 2, 3, 4):
        cluster.turn(hello(broker_id))
    in_sync(cluster, 4, 2, 3, 1)
    cluster.turn(TimePassed())
    assert moving(cluster) == [1] and plan(cluster, plan_id).phase is PlanPhase.RUNNING


def test_many_steps_are_stored_in_several_turns_and_another_owner_goes_on_behind_them() -> None:
    cluster = cluster_of(12)
    plan_id = proposed(cluster)
    event = computed(plan_id, steps(cluster))
    decision = cluster.turn(event)
    assert plan(cluster, plan_id).step_count == 4 and decision.look_again_at == cluster.now
    assert plan(cluster, plan_id).phase is PlanPhase.COMPUTING
    rows = loaded(cluster.state.rows)
    rows.plans = cluster.state.rows.plans.copy()
    cluster.state = ClusterState(rows)
    cluster.turn(TookOver(8))
    decision = cluster.turn(event)
    while decision.look_again_at == cluster.now:
        decision = cluster.turn(TimePassed())
    now = plan(cluster, plan_id)
    assert (now.phase, now.step_count) == (PlanPhase.DRAFT, 12)
    assert list(cluster.state.rows.plans.waiting[plan_id]) == list(range(12))


def test_what_cannot_be_computed_fails_with_the_reason() -> None:
    cluster = cluster_of()
    plan_id = proposed(cluster)
    cluster.turn(computed(plan_id, [], failure="no broker is left"))
    assert plan_id not in cluster.state.rows.plans.plans
    answer = wish(cluster, ApprovePlan(correlation_id=2, plan_id=plan_id))
    assert answer.error is ErrorCode.OPERATION_NOT_ATTEMPTED


def test_a_plan_without_steps_is_done_when_it_runs() -> None:
    cluster = cluster_of()
    plan_id = proposed(cluster)
    cluster.turn(computed(plan_id, []))
    wish(cluster, ApprovePlan(correlation_id=2, plan_id=plan_id))
    wish(cluster, RunPlan(correlation_id=3, plan_id=plan_id))
    assert plan_id not in cluster.state.rows.plans.plans


def test_the_rate_of_a_plan_is_that_of_its_moves_and_ends_with_each() -> None:
    cluster = cluster_of(2)
    plan_id = running(cluster, throttle=5_000)
    assert [cluster.partition(n).throttle for n in (0, 1)] == [5_000, 5_000]
    wish(cluster, ThrottlePlan(correlation_id=4, plan_id=plan_id, throttle=9_000))
    assert [cluster.partition(n).throttle for n in (0, 1)] == [9_000, 9_000]
    assert plan(cluster, plan_id).throttle == 9_000
    in_sync(cluster, 4, 2, 3, 1)
    assert [cluster.partition(n).throttle for n in (0, 1)] == [0, 9_000]
    wish(cluster, CancelPlan(correlation_id=5, plan_id=plan_id, moves=True))
    assert cluster.partition(1).throttle == 0


def test_a_deleted_topic_ends_its_steps() -> None:
    cluster = cluster_of()
    plan_id = running(cluster, at_a_time=2)
    frame = DeleteTopics(correlation_id=9, topics=(NamedTopic(name="orders"),))
    decision = cluster.turn(Heard("link-1a", frame, uuid4()))
    assert outcomes(decision)[-1][0] is StepState.FAILED
    cluster.turn(TimePassed())
    assert plan_id not in cluster.state.rows.plans.plans


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (PlanOptions(kind=PlanKind.DRAIN), ErrorCode.INVALID_REQUEST),
        (PlanOptions(kind=PlanKind.DRAIN, brokers=(9,)), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (PlanOptions(kind=PlanKind.DRAIN, brokers=(1, 2, 3, 4)), ErrorCode.INVALID_REQUEST),
        (PlanOptions(kind=PlanKind.SPREAD, topics=("nine",)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            PlanOptions(kind=PlanKind.REPLICATION_FACTOR, replication_factor=5),
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ),
        (PlanOptions(kind=PlanKind.EXPLICIT), ErrorCode.INVALID_REQUEST),
        (
            PlanOptions(
                kind=PlanKind.EXPLICIT,
                partitions=(PlannedMove(topic="orders", partition=0, replicas=(1, 1)),),
            ),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            PlanOptions(
                kind=PlanKind.EXPLICIT, partitions=(PlannedMove(topic="orders", partition=9, replicas=(1,)),)
            ),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (PlanOptions(kind=PlanKind.UNDO), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_no_worker_could_compute_is_refused(options: PlanOptions, error: ErrorCode) -> None:
    answer = wish(cluster_of(), ProposePlan(correlation_id=1, options=options))
    assert (answer.error, answer.plan_id) == (error, None) and answer.text


def test_so_many_plans_are_kept_open_and_no_more() -> None:
    cluster = cluster_of()
    for _ in range(20):
        proposed(cluster)
    assert wish(cluster, ProposePlan(correlation_id=1, options=DRAIN)).error is ErrorCode.POLICY_VIOLATION


def test_of_a_hundred_thousand_that_wait_a_turn_looks_at_few() -> None:
    """Each waits for the broker that is too busy for it, and is looked at when that one has room."""
    count = 3_000
    cluster = Cluster([row(n, ALL, 1, ALL) for n in range(count)], brokers=4)
    wanted = tuple(WantedReplicas(topic="orders", partition=n, replicas=(4, 2, 3)) for n in range(count))
    decision = cluster.turn(
        Heard("link-1a", AlterReassignments(correlation_id=1, partitions=wanted), uuid4())
    )
    turns = 1
    while decision.look_again_at == cluster.now:
        decision = cluster.turn(TimePassed())
        turns += 1
    assert turns == 4, "a thousand looks each, and one that finds nothing more"
    assert len(cluster.state.rows.moving) == 100
    for number in range(3):
        in_sync(cluster, 4, 2, 3, 1, partition=number)
    assert sorted(number for _, number in cluster.state.rows.moving) == list(range(3, 103))
