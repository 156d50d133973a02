"""This room keeps operators' requests: rows of the work table that say who asked, why, and what was answered.

A door stores one and wakes the owner of its lane; what must be found out for it is computed as all work is;
the owner answers it in a turn. The row stays as long as adopted work does, and with it its idempotency key.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from runtime.ports import Connection, VersionConflict
from runtime.work_table import AnsweredRow, RequestRow, TurnConnection

CONDITIONS: Final = frozenset({"expected", "expected_version", "expected_id"})
"""What a payload says of the row that was looked at. Once it was carried out that row is another one: whoever
looks again and asks the same under the same key states another one, and is told what became of the first.
"""

OPEN_MAX = 100
"""Unanswered requests of one principal: what is written into a cluster that stands still is bounded."""

LOOKING: Final = "an operator looks at what would change"
"""The reason of whoever is shown first what would come of something: nobody has to say why to see it."""


WITHDRAWN: Final = "Nobody waited for the answer any more. What was not done by then is not done."
"""Why a request has no answer whose `waits_s` are over."""


class TooManyOpen(Exception):
    """This principal has OPEN_MAX requests that nobody has answered yet."""


class AnotherAsked(Exception):
    """The idempotency key was given to another request."""


class NotWaiting(VersionConflict):
    """These requests have their answer, or nobody waits for one any more: nothing may be done for them."""

    def __init__(self, request_ids: Sequence[str]) -> None:
        super().__init__(f"requests that do not wait for an answer: {', '.join(request_ids)}")
        self.request_ids = tuple(request_ids)


class Cursor(Protocol):
    """Django's cursor, or a psycopg connection's."""

    def execute(self, statement: str, values: Sequence[Any] = ...) -> Any: ...

    def fetchone(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class NewRequest:
    """What a door stores. `ready`: nothing has to be found out for it.

    `waits_s`: who asks waits no longer, by the database's clock, and then it is not carried out; None: it
    waits for ever, as whoever may ask for the answer later does.
    """

    kind: str
    lane: str
    key: str
    principal: str
    reason: str
    payload: Any
    idempotency_key: str | None = None
    based_on: int | None = None
    ready: bool = True
    waits_s: float | None = None


_COUNT = "SELECT count(*) FROM work_item WHERE kind = %s AND principal = %s AND state <> 'adopted'"
_INSERT = """
INSERT INTO work_item (id, kind, lane, key, based_on, principal, reason, idempotency_key, payload, state,
                       claim_epoch, claimed_by, error, offered_at, wanted_until)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s, 0, '', '', clock_timestamp(),
        clock_timestamp() + %s::float8 * interval '1 second')
ON CONFLICT DO NOTHING RETURNING id::text"""
_KNOWN = """
SELECT id::text, kind = %s AND key = %s AND reason = %s, payload::text
FROM work_item WHERE principal = %s AND idempotency_key = %s"""


def store(cursor: Cursor, request: NewRequest) -> str:
    """Store the request and return its id, or the id of the same one under its idempotency key, whatever row
    either was asked on.

    Raises AnotherAsked if the key was given to another one, TooManyOpen. Call it in autocommit, and wake
    ports.DUE afterwards: the owner looks, has it done if something is to be found out, and answers.
    """
    payload = msgspec.json.encode(request.payload).decode()
    while True:
        if request.idempotency_key is not None and (known := _known(cursor, request, payload)):
            return known
        cursor.execute(_COUNT, (request.kind, request.principal))
        if cursor.fetchone()[0] >= OPEN_MAX:
            raise TooManyOpen
        if stored := _stored(cursor, request, payload):
            return stored
        # Somebody stored the same key in this moment. It is looked for, and may have been forgotten already.


def _stored(cursor: Cursor, request: NewRequest, payload: str) -> str:
    """The id under which it is stored now; empty if its key is there already."""
    values = (
        str(uuid.uuid4()),
        request.kind,
        request.lane,
        request.key,
        request.based_on,
        request.principal,
        request.reason,
        request.idempotency_key,
        payload,
        # Done is what a worker has computed: of a request that needs no computing there is nothing to do.
        "done" if request.ready else "due",
        request.waits_s,
    )
    cursor.execute(_INSERT, values)
    row = cursor.fetchone()
    return "" if row is None else str(row[0])


def _known(cursor: Cursor, request: NewRequest, payload: str) -> str:
    cursor.execute(
        _KNOWN,
        (
            request.kind,
            request.key,
            request.reason,
            request.principal,
            request.idempotency_key,
        ),
    )
    row = cursor.fetchone()
    if row is None:
        return ""
    if not row[1] or _unconditional(row[2]) != _unconditional(payload):
        raise AnotherAsked
    return str(row[0])


def _unconditional(payload: str) -> Any:
    """What is asked, without the CONDITIONS on which it is."""

    def stripped(said: Any) -> Any:
        if isinstance(said, dict):
            return {name: stripped(value) for name, value in said.items() if name not in CONDITIONS}
        return [stripped(one) for one in said] if isinstance(said, list) else said

    return stripped(msgspec.json.decode(payload))


def ready(
    connection: TurnConnection,
    kind: str,
    keys: Sequence[str],
    known: Sequence[str] = (),
    most: int = OPEN_MAX,
) -> list[RequestRow]:
    """The oldest requests about these keys that wait for their owner's turn, but for the `known`."""
    return connection.work_table.ready(kind, keys, known, most)


def answers(connection: TurnConnection, request_ids: Sequence[str]) -> list[AnsweredRow]:
    """Those of these requests that are answered, for who waits for them."""
    return connection.work_table.answers(request_ids)


def conclude(connection: TurnConnection, request_id: str, answer: Any) -> None:
    """Write the answer into the row, inside the owner's turn. Raises NotWaiting if it has one, or is late."""
    if not connection.work_table.answer(request_id, msgspec.to_builtins(answer), ""):
        raise NotWaiting([request_id])


def go_on(connection: TurnConnection, request_id: str, results: Any) -> None:
    """Append to what was done of it, inside the owner's turn. Raises NotWaiting as `conclude` does."""
    if not connection.work_table.append(request_id, msgspec.to_builtins(results)):
        raise NotWaiting([request_id])


def conclude_all(connection: TurnConnection, answers: Iterable[tuple[str, Any]]) -> None:
    """Write several answers. Raises NotWaiting, which names all that have one, or are late."""
    late: list[str] = []
    for request_id, answer in answers:
        try:
            conclude(connection, request_id, answer)
        except NotWaiting as refused:
            late += refused.request_ids
    if late:
        raise NotWaiting(late)


def give_up(connection: Connection, request_id: str, error: str) -> None:
    """Say in the request's row why it has no answer: by a mistake of ours, or because nobody waits any more.

    One that was answered meanwhile keeps its answer.
    """
    connection.work_table.answer(request_id, None, error)
