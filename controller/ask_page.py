"""This room renders how an operator changes the cluster: a form, what would come of it, what became of it."""

import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from rest_framework.exceptions import ValidationError

from access.confirming import LONGEST_TYPED, is_confirmed, written_out
from access.cursors import NotOurs, opened, sealed
from access.filters import text_filter, word_filter
from access.grants import Operation
from access.pages import needs
from access.rest.problems import RETRY_AFTER_S, Problem
from controller import asking, fingerprints, history, move_queries, outcomes, plan_actions, standing
from controller.actions import Action, Target, faults_of
from controller.asked_about import About, Verdict
from controller.broker_actions import Cordon, Uncordon, Unregister
from controller.loss_page import AcknowledgeAll, AcknowledgeLoss
from controller.models import Topic
from controller.paging import asked_of
from controller.partition_actions import CancelMove, ElectAnyLive, ElectLeader, MovePartition
from controller.quota_actions import ChangeQuota, RemoveQuota, SetQuota
from controller.requests_api import REASON_LENGTH
from controller.topic_actions import (
    AddPartitions,
    ChangeConfigs,
    CreateTopic,
    DeleteTopic,
    ElectPreferred,
    ElectPreferredOfTopic,
    RemovePartitions,
)
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import CordonBroker
from muster.messages.link.from_broker import ElectLeaders, Wish
from muster.messages.link.plans import PlanWish
from muster.messages.link.to_broker import WishAnswer
from runtime.requests import LOOKING, AnotherAsked, TooManyOpen

ACTIONS: Final[dict[str, Action]] = {
    "create-topic": CreateTopic(),
    "add-partitions": AddPartitions(),
    "remove-partitions": RemovePartitions(),
    "change-configs": ChangeConfigs(),
    "delete-topic": DeleteTopic(),
    "move-partition": MovePartition(),
    "elect-leader": ElectLeader(),
    "elect-any-live": ElectAnyLive(),
    "elect-preferred": ElectPreferred(),
    "elect-preferred-of": ElectPreferredOfTopic(),
    "cancel-move": CancelMove(),
    "acknowledge-loss": AcknowledgeLoss(),
    "acknowledge-losses": AcknowledgeAll(),
    "cordon-broker": Cordon(),
    "uncordon-broker": Uncordon(),
    "unregister-broker": Unregister(),
    "set-quota": SetQuota(),
    "change-quota": ChangeQuota(),
    "remove-quota": RemoveQuota(),
    "propose-plan": plan_actions.ProposePlan(),
    "plan-approve": plan_actions.Approve(),
    "plan-run": plan_actions.Run(),
    "plan-pause": plan_actions.Pause(),
    "plan-throttle": plan_actions.Throttle(),
    "plan-cancel": plan_actions.Cancel(),
    "plan-undo": plan_actions.Undo(),
}

RESULTS_SHOWN = 500
REQUESTS_OF_A_PAGE = 100
_LISTED: Final = ["requests to the controller"]
_STATES: Final = {
    "waiting": "Waits",
    "done": "Done, or only looked at",
    "refused": "Refused, or in part",
    "failed": "Failed",
}
_OF_THE_FORM = ("csrfmiddlewaretoken", "version", "key", "shown", "go", "confirm", "reason")


class _ChangedMeanwhile(Exception):
    """What the form is about has another version by now; the text says which."""


class _Silent(Exception):
    """The controller has not judged a wish in the time that one waits for it."""


_WHY: Final[dict[type[Exception], tuple[int, str]]] = {
    AnotherAsked: (400, "This form was sent already with other words. Begin again."),
    TooManyOpen: (429, "Too many of your requests have no answer yet. Wait for them, then send it again."),
    asking.TooLarge: (413, "This is too large to be asked at once. Ask for less at a time."),
    asking.Unstorable: (400, "No name and no value may hold U+0000. Nothing was changed."),
    _Silent: (503, "The controller does not answer. Nothing was changed; what there is goes on. Try again."),
}
_ASK_AGAIN: Final = (429, 503)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Operation.OPERATE)
def ask(request: HttpRequest, kind: str, **address: Any) -> HttpResponse:
    """A form; posted, what would come of it; posted again with `go`, it is asked."""
    action = ACTIONS.get(kind)
    if action is None or action.named_by != address.keys():
        raise Http404
    principal = request.user.get_username()
    # Before anything is looked at: what it was about may be gone, or is another, because this form did it.
    if "go" in request.POST and (before := asking.asked_under(principal, _key(request))):
        return _onward(action, before)
    target = action.target(**address)
    stated = request.POST if request.method == "POST" else request.GET
    context: dict[str, Any] = {
        "section": action.section,
        "action": action,
        "title": action.title,
        "target": target,
        "stated": stated,
        "version": stated.get("version") or target.version,
        "key": stated.get("key") or uuid4().hex,
        "longest_typed": LONGEST_TYPED,
    }
    context["may_go"] = action.at_once
    if request.method != "POST" and action.fields:
        return render(request, "controller/ask.html", context)
    faults: list[str] = []
    status = 400
    try:
        version = _version(context["version"], target)
        wish = action.wish(target, _reasoned(request), version)
        judged, faults = _judge(request, action, wish)
        context["would"] = {} if faults else action.consequences(target, wish, judged)
        hasty = _hasty(request, action, target) if "go" in request.POST else []
        if "go" in request.POST and not faults and not hasty:
            reason = request.POST["reason"].strip()
            return _onward(action, asking.ask(wish, principal, reason, _key(request)))
        faults += hasty
        context |= {"may_go": bool(context["would"]), "shown": _fingerprint(request)}
    except _ChangedMeanwhile as error:
        # Sent again it would be refused again: it is about what was.
        faults, status, context["changed"] = [str(error)], 409, True
    except ValidationError as error:
        faults = faults_of(error.detail)
    except Problem as error:
        faults = [str(error.detail)]
    except (AnotherAsked, TooManyOpen, asking.TooLarge, asking.Unstorable, _Silent) as error:
        status, text = _WHY[type(error)]
        faults = [text]
    context["faults"] = faults
    answer = render(request, "controller/ask.html", context, status=status if faults else 200)
    if answer.status_code in _ASK_AGAIN:
        answer["Retry-After"] = RETRY_AFTER_S
    return answer


def _key(request: HttpRequest) -> str:
    """It belongs to this form and to what it states: sent twice as it is, it is done once."""
    return f"{request.POST.get('key') or uuid4().hex}-{_fingerprint(request)}"


def _onward(action: Action, row: asking.Request) -> HttpResponse:
    return redirect(action.leads_to(row) or reverse("cluster-request", args=[row.id]))


def _judge(request: HttpRequest, action: Action, wish: Wish) -> tuple[WishAnswer | None, list[str]]:
    """The controller's word on the wish before it is asked, if it can be judged, and why it would refuse.

    Raises _ChangedMeanwhile and _Silent.
    """
    trial = action.trial(wish)
    if trial is None:
        return None, []
    row = asking.ask(trial, request.user.get_username(), LOOKING)
    outcome = outcomes.of(row)
    if outcome.verdict is Verdict.WOULD_BE_DONE:
        return row.answer, []
    if outcome.verdict is Verdict.WAITING:
        raise _Silent
    for one in outcome.refusals:
        if one.error is ErrorCode.INVALID_UPDATE_VERSION:
            raise _ChangedMeanwhile(one.words)
    return None, [one.words for one in outcome.refusals] or [outcome.text]


def _reasoned(request: HttpRequest) -> dict[str, str]:
    """What the form states. What would come of it is shown before anybody has said why."""
    stated = {name: str(value) for name, value in request.POST.items()}
    if "go" not in request.POST and not stated.get("reason", "").strip():
        stated["reason"] = LOOKING
    return stated


def _version(stated: str, target: Target) -> str:
    """The version that the form was made of. Raises Problem."""
    if target.version and not (stated.isascii() and stated.isdecimal() and len(stated) < 20):
        raise Problem(400, "The form does not say which version it is about.")
    return stated


def _hasty(request: HttpRequest, action: Action, target: Target) -> list[str]:
    """Why it is not done yet, though it was asked for: what would come of it is shown (again) instead."""
    reason = request.POST.get("reason", "").strip()
    if not 1 <= len(reason) <= REASON_LENGTH or "\x00" in reason:
        return [f"Nothing was done: say why, in 1 to {REASON_LENGTH} characters."]
    if request.POST.get("shown", "") not in ("", _fingerprint(request)):
        return ["Nothing was done: the form says something else than before. This is what would come of it."]
    if action.by_name and not is_confirmed(request.POST.get("confirm", ""), target.label):
        return [f"Nothing was done: type {written_out(target.label)} as it is shown, then send it again."]
    return []


def _fingerprint(request: HttpRequest) -> str:
    """Of what is asked, its reason left aside: only what was shown is done."""
    stated = sorted((name, value) for name, value in request.POST.items() if name not in _OF_THE_FORM)
    return sha256(json.dumps(stated).encode()).hexdigest()[:16]


@require_safe
@needs(Operation.VIEW)
def listed(request: HttpRequest) -> HttpResponse:
    """What was asked of the controller, newest first."""
    asked = asked_of(
        request,
        request.path,
        text_filter("q", "In who asked, or why; in capitals or not."),
        word_filter("kind", outcomes.KINDS, "Only such requests."),
        word_filter("state", _STATES, "Only those of which this became."),
        text_filter("after", "Where the page before ended.", 2048),
    )
    wanted = {"contains": asked.get("q", ""), "kind": asked.get("kind", ""), "state": asked.get("state", "")}
    of = [*_LISTED, *wanted.values()]
    try:
        place = opened(asked["after"], of) if "after" in asked else None
    except NotOurs as error:
        raise BadRequest(f"{error} Begin at {request.path}.") from error
    after = (datetime.fromisoformat(place[0]), UUID(place[1])) if place else None
    rows = asking.requests_after(after, REQUESTS_OF_A_PAGE + 1, **wanted)
    last = rows[REQUESTS_OF_A_PAGE - 1] if len(rows) > REQUESTS_OF_A_PAGE else None
    context = {
        "section": "cluster",
        "rows": _with_what_they_are_about(request, rows[:REQUESTS_OF_A_PAGE]),
        "first": after is not None,
        "next": sealed([last.asked_at.isoformat(), str(last.id)], of) if last else "",
        "narrowed": any(wanted.values()),
        "query": urlencode([(name, asked[name]) for name in ("q", "kind", "state") if name in asked]),
        "states": _STATES.items(),
        "kinds": [(kind, outcomes.title_of(kind)) for kind in outcomes.KINDS],
        **wanted,
    }
    return render(request, "controller/requests.html", context)


def _with_what_they_are_about(
    request: HttpRequest, rows: Sequence[asking.ListedRequest]
) -> list[tuple[asking.ListedRequest, list[tuple[str, str]]]]:
    """Each with what it names, in words, and the address of its page; "": it has none now."""
    named = [one for row in rows for one in row.about]
    topics = history.topics_there(one.name for one in named if one.kind in ("topic", "partition"))
    brokers = {str(row.broker.broker_id) for row in standing.of(request).brokers}
    plans = move_queries.plans_named({UUID(one.name) for one in named if one.kind == "plan"})

    def led_to(one: About) -> tuple[str, str]:
        if one.kind == "plan" and (plan := plans.get(UUID(one.name))):
            return plan_actions.name_of(plan), reverse("plan", args=[plan.id])
        # Kafka's clients may name any number, also one below 0.
        if one.partition is not None and 0 <= one.partition < topics.get(one.name, 0):
            return one.label, reverse("partition", args=[one.name, one.partition])
        if one.kind == "topic" and one.name in topics:
            return one.label, reverse("topic", args=[one.name])
        if one.kind == "broker" and one.name in brokers:
            return one.label, reverse("broker", args=[one.name])
        return one.label, {"quota": reverse("quotas"), "cluster": reverse("cluster")}.get(one.kind, "")

    return [(row, [led_to(one) for one in row.about]) for row in rows]


@require_safe
@needs(Operation.VIEW)
def told(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """One request to the controller, and what became of it."""
    row = asking.request_of(request_id)
    if row is None:
        raise Http404
    outcome = outcomes.of(row)
    topics = _there(outcome)
    plan = _plan_of(row.wish, outcome)
    context = {
        "section": "reassignments" if plan else "topics" if topics else "cluster",
        # What is created is without a leader for a moment. An answer that is waited for changes no row here.
        "watch": "" if outcome.verdict is Verdict.WAITING else fingerprints.CLUSTER,
        "rendered": standing.of(request).fingerprint,
        "row": row,
        "outcome": outcome,
        "title": _title_of(row.wish),
        "results": outcome.results[:RESULTS_SHOWN],
        "more": max(0, len(outcome.results) - RESULTS_SHOWN),
        "topics": topics,
        "plan": plan,
        "onwards": _onwards(row.wish, outcome, topics, plan),
    }
    return render(request, "controller/asked.html", context)


def _title_of(wish: Wish) -> str:
    """What was asked, as its form is called where one wish is two actions."""
    if isinstance(wish, CordonBroker):
        return Cordon.title if wish.cordoned else Uncordon.title
    return outcomes.title_of(outcomes.kind_of(wish))


def _there(outcome: outcomes.Outcome) -> set[str]:
    """Which of the topics that it names have a page now."""
    named = {one.name for one in outcome.results[:RESULTS_SHOWN] if one.kind in ("topic", "partition")}
    return set(Topic.objects.filter(name__in=named).values_list("name", flat=True))


def _plan_of(wish: Wish, outcome: outcomes.Outcome) -> move_queries.PlanRow | None:
    """The plan that it is about; a refusal may not name it."""
    named = next((one.name for one in outcome.results if one.kind == "plan"), "")
    plan_id = UUID(named) if named else wish.plan_id if isinstance(wish, PlanWish) else None
    return None if plan_id is None else move_queries.plan(plan_id)


def _onwards(
    wish: Wish, outcome: outcomes.Outcome, topics: set[str], plan: move_queries.PlanRow | None
) -> list[tuple[str, str]]:
    """Where one goes from here: addresses and what they are called."""
    onwards = [(reverse("topic", args=[name]), f"To {name}") for name in sorted(topics)[:1]]
    changed = (
        one.name
        for one in outcome.refusals
        if one.error is ErrorCode.INVALID_UPDATE_VERSION and one.name in topics
    )
    if name := next(changed, ""):
        onwards.append((f"{reverse('journal')}?{urlencode({'topic': name})}", "What changed it"))
    if plan is not None:
        onwards.append((reverse("plan", args=[plan.id]), f"To {plan_actions.name_of(plan)}"))
    if isinstance(wish, ElectLeaders):
        lost = [(reverse("losses"), "What elections lost")] if wish.unclean else []
        return onwards + lost or [(reverse("topics"), "All topics")]
    kinds = {one.kind for one in outcome.results}
    lists = [(reverse(name), words) for kind, name, words in _LISTS if kind in kinds]
    return onwards + lists or [(reverse("cluster-requests"), "All requests")]


_LISTS: Final = (
    ("partition", "reassignments", "All reassignments"),
    ("topic", "topics", "All topics"),
    ("partition", "topics", "All topics"),
    ("broker", "brokers", "All brokers"),
    ("quota", "quotas", "All quotas"),
    ("plan", "plans", "All plans"),
)
