"""This room is what operators do to plans on pages: propose, approve, run, pause, throttle, cancel, undo."""

from typing import Any
from uuid import UUID

from django.http import Http404
from django.template.loader import render_to_string
from django.urls import reverse

from access.rest.problems import Problem
from controller import asking, catching_up, choosing, move_queries
from controller.actions import Action, Stated, Target, brokers_of, megabytes, valid, whole
from controller.plans_api import (
    ApprovePlanShape,
    CancelPlanShape,
    NewPlanShape,
    PausePlanShape,
    PlanChangeShape,
    RunPlanShape,
    ThrottlePlanShape,
)
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import Wish
from muster.messages.link.plans import PlanAnswer, ThrottlePlan
from muster.messages.link.to_broker import WishAnswer

KINDS = (
    ("drain", "Drain brokers: nothing is left on them"),
    ("fill", "Fill brokers: they get as much as the others have"),
    ("spread", "Spread evenly over all live brokers"),
    ("racks", "No two replicas of a partition on one rack"),
    ("replication-factor", "Another number of replicas"),
)
_LIST = "Reassignments"


def address_of_plan(row: asking.Request) -> str:
    """The page of the plan that the answer names; "": it names none, or refuses."""
    answer = row.answer
    if not isinstance(answer, PlanAnswer) or answer.plan_id is None or answer.error is not ErrorCode.NONE:
        return ""
    return reverse("plan", args=[answer.plan_id])


def name_of(plan: move_queries.PlanRow) -> str:
    """`Drain broker 3`."""
    return render_to_string("controller/plan_name.html", {"plan": plan}).strip()


class ProposePlan(Action):
    """A plan for a worker to compute; nothing moves before it was approved and run."""

    title = "Propose a plan"
    section = "reassignments"
    fields = "controller/fields_plan.html"
    at_once = True

    def target(self, **address: Any) -> Target:
        crumbs = (("Reassignments", reverse("reassignments")),)
        return Target("", crumbs, facts={"kinds": KINDS, "choice": choosing.choice()})

    def wish(self, target: Target, stated: Stated, version: str) -> Wish:
        kind = stated.get("kind", "")
        body: dict[str, Any] = {"kind": kind, "reason": stated.get("reason", "")}
        if kind in ("drain", "fill"):
            body["brokers"] = brokers_of(stated.get("brokers", ""), "Brokers")
        if kind == "replication-factor":
            body["replication_factor"] = whole(stated.get("replication_factor", ""), "Replicas of each")
        if stated.get("topics", "").strip():
            body["topics"] = stated["topics"].split()
        if stated.get("throttle", "").strip():
            body["throttle"] = megabytes(stated["throttle"], "Throttle")
        if stated.get("at_a_time", "").strip():
            body["at_a_time"] = whole(stated["at_a_time"], "Moves at a time")
        return valid(NewPlanShape(data=body)).wish()  # type: ignore[attr-defined, no-any-return]

    def leads_to(self, row: asking.Request) -> str:
        return address_of_plan(row)


class OfPlan(Action):
    """Another phase or rate of a stored plan."""

    section = "reassignments"
    named_by = frozenset({"plan_id"})
    would = "controller/would_plan.html"
    shape: type[PlanChangeShape]
    kind: str

    def target(self, **address: Any) -> Target:
        found = move_queries.plan(address["plan_id"])
        if found is None:
            raise Http404("no such plan")
        label = name_of(found)
        crumbs = ((_LIST, reverse("reassignments")), (label, reverse("plan", args=[found.id])))
        return Target(label, crumbs, str(found.version), found)

    def body(self, stated: Stated) -> dict[str, Any]:
        """What the shape is given beside kind and reason. Raises Problem."""
        return {}

    def wish(self, target: Target, stated: Stated, version: str) -> Wish:
        said = {"kind": self.kind, "reason": stated.get("reason", ""), **self.body(stated)}
        made: Wish = valid(self.shape(data=said)).wish(target.row.id, int(version))  # type: ignore[attr-defined]
        return made

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        row: move_queries.PlanRow = target.row
        counts = move_queries.step_counts(row)
        facts = {"kind": self.kind, "plan": row, "cost": row.cost, "steps": counts, "wish": wish}
        return {**facts, "too_slow": self._too_slow(row, wish)}

    def _too_slow(self, row: move_queries.PlanRow, wish: Wish) -> list[catching_up.Behind]:
        """Where the rate would not be above what producers write, of what this wish lets move."""
        if isinstance(wish, ThrottlePlan):
            return catching_up.of_plan(row.id, wish.throttle, row.at_a_time)
        return catching_up.of_row(row) if self.kind in ("approve", "run") else []

    def leads_to(self, row: asking.Request) -> str:
        return address_of_plan(row)


class Approve(OfPlan):
    """It was reviewed and may run."""

    title = "Approve the plan"
    shape = ApprovePlanShape
    kind = "approve"


class Run(OfPlan):
    """Begin, or go on after a pause."""

    title = "Run the plan"
    shape = RunPlanShape
    kind = "run"


class Pause(OfPlan):
    """Ask for no more moves; those that are active go on."""

    title = "Pause the plan"
    shape = PausePlanShape
    kind = "pause"


class Throttle(OfPlan):
    """Another rate, for its active moves at once."""

    title = "Change its rate"
    shape = ThrottlePlanShape
    kind = "throttle"
    fields = "controller/fields_plan_rate.html"

    def body(self, stated: Stated) -> dict[str, Any]:
        text = stated.get("throttle", "").strip()
        return {"throttle": megabytes(text, "Throttle") if text else 0}


class Cancel(OfPlan):
    """End it, with its active moves or without."""

    title = "Cancel the plan"
    shape = CancelPlanShape
    kind = "cancel"
    loses = True
    fields = "controller/fields_plan_cancel.html"

    def body(self, stated: Stated) -> dict[str, Any]:
        return {"moves": "moves" in stated}


class Undo(OfPlan):
    """A plan that takes back what this one moved; it is reviewed like any other."""

    title = "Propose to undo it"
    kind = "undo"

    def wish(self, target: Target, stated: Stated, version: str) -> Wish:
        if not target.row.is_over:
            raise Problem(409, f"The plan is {target.row.phase}: cancel it first, or let it end.")
        plan_id: UUID = target.row.id
        body = {
            "kind": "undo",
            "undoes": str(plan_id),
            "throttle": target.row.throttle,
            "reason": stated.get("reason", ""),
        }
        return valid(NewPlanShape(data=body)).wish()  # type: ignore[attr-defined, no-any-return]
