"""This room renders what elections have lost, and lets operators acknowledge it."""

from typing import Any, Final

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from access.cursors import NotOurs, opened, sealed
from access.filters import text_filter, word_filter
from access.grants import Operation
from access.pages import may, needs
from access.rest.problems import Problem
from controller import fingerprints, losses, standing
from controller.actions import Action, Stated, Target
from controller.losses_api import LOSSES_MAX, STATES
from controller.paging import asked_of
from muster.messages.link.from_broker import Wish
from muster.messages.link.losses import AcknowledgeLosses, NamedLoss
from muster.messages.link.to_broker import WishAnswer

LOSSES_OF_A_PAGE = 50
_SHOWS: Final = (("", "All"), ("open", "Not acknowledged"), ("acknowledged", "Acknowledged"))
_LISTED: Final = "what elections lost"


@require_safe
@needs(Operation.VIEW)
def loss_list(request: HttpRequest) -> HttpResponse:
    """Every election that may have lost records, newest first."""
    here = standing.of(request)
    asked = asked_of(
        request,
        request.path,
        word_filter("state", STATES, "Open ones, or acknowledged ones."),
        text_filter("topic", "Only of this topic.", 249),
        text_filter("after", "Where the page before ended.", 2048),
    )
    of = [_LISTED, asked.get("state", ""), asked.get("topic", "")]
    try:
        before = opened(asked["after"], of)[0] if "after" in asked else None
    except NotOurs as error:
        raise BadRequest(f"{error} Begin at {request.path}.") from error
    found = losses.listed(
        topic=asked.get("topic"), state=asked.get("state"), before=before, limit=LOSSES_OF_A_PAGE + 1
    )
    rows = found[:LOSSES_OF_A_PAGE]
    follow = len(found) > LOSSES_OF_A_PAGE
    context = {
        "section": "topics",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "losses": rows,
        "open": losses.unacknowledged(LOSSES_OF_A_PAGE),
        "most": LOSSES_MAX,
        "state": asked.get("state", ""),
        "shows": _SHOWS,
        "topic": asked.get("topic", ""),
        "first": before is not None,
        "next": sealed([rows[-1].row.id], of) if follow else "",
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "controller/losses.html", context)


class AcknowledgeLoss(Action):
    """Somebody has seen what an election lost: it is a finding no more."""

    title = "Acknowledge what it lost"
    named_by = frozenset({"loss_id"})
    would = "controller/would_acknowledge.html"

    def target(self, **address: Any) -> Target:
        loss_id = address["loss_id"]
        found = losses.one(loss_id) if loss_id < 2**63 else None
        if found is None:
            raise Http404("no such election")
        crumbs = (("Topics", reverse("topics")), ("What elections lost", reverse("losses")))
        return Target(found.name, crumbs, str(found.row.version), found)

    def wish(self, target: Target, stated: Stated, version: str) -> AcknowledgeLosses:
        return AcknowledgeLosses(losses=(_named(target.row, int(version)),))

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        return {"loss": target.row}


class AcknowledgeAll(Action):
    """Somebody has seen what the elections lost that nobody has acknowledged: one crash may leave hundreds.

    Its version is the highest of their rows: what was told after the form was shown stays a finding.
    """

    title = "Acknowledge them"
    would = "controller/would_acknowledge_all.html"

    def target(self, **address: Any) -> Target:
        rows = losses.changed_first(LOSSES_MAX)
        crumbs = (("Topics", reverse("topics")), ("What elections lost", reverse("losses")))
        return Target("", crumbs, str(max((one.row.version for one in rows), default=0)), rows)

    def wish(self, target: Target, stated: Stated, version: str) -> AcknowledgeLosses:
        seen = [one for one in target.row if one.row.version <= int(version)]
        if not seen:
            raise Problem(409, "Nothing that this form has shown is open any more.")
        return AcknowledgeLosses(losses=tuple(_named(one, one.row.version) for one in seen))

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        named = set(wish.losses) if isinstance(wish, AcknowledgeLosses) else set()
        seen = [one for one in target.row if _named(one, one.row.version) in named]
        return {
            "number": len(seen),
            "lost": sum(one.lost or 0 for one in seen),
            "unknown": sum(one.lost is None for one in seen),
            "waits_for": sorted({broker for one in seen for broker in one.waits_for}),
            "losses": seen[:LOSSES_OF_A_PAGE],
            "more": max(0, len(seen) - LOSSES_OF_A_PAGE),
            "left": losses.unacknowledged(1).number - len(seen),
        }


def _named(loss: losses.LossRow, version: int) -> NamedLoss:
    row = loss.row
    return NamedLoss(
        topic=row.topic_name, partition=row.partition, leader_epoch=row.leader_epoch, expected_version=version
    )
