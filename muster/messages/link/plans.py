"""This room holds what people ask of plans, which move many partitions, and what they are answered."""

from enum import StrEnum
from uuid import UUID

import msgspec

from muster.kernel.error_codes import ErrorCode


class PlanKind(StrEnum):
    """What a plan is for."""

    SPREAD = "spread"
    """Replicas and leaders evenly over all live brokers, with as few bytes moved as possible."""
    DRAIN = "drain"
    """Nothing is left on `brokers`."""
    FILL = "fill"
    """`brokers`, which are new, get as much as the others have."""
    REPLICATION_FACTOR = "replication-factor"
    """`topics` get `replication_factor` replicas."""
    RACKS = "racks"
    """No two replicas of a partition on one rack, where there are racks enough."""
    EXPLICIT = "explicit"
    """`partitions` go where they say."""
    UNDO = "undo"
    """What the plan `undoes` has moved goes back, where it still is where that plan brought it."""


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """Where one partition is to be."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is to do. No `topics`: all."""

    kind: PlanKind
    brokers: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    replication_factor: int = 0
    partitions: tuple[PlannedMove, ...] = ()
    undoes: UUID | None = None


class ProposePlan(msgspec.Struct, frozen=True, tag="ProposePlan", tag_field="type", kw_only=True):
    """Compute a plan, to be reviewed before anything moves.

    `throttle`: bytes a second that a broker may send, and that it may take, for moves of the plan; 0: any.
    `at_a_time`: how many of its moves may be active; 0: as many as the controller allows.
    """

    correlation_id: int = 0
    options: PlanOptions
    throttle: int = 0
    at_a_time: int = 0
    principal: str = ""
    reason: str = ""


class PlanWish(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    """What is asked of a stored plan. `expected_version`: refused if the plan has another; None: any."""

    correlation_id: int = 0
    plan_id: UUID
    expected_version: int | None = None
    principal: str = ""
    reason: str = ""


class ApprovePlan(PlanWish, frozen=True, tag="ApprovePlan", kw_only=True):
    """It was reviewed and may run."""


class RunPlan(PlanWish, frozen=True, tag="RunPlan", kw_only=True):
    """Begin, or go on after a pause."""


class PausePlan(PlanWish, frozen=True, tag="PausePlan", kw_only=True):
    """Ask for no more moves; those that are active go on."""


class CancelPlan(PlanWish, frozen=True, tag="CancelPlan", kw_only=True):
    """End the plan; with `moves` its active moves, too: these partitions go back."""

    moves: bool = False


class ThrottlePlan(PlanWish, frozen=True, tag="ThrottlePlan", kw_only=True):
    """Another rate, for its active moves at once; 0: any."""

    throttle: int


class PlanAnswer(msgspec.Struct, frozen=True, tag="PlanAnswer", tag_field="type", kw_only=True):
    """The plan as it is now, or why nothing was done; `plan_id` None: there is none."""

    correlation_id: int = 0
    plan_id: UUID | None = None
    phase: str = ""
    version: int = 0
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
