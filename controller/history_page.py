"""This room renders the past: a topic as it was at a moment, one partition change by change."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.filters import DoesNotFit, moment_filter, number_filter
from access.grants import Operation
from access.pages import may, needs
from controller import conditions, fingerprints, history, losses, queries, standing
from controller.models import NO_LEADER, Partition, PartitionProgress, Topic
from controller.paging import asked_of, window
from runtime import database_clock

PARTITIONS_OF_A_PAGE = 100
CHANGES_OF_A_PAGE = 25


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a partition, and what was different before it."""

    change: history.Change
    words: str


def moment_of(request: HttpRequest, begin: str) -> datetime | None:
    """The moment that the address asks for, in the zone of the pages if it names none. Raises BadRequest."""
    text = request.GET.get("as_of", "").strip()
    if not text:
        return None
    try:
        moment: datetime = moment_filter("as_of", "").read(text)
    except DoesNotFit as error:
        raise BadRequest(f"{error} Begin at {begin}.") from error
    return moment


def topic_then(request: HttpRequest, name: str, moment: datetime) -> HttpResponse:
    """Leader, ISR and replicas of a topic's partitions as they were; no live state, no actions.

    Of what has been deleted since it tells as well; of several topics that had the name it is the one that
    had it then. Raises Http404.
    """
    then = history.topic_then(name, moment)
    if then is None:
        raise Http404("no such topic then, nor now")
    pages = window(
        asked_of(request, request.path),
        PARTITIONS_OF_A_PAGE,
        then.partition_count,
        as_of=request.GET.get("as_of", ""),
    )
    rows = history.as_of(then.topic_id, range(pages.first, pages.last), moment, then.removals)
    context = {
        "section": "topics",
        "topic": then.present or Topic(topic_id=then.topic_id, name=name),
        "then": min(moment, database_clock.now()),
        "unborn": not then.was_born(moment),
        "deleted_at": then.ended.at if then.ended else None,
        "is_there": then.present is not None,
        "rows": rows,
        "offline": sum(1 for row in rows if row.was and row.was.offline),
        "short": sum(1 for row in rows if row.was and len(row.was.isr) < row.was.settled),
        "pages": pages,
        "begins": history.begins(),
    }
    return render(request, "controller/topic_then.html", context)


@require_safe
@needs(Operation.VIEW)
def partition(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """One partition now, and how it came to that: each change of leader, ISR, epoch and replicas."""
    rendered = fingerprints.of_topics([name]).get(name, "") if "\x00" not in name else ""
    rows = Partition.objects.select_related("topic").filter(topic__name=name, partition=number)
    row = rows.first() if rendered and number < 2**31 else None
    if row is None:
        raise Http404("no such partition")
    before = number_filter("before", "Changes before the one that made this version.", bits=63)
    asked = asked_of(request, request.path, before)
    here = standing.of(request)
    version = asked.get("before", row.version)
    changes = history.changes_of(row.topic_id, number, version, CHANGES_OF_A_PAGE + 1)
    context = {
        "section": "topics",
        "watch": f"{fingerprints.TOPIC}{name}",
        "rendered": rendered,
        "here": here,
        "topic": row.topic,
        "row": queries.partition(here.live, row.id),
        "logs": conditions.of_partitions([row.id]).get(row.id, []),
        "holders": (holders := _holders(row)),
        "electable": any(one.may_lead for one in holders),
        "losses": losses.listed(topic=name, partition=number, limit=CHANGES_OF_A_PAGE),
        "steps": _steps(changes)[:CHANGES_OF_A_PAGE],
        "first": "before" in asked,
        "next": changes[CHANGES_OF_A_PAGE].version if len(changes) > CHANGES_OF_A_PAGE else 0,
        "begins": history.begins(),
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "controller/partition.html", context)


def _holders(row: Partition) -> list[conditions.Holder]:
    """Who holds how much of a partition that nobody leads."""
    if row.leader != NO_LEADER or not row.isr:
        return []
    progress = PartitionProgress.objects.filter(partition_id=row.id).first()
    return conditions.holders(row, progress.high_watermark if progress else None)


def _steps(changes: Sequence[history.Change]) -> list[Step]:
    earlier: list[history.Change | None] = [*changes[1:], None]
    return [Step(change, _words(change, before)) for change, before in zip(changes, earlier, strict=False)]


def _words(change: history.Change, before: history.Change | None) -> str:
    """What became different: `leader 3 → 1; ISR lost 3`."""
    if before is None:
        return "created" if not change.before else "the change before it is no longer in the journal"
    words = []
    if change.leader != before.leader:
        words.append(f"leader {_leader(before)} → {_leader(change)}")
    elif change.leader_epoch != before.leader_epoch:
        words.append(f"leader {_leader(change)} elected again")
    if gone := [str(one) for one in before.isr if one not in change.isr]:
        words.append(f"ISR lost {', '.join(gone)}")
    if came := [str(one) for one in change.isr if one not in before.isr]:
        words.append(f"ISR got {', '.join(came)}")
    if list(change.assigned) != list(before.assigned):
        words.append(f"replicas {_listed(before.assigned)} → {_listed(change.assigned)}")
    return "; ".join(words) or "another order of the ISR, or marks of a move"


def _leader(change: history.Change) -> str:
    return "none" if change.offline else str(change.leader)


def _listed(replicas: Sequence[int]) -> str:
    return ", ".join(str(one) for one in replicas)
