"""This room asks the owner of a group: stores an operator's request, wakes the owner, waits for the answer.

Pages and REST ask the same way. The row is the audit, too: who, why, what, and what was answered.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime

import msgspec
from django.db.models.expressions import RawSQL

from groups.core.requests import KIND, Answer, Asked, ResetOffsets
from groups.models import ConsumerGroup
from muster.kernel.error_codes import ErrorCode
from runtime import asking
from runtime.models import WorkItem
from runtime.ports import shard_lane
from runtime.requests import NewRequest

_CHANGES = RawSQL(
    "coalesce(jsonb_array_length(result -> 'changes'), 0)"
    " + coalesce(jsonb_array_length(payload -> 'wish' -> 'changes'), 0)",
    (),
)
"""Partitions of which a request tells: in its answer, and those that an undoing puts back."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as pages and REST tell it. Without an answer it waits, or `failed` says why there is none."""

    id: uuid.UUID
    group: str
    principal: str
    reason: str
    asked: Asked
    answer: Answer | None
    failed: str
    asked_at: datetime
    answered_at: datetime | None

    @property
    def error(self) -> ErrorCode:
        """Why it was refused."""
        return ErrorCode(self.answer.error) if self.answer else ErrorCode.NONE


def ask(
    group: ConsumerGroup, asked: Asked, principal: str, reason: str, idempotency_key: str | None = None
) -> Request:
    """Ask, and wait for the answer for a while. The same key and the same request have the same answer.

    Raises runtime.requests.AnotherAsked and TooManyOpen.
    """
    row = NewRequest(
        kind=KIND,
        lane=shard_lane(group.shard),
        key=group.name,
        principal=principal,
        reason=reason,
        payload=asked,
        idempotency_key=idempotency_key,
        based_on=asked.expected[1] if asked.expected else None,
        # Where logs begin and end their leaders know: a worker asks them.
        ready=not isinstance(asked.wish, ResetOffsets),
    )
    return _read(asking.ask(row))


def asked_before(
    group: str, asked: Asked, principal: str, reason: str, idempotency_key: str | None
) -> Request | None:
    """The same request under the same key, whatever it was asked on; its group is not there (any more)."""
    if idempotency_key is None or "\x00" in group:
        return None
    row = WorkItem.objects.filter(
        kind=KIND, key=group, principal=principal, idempotency_key=idempotency_key
    ).first()
    found = None if row is None else _read(row)
    if found is None or found.reason != reason:
        return None
    return found if msgspec.structs.replace(found.asked, expected=asked.expected) == asked else None


def asked_under(group: str, principal: str, idempotency_key: str) -> uuid.UUID | None:
    """The request of this principal under the key, about a group that may not be there any more."""
    rows = WorkItem.objects.filter(kind=KIND, key=group, principal=principal)
    return rows.filter(idempotency_key=idempotency_key).values_list("id", flat=True).first()


def request_of(request_id: uuid.UUID) -> Request | None:
    """The request with this id."""
    row = WorkItem.objects.filter(id=request_id, kind=KIND).first()
    return None if row is None else _read(row)


def requests_of(
    group: str, after: tuple[datetime, uuid.UUID] | None, limit: int, most_changes: int
) -> tuple[list[Request], bool]:
    """Requests about a group, newest first, after the one of this time and id; True if more follow.

    They end before they tell of more than `most_changes` partitions together; one is told whatever it names.
    """
    rows = WorkItem.objects.filter(kind=KIND, key=group).order_by("-offered_at", "-id")
    if after is not None:
        at, last = after
        rows = rows.filter(offered_at__lte=at).exclude(offered_at=at, id__gte=last)
    listed = list(rows.annotate(number=_CHANGES).values_list("id", "number")[: limit + 1])
    left = most_changes
    chosen: list[uuid.UUID] = []
    for request_id, number in listed[:limit]:
        left -= number
        if chosen and left < 0:
            break
        chosen.append(request_id)
    return [_read(row) for row in rows.filter(id__in=chosen)], len(listed) > len(chosen)


def _read(row: WorkItem) -> Request:
    answered = row.state == WorkItem.State.ADOPTED
    return Request(
        id=row.id,
        group=row.key,
        principal=row.principal,
        reason=row.reason,
        asked=msgspec.convert(row.payload, Asked),
        answer=msgspec.convert(row.result, Answer) if answered and row.result is not None else None,
        failed=row.error if answered else "",
        asked_at=row.offered_at,
        answered_at=row.adopted_at if answered else None,
    )
