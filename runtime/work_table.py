"""This room holds the statements of leases.md section 6 on the table of work items."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

_encode = msgspec.json.Encoder().encode
_WANTED: Final = "coalesce(wanted_until >= clock_timestamp(), true)"


@dataclass(frozen=True, slots=True)
class WorkRow:
    """One work item; `claim_epoch` counts the attempts and names the present one."""

    id: str
    kind: str
    lane: str
    key: str
    based_on: int | None
    payload: Any = field(default_factory=dict)
    state: str = "due"
    claim_epoch: int = 0
    result: Any = None
    error: str = ""
    principal: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """An operator's request that waits for its owner: what was asked, and what was found out for it.

    `is_late`: who asked waited until now, and waits no more.
    """

    id: str
    key: str
    principal: str
    reason: str
    payload: Any
    result: Any
    error: str
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class AnsweredRow:
    """A request that has its answer, or `error` says why there is none."""

    id: str
    answer: Any
    error: str


@dataclass(frozen=True, slots=True)
class FinishedItem:
    """A done item, not yet adopted. `error` says why the computation failed; empty: it did not."""

    id: str
    kind: str
    key: str
    based_on: int | None
    result: Any
    error: str


@dataclass(frozen=True, slots=True)
class Offered:
    """A work item that was offered inside a turn; to be published after its commit."""

    id: str
    kind: str
    key: str
    lane: str


class WorkTable(Protocol):
    """What can be done to work items; each is one conditional statement."""

    def insert(self, row: WorkRow) -> None:
        """Store a due item."""

    def claim(self, item_id: str, worker: str) -> WorkRow | None:
        """Claim the item if it is due: the caller alone may finish this claim epoch."""

    def finish(self, item_id: str, claim_epoch: int, result: Any, error: str) -> bool:
        """Hand in what this claim computed; False: the claim was taken back."""

    def reclaim(self, item_id: str, claim_epoch: int) -> bool:
        """Take a claim back that stood too long; False: it moved meanwhile."""

    def adopt(self, item_id: str) -> bool:
        """Count a done item as used, in the owner's turn; False: it is not done."""

    def withdraw(self, kind: str, keys: Sequence[str]) -> None:
        """Nobody wants the open items of these keys any more: a claim on one cannot be finished."""

    def finished(self, kind: str, keys: Sequence[str]) -> list[FinishedItem]:
        """Done items of these keys."""

    def ready(self, kind: str, keys: Sequence[str], known: Sequence[str], most: int) -> list[RequestRow]:
        """The oldest done items of these keys, but for the `known`, as the requests that they are."""

    def answer(self, item_id: str, answer: Any, error: str) -> bool:
        """Replace a done item's result by its answer, or by why it has none (`error`), and count it as used;
        False: it is not done, or nobody waits for its answer any more.
        """

    def append(self, item_id: str, results: Sequence[Any]) -> bool:
        """Put `results` behind those that a done item has; False: it is not done, or nobody waits for it."""

    def answers(self, item_ids: Sequence[str]) -> list[AnsweredRow]:
        """Those of these requests that are answered."""

    def open_keys(self, kind: str, keys: Sequence[str]) -> set[str]:
        """Keys that have an item which is not adopted."""

    def open_items(self, lanes: Sequence[str]) -> list[WorkRow]:
        """Items of these lanes that are not adopted, without payload and result."""


class TurnConnection(Protocol):
    """A connection in whose transaction work is offered and adopted, on either database."""

    @property
    def lane(self) -> str:
        """The lane whose turn runs in it; empty: none."""

    @property
    def offered(self) -> list[Offered]:
        """What the transaction has offered so far; told to the node after its commit."""

    @property
    def work_table(self) -> WorkTable:
        """The work items, as this transaction sees them."""


class PostgresWork:
    """The work items in PostgreSQL, inside whatever transaction the connection is in (WorkTable)."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def insert(self, row: WorkRow) -> None:
        """Store a due item (WorkTable.insert)."""
        self._connection.execute(
            "INSERT INTO work_item (id, kind, lane, key, based_on, principal, reason, payload, state,"
            " claim_epoch, claimed_by, error, offered_at)"
            " VALUES (%s, %s, %s, %s, %s, '', '', %s::jsonb, 'due', 0, '', '', clock_timestamp())",
            (row.id, row.kind, row.lane, row.key, row.based_on, _encode(row.payload).decode()),
        )

    def claim(self, item_id: str, worker: str) -> WorkRow | None:
        """Claim a due item (WorkTable.claim)."""
        row = self._connection.execute(
            "UPDATE work_item SET state = 'claimed', claim_epoch = claim_epoch + 1, claimed_by = %s,"
            " claimed_at = clock_timestamp() WHERE id = %s AND state = 'due'"
            " RETURNING id::text, kind, lane, key, based_on, payload, state, claim_epoch",
            (worker[:64], item_id),
        ).fetchone()
        return WorkRow(*row) if row else None

    def finish(self, item_id: str, claim_epoch: int, result: Any, error: str) -> bool:
        """Hand in what one claim computed (WorkTable.finish)."""
        return self._changed(
            "UPDATE work_item SET state = 'done', result = %s::jsonb, error = %s,"
            " finished_at = clock_timestamp() WHERE id = %s AND state = 'claimed' AND claim_epoch = %s",
            _encode(result).decode(),
            error,
            item_id,
            claim_epoch,
        )

    def reclaim(self, item_id: str, claim_epoch: int) -> bool:
        """Take a claim back (WorkTable.reclaim)."""
        return self._changed(
            "UPDATE work_item SET state = 'due' WHERE id = %s AND state = 'claimed' AND claim_epoch = %s",
            item_id,
            claim_epoch,
        )

    def adopt(self, item_id: str) -> bool:
        """Count a done item as used (WorkTable.adopt)."""
        return self._changed(
            "UPDATE work_item SET state = 'adopted', adopted_at = clock_timestamp()"
            " WHERE id = %s AND state = 'done'",
            item_id,
        )

    def withdraw(self, kind: str, keys: Sequence[str]) -> None:
        """Let nobody do or adopt the open items of these keys (WorkTable.withdraw)."""
        self._connection.execute(
            "UPDATE work_item SET state = 'adopted', adopted_at = clock_timestamp()"
            " WHERE kind = %s AND key = ANY (%s) AND state <> 'adopted'",
            (kind, list(keys)),
        )

    def finished(self, kind: str, keys: Sequence[str]) -> list[FinishedItem]:
        """Done items of these keys (WorkTable.finished)."""
        rows = self._connection.execute(
            "SELECT id::text, kind, key, based_on, result, error FROM work_item"
            " WHERE state = 'done' AND kind = %s AND key = ANY (%s) ORDER BY offered_at",
            (kind, list(keys)),
        )
        return [FinishedItem(*row) for row in rows.fetchall()]

    def ready(self, kind: str, keys: Sequence[str], known: Sequence[str], most: int) -> list[RequestRow]:
        """Requests that wait for their owner (WorkTable.ready)."""
        rows = self._connection.execute(
            "SELECT id::text, key, principal, reason, payload, result, error,"
            " coalesce(wanted_until < clock_timestamp(), false) FROM work_item"
            " WHERE state = 'done' AND kind = %s AND key = ANY (%s) AND id <> ALL (%s::uuid[])"
            " ORDER BY offered_at, id LIMIT %s",
            (kind, list(keys), list(known), most),
        )
        return [RequestRow(*row) for row in rows.fetchall()]

    def answer(self, item_id: str, answer: Any, error: str) -> bool:
        """Write what was answered (WorkTable.answer)."""
        return self._changed(
            "UPDATE work_item SET state = 'adopted', result = %s::jsonb, error = %s,"
            " adopted_at = clock_timestamp() WHERE id = %s AND state = 'done'"
            f" AND (%s <> '' OR {_WANTED})",
            _encode(answer).decode(),
            error,
            item_id,
            error,
        )

    def append(self, item_id: str, results: Sequence[Any]) -> bool:
        """Put more behind what a done item has (WorkTable.append)."""
        return self._changed(
            "UPDATE work_item SET result = coalesce(nullif(result, 'null'), '[]') || %s::jsonb"
            f" WHERE id = %s AND state = 'done' AND {_WANTED}",
            _encode(results).decode(),
            item_id,
        )

    def answers(self, item_ids: Sequence[str]) -> list[AnsweredRow]:
        """Those of these requests that are answered (WorkTable.answers)."""
        rows = self._connection.execute(
            "SELECT id::text, result, error FROM work_item WHERE state = 'adopted' AND id = ANY (%s::uuid[])",
            (list(item_ids),),
        )
        return [AnsweredRow(*row) for row in rows.fetchall()]

    def open_keys(self, kind: str, keys: Sequence[str]) -> set[str]:
        """Keys that have an item which is not adopted (WorkTable.open_keys)."""
        rows = self._connection.execute(
            "SELECT DISTINCT key FROM work_item WHERE state <> 'adopted' AND kind = %s AND key = ANY (%s)",
            (kind, list(keys)),
        )
        return {key for (key,) in rows.fetchall()}

    def open_items(self, lanes: Sequence[str]) -> list[WorkRow]:
        """Items of these lanes that are not adopted (WorkTable.open_items)."""
        rows = self._connection.execute(
            "SELECT id::text, kind, lane, key, based_on, NULL, state, claim_epoch FROM work_item"
            " WHERE state <> 'adopted' AND lane = ANY (%s)",
            (list(lanes),),
        )
        return [WorkRow(*row) for row in rows.fetchall()]

    def _changed(self, statement: str, *values: Any) -> bool:
        return bool(self._connection.execute(statement, values).rowcount == 1)
