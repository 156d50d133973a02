"""This room offers work that is due, and does it: claim, compute, finish, adopt (leases.md section 6)."""

import importlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from runtime.database import Link
from runtime.failpoints import passing
from runtime.ports import Connection, ConnectionLost, VersionConflict
from runtime.work_table import FinishedItem, Offered, TurnConnection, WorkRow

__all__ = [
    "FinishedItem",
    "WorkRow",
    "adopt",
    "finished",
    "import_functions",
    "offer",
    "open_keys",
    "perform",
    "register",
    "withdraw",
]

Compute = Callable[[], Any]
Read = Callable[[Connection, WorkRow], Compute]

CLAIMS_MAX = 8
"""An item that was claimed so often and never finished ends with an error: it kills who does it, or reading
its rows takes longer than a transaction may. By then its claims stood for four minutes together.
"""

log = structlog.get_logger(__name__)
_functions: dict[str, str] = {}


class UnknownKind(Exception):
    """No function is registered for this kind of work."""


def register(kind: str, path: str) -> None:
    """Say which function does this kind of work: `package.module:function(connection, item) -> compute`.

    It reads what it needs, in one read-only transaction of at most 2 s, and returns the computation, which
    is called after the transaction, takes as long as it takes, and returns JSON. Both run in a worker or in
    a node's spare process; the function is looked up only there.
    """
    _functions[kind] = path


def function_of(kind: str) -> Read:
    """The function that does this kind of work. Raises UnknownKind."""
    if kind not in _functions:
        raise UnknownKind(kind)
    module, _, name = _functions[kind].partition(":")
    found: Read = getattr(importlib.import_module(module), name)
    return found


def import_functions() -> None:
    """Import whatever does registered work: a worker does so before it makes its children."""
    for kind in _functions:
        function_of(kind)


def offer(
    connection: TurnConnection,
    kind: str,
    key: str,
    based_on: int | None,
    payload: Any,
    lane: str | None = None,
) -> str:
    """Store a due item inside the caller's transaction and return its id.

    In a turn the lane is known, and the node has the item done after COMMIT; elsewhere `lane` names whose
    owner adopts the result, and that owner's sweep finds it within a second.
    """
    item_id = str(uuid.uuid4())
    owner = lane if lane is not None else connection.lane
    connection.work_table.insert(WorkRow(item_id, kind, owner, key, based_on, payload))
    connection.offered.append(Offered(item_id, kind, key, owner))
    return item_id


def adopt(connection: TurnConnection, item_id: str) -> None:
    """Count a done item as used, inside the owner's turn. Raises VersionConflict if it is not done."""
    if not connection.work_table.adopt(item_id):
        raise VersionConflict(f"work item {item_id} is not done")


def withdraw(connection: TurnConnection, kind: str, *keys: str) -> None:
    """Count the open items of these keys as used, inside the turn that deletes what they are about."""
    connection.work_table.withdraw(kind, keys)


def finished(connection: TurnConnection, kind: str, keys: Sequence[str]) -> list[FinishedItem]:
    """Done items of these keys that are not yet adopted, the oldest first."""
    return connection.work_table.finished(kind, keys)


def open_keys(connection: TurnConnection, kind: str, keys: Sequence[str]) -> set[str]:
    """Which of these keys have an item that is not yet adopted."""
    return connection.work_table.open_keys(kind, keys)


def perform(link: Link, item_id: str, worker: str) -> WorkRow | None:
    """Claim the item, read, compute, finish; None if it was not due or the claim was taken back meanwhile.

    No transaction is open while it computes. A failed computation finishes the item with an error, which its
    owner decides about, and so does a result that cannot be stored, or an item that was claimed CLAIMS_MAX
    times: it would be computed for ever. Raises ConnectionLost, and VersionConflict when the server wants it
    tried again; the claim is then taken back by the owner.
    """
    item = link.transaction(lambda connection: connection.work_table.claim(item_id, worker))
    if item is None:
        return None
    passing("work.claimed")
    result, error = _computed(link, item)
    passing("work.computed")
    try:
        kept = _finish(link, item, result, error)
    except (ConnectionLost, VersionConflict):
        raise
    except Exception as failure:
        log.exception("result could not be stored", kind=item.kind, key=item.key, item=item.id)
        kept = _finish(link, item, None, f"the result cannot be stored: {type(failure).__name__}")
    passing("work.finished")
    return item if kept else None


def _finish(link: Link, item: WorkRow, result: Any, error: str) -> bool:
    claim = item.claim_epoch
    kept: bool = link.transaction(
        lambda connection: connection.work_table.finish(item.id, claim, result, error)
    )
    return kept


def _computed(link: Link, item: WorkRow) -> tuple[Any, str]:
    """The result, or why there is none. Raises ConnectionLost."""
    if item.claim_epoch > CLAIMS_MAX:
        log.error("work given up", kind=item.kind, key=item.key, item=item.id, claims=item.claim_epoch)
        return None, f"gave up: claimed {CLAIMS_MAX} times and never finished"
    try:
        compute = link.transaction(lambda connection: _read(connection, item))
        return compute(), ""
    except VersionConflict as conflict:
        return None, f"gave up: {conflict}"
    except ConnectionLost:
        raise
    except Exception as failure:
        log.exception("work failed", kind=item.kind, key=item.key, item=item.id)
        return None, f"{type(failure).__name__}: {failure}"


def _read(connection: Connection, item: WorkRow) -> Compute:
    read = function_of(item.kind)
    execute = getattr(connection, "execute", None)
    if execute is not None:
        # Several statements must see one moment; a computation never writes.
        execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    return read(connection, item)
