"""This room renders how an operator asks something of a group: a form, what would change, the outcome."""

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe
from rest_framework.exceptions import ValidationError

from access.confirming import LONGEST_TYPED, is_confirmed, meant, written_out
from access.grants import Operation
from access.pages import may, needs
from access.rest.problems import RETRY_AFTER_S, Problem
from groups import asking, requests_api
from groups.core.requests import (
    ASSIGNORS,
    QUARANTINE_MAX_MS,
    REBALANCE_MODES,
    ResetOffsets,
    Verdict,
    kind_of,
)
from groups.models import ConsumerGroup
from runtime.requests import LOOKING, AnotherAsked, TooManyOpen

CHANGES_SHOWN = 500

TITLES = {
    "remove_member": "Remove a member",
    "lift_quarantine": "Let a member come again",
    "rebalance": "Rebalance now",
    "set_strategy": "Assign otherwise",
    "delete_group": "Delete the group",
    "delete_offsets": "Delete offsets",
    "reset_offsets": "Reset offsets",
    "undo_reset": "Undo a reset",
}
_RESETS = (
    ("earliest", "the beginning"),
    ("latest", "the end"),
    ("time", "a time"),
    ("offset", "an offset"),
    ("shift", "shifted"),
    ("group", "as another group"),
)
_LOSES = ("remove_member", "delete_group", "delete_offsets", "reset_offsets")
_WORDS = ("member", "assignor", "rebalance_mode", "to", "request")
_VALUE_OF = {"time": "time", "offset": "offset", "shift": "by", "group": "from_group"}
"""The field that says where offsets are reset to; what was typed into the others is of no account."""

_BY_NAME = ("delete_group", "delete_offsets")
"""What cannot be taken back is done once the group's name was typed."""

_NUMBERS = ("copies", "minutes")
_MINUTE_MS = 60_000
_MINUTES_MAX = QUARANTINE_MAX_MS // _MINUTE_MS
MEMBERS_OFFERED = 200


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Operation.OPERATE)
def ask(request: HttpRequest, kind: str, name: str) -> HttpResponse:
    """A form; posted, what would change; posted again with `go`, it is asked."""
    group = ConsumerGroup.objects.filter(name=name).first() if "\x00" not in name else None
    if group is None or kind not in TITLES:
        return _asked_before(request, name)
    context = _form(kind, group, request.POST if request.method == "POST" else request.GET)
    version = context["version"]
    if request.method != "POST":
        return render(request, "groups/ask.html", context)
    faults = _hasty(kind, request, group) if "go" in request.POST else []
    go = "go" in request.POST and not faults
    try:
        expected = _expected(version)
        body = {**_body(kind, request.POST, group), "dry_run": not go}
        asked, reason = requests_api.asked_by(body, expected, group.name)
        # A dry run asks under no key: it may be tried as often as one likes.
        row = asking.ask(group, asked, request.user.get_username(), reason, context["key"] if go else None)
    except ValidationError as error:
        return render(request, "groups/ask.html", context | {"faults": _faults(error.detail)}, status=400)
    except (Problem, AnotherAsked, TooManyOpen) as error:
        fault = str(error.detail) if isinstance(error, Problem) else _WHY[type(error)]
        has_too_many = isinstance(error, TooManyOpen)
        status = 429 if has_too_many else 400
        page = render(request, "groups/ask.html", context | {"faults": [fault]}, status=status)
        if has_too_many:
            page["Retry-After"] = RETRY_AFTER_S
        return page
    if go:
        return redirect("request", request_id=row.id)
    now = ConsumerGroup.objects.filter(name=name).first() or group
    changed = row.answer is not None and row.answer.verdict is Verdict.CHANGED_MEANWHILE
    context["version"] = f"{now.generation}-{now.version}" if changed else version
    context |= _outcome(row) | {
        "shown": _fingerprint(kind, request),
        "may_go": row.answer is not None and row.answer.verdict is Verdict.WOULD_BE_DONE,
    }
    return render(request, "groups/ask.html", context | {"faults": faults}, status=400 if faults else 200)


def _asked_before(request: HttpRequest, name: str) -> HttpResponse:
    """What became of a form whose group is gone, maybe because this form did it. Raises Http404."""
    key = request.POST.get("key", "") if "go" in request.POST and "\x00" not in name else ""
    before = asking.asked_under(name, request.user.get_username(), key) if key else None
    if before is None:
        raise Http404
    return redirect("request", request_id=before)


def _form(kind: str, group: ConsumerGroup, stated: Any) -> dict[str, Any]:
    """What the template shows of the form, as it was filled in."""
    return {
        "section": "groups",
        "group": group,
        "kind": kind,
        "title": TITLES[kind],
        "loses": kind in _LOSES,
        "stated": stated,
        "version": stated.get("version") or f"{group.generation}-{group.version}",
        "key": stated.get("key") or uuid4().hex,
        "assignors": ASSIGNORS,
        "rebalance_modes": REBALANCE_MODES,
        "resets": _RESETS,
        "by_name": kind in _BY_NAME,
        "longest_typed": LONGEST_TYPED,
        "members": _members(group) if kind == "remove_member" else [],
        "member": _shown(stated.get("member", ""), _names_of_members(group)),
        "from_group": _shown(stated.get("from_group", ""), _names_of_groups(stated)),
        "kept_out": group.quarantines.values_list("member_id", flat=True)[:MEMBERS_OFFERED],
    }


def _hasty(kind: str, request: HttpRequest, group: ConsumerGroup) -> list[str]:
    """Why it is not done yet, though it was asked for: what would change is shown (again) instead."""
    if not request.POST.get("reason", "").strip():
        return [f"Nothing was done: say why, in 1 to {requests_api.REASON_LENGTH} characters."]
    if request.POST.get("shown", "") not in ("", _fingerprint(kind, request)):
        return ["Nothing was done: the form says something else than before. This is what would change now."]
    if kind in _BY_NAME and not is_confirmed(request.POST.get("confirm", ""), group.name):
        return ["Nothing was done: type the name of the group as it is shown, then send it again."]
    return []


def _fingerprint(kind: str, request: HttpRequest) -> str:
    """Of what is asked, its reason left aside: only what was shown is done."""
    stated = {name: request.POST.get(name, "") for name in (*_WORDS, *_VALUE_OF.values(), *_NUMBERS, "scope")}
    return sha256(json.dumps([kind, stated]).encode()).hexdigest()[:16]


@require_safe
@needs(Operation.VIEW)
def told(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """One request and what became of it."""
    row = asking.request_of(request_id)
    if row is None:
        raise Http404
    kind = kind_of(row.asked.wish)
    done = row.answer is not None and row.answer.verdict is Verdict.DONE
    may_operate = may(request, Operation.OPERATE)
    refused = row.answer is not None and row.answer.verdict in (Verdict.CHANGED_MEANWHILE, Verdict.REFUSED)
    context = {
        "section": "groups",
        "row": row,
        "kind": kind,
        "title": TITLES[kind],
        "is_there": ConsumerGroup.objects.filter(name=row.group).exists(),
        "ask_again": may_operate and refused and kind != "undo_reset",
        "undoable": done and isinstance(row.asked.wish, ResetOffsets) and may_operate,
    }
    return render(request, "groups/asked.html", context | _outcome(row))


_WHY = {
    AnotherAsked: "This form was sent already with other words. Begin again.",
    TooManyOpen: "Too many of your requests have no answer yet.",
}


def _outcome(row: asking.Request) -> dict[str, Any]:
    changes = row.answer.changes if row.answer else ()
    return {"row": row, "changes": changes[:CHANGES_SHOWN], "more": max(0, len(changes) - CHANGES_SHOWN)}


def _expected(version: str) -> tuple[int, int]:
    generation, _, number = version.partition("-")
    if not (generation.isdecimal() and number.isdecimal() and len(version) < 40):
        raise Problem(400, "The form does not say which version of the group it is about.")
    return int(generation), int(number)


def _body(kind: str, stated: Any, group: ConsumerGroup) -> dict[str, Any]:
    """The body that REST would be sent. Raises Problem."""
    body: dict[str, Any] = {"kind": kind, "reason": stated.get("reason", "").strip() or LOOKING}
    for word in _WORDS:
        if stated.get(word):
            body[word] = stated[word]
    value = _VALUE_OF.get(stated.get("to", ""))
    if kind == "reset_offsets" and value and stated.get(value):
        body[value] = stated[value]
    if "member" in body:
        body["member"] = meant(body["member"], _names_of_members(group))
    if "from_group" in body:
        body["from_group"] = meant(body["from_group"], _names_of_groups(stated))
    if stated.get("copies"):
        body["copies"] = _whole(stated["copies"])
    if stated.get("minutes"):
        minutes = _whole(stated["minutes"])
        if minutes > _MINUTES_MAX:
            raise Problem(400, f"A name is kept out for {_MINUTES_MAX} minutes (7 days) at most.")
        body["quarantine_ms"] = minutes * _MINUTE_MS
    if kind in ("delete_offsets", "reset_offsets"):
        scope = [_scope(line) for line in stated.get("scope", "").split()]
        body |= {"scope": scope} if scope or kind == "delete_offsets" else {}
    return body


def _scope(word: str) -> dict[str, Any]:
    """`orders`, or `orders:0,2`."""
    topic, colon, numbers = word.partition(":")
    named = {"partitions": [_whole(one) for one in numbers.split(",") if one]}
    return {"topic": topic} | (named if colon else {})


def _shown(stated: str, names: Iterable[str]) -> str:
    """A name as a field of one line can hold it; what was typed as it was shown stays so."""
    return stated if meant(stated, names) != stated else written_out(stated)


def _names_of_members(group: ConsumerGroup) -> Iterator[str]:
    """Whoever may be removed or let in again; read only as far as somebody looks."""
    yield from group.members.values_list("member_id", flat=True)
    yield from group.classic_members.values_list("member_id", flat=True)
    yield from group.quarantines.values_list("member_id", flat=True)


def _names_of_groups(stated: Any) -> Iterator[str]:
    """Those that begin as what was typed does, before what stands in it as its number."""
    begin = stated.get("from_group", "").partition("[U+")[0].replace("\x00", "")
    yield from ConsumerGroup.objects.filter(name__startswith=begin).values_list("name", flat=True)


def _members(group: ConsumerGroup) -> list[tuple[str, str]]:
    """The first members by their ids, and what people call them."""
    native = [(name, "") for name in group.members.values_list("member_id", flat=True)[:MEMBERS_OFFERED]]
    classic = group.classic_members.values_list("member_id", "group_instance_id")[:MEMBERS_OFFERED]
    return native + [(name, instance or "") for name, instance in classic]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Problem(400, f"{text[:40]} is not a whole number.")
    return int(text)


def _faults(detail: Any) -> list[str]:
    if isinstance(detail, dict):
        return [f"{name}: {' '.join(map(str, _faults(of)))}" for name, of in detail.items()]
    if isinstance(detail, list):
        return [one for of in detail for one in _faults(of)]
    return [str(detail)]
