"""This room offers work that is due, and does it: claim, compute, finish, adopt (leases.md section 6)."""

import importlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from runtime.database import Link, Offered
from runtime.failpoints import passing
from runtime.ports import Connection, ConnectionLost, VersionConflict
from runtime.work_table import FinishedItem, WorkRow, work_table

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

Compute = Callable[[Connection, WorkRow], Any]
log = structlog.get_logger(__name__)
_functions: dict[str, str] = {}


class UnknownKind(Exception):
    """No function is registered for this kind of work."""


def register(kind: str, path: str) -> None:
    """Say which function does this kind of work: `package.module:function(connection, item) -> result`.

    The result must be JSON. It runs in a worker or in a node's spare process, in one read-only transaction
    of at most 2 s, and is resolved only there.
    """
    _functions[kind] = path


def function_of(kind: str) -> Compute:
    """The function that does this kind of work. Raises UnknownKind."""
    if kind not in _functions:
        raise UnknownKind(kind)
    module, _, name = _functions[kind].partition(":")
    found: Compute = getattr(importlib.import_module(module), name)
    return found


def import_functions() -> None:
    """Import whatever does registered work: a worker does so before it makes its children."""
    for kind in _functions:
        function_of(kind)


def offer(
    connection: Connection, kind: str, key: str, based_on: int | None, payload: Any, lane: str | None = None
) -> str:
    """Store a due item inside the caller's transaction and return its id.

    In a turn the lane is known, and the node has the item done after COMMIT; elsewhere `lane` names whose
    owner adopts the result, and that owner's sweep finds it within a second.
    """
    item_id = str(uuid.uuid4())
    owner = lane if lane is not None else str(getattr(connection, "lane", ""))
    work_table(connection).insert(WorkRow(item_id, kind, owner, key, based_on, payload))
    offered: list[Offered] | None = getattr(connection, "offered", None)
    if offered is not None:
        offered.append(Offered(item_id, kind, key, owner))
    return item_id


def adopt(connection: Connection, item_id: str) -> None:
    """Count a done item as used, inside the owner's turn. Raises VersionConflict if it is not done."""
    if not work_table(connection).adopt(item_id):
        raise VersionConflict(f"work item {item_id} is not done")


def withdraw(connection: Connection, kind: str, key: str) -> None:
    """Count the open items of `key` as used, inside the turn that deletes what they are about."""
    work_table(connection).withdraw(kind, key)


def finished(connection: Connection, kind: str, keys: Sequence[str]) -> list[FinishedItem]:
    """Done items of these keys that are not yet adopted, the oldest first."""
    return work_table(connection).finished(kind, keys)


def open_keys(connection: Connection, kind: str, keys: Sequence[str]) -> set[str]:
    """Which of these keys have an item that is not yet adopted."""
    return work_table(connection).open_keys(kind, keys)


def perform(link: Link, item_id: str, worker: str) -> WorkRow | None:
    """Claim the item, compute, finish; None if it was not due or the claim was taken back meanwhile.

    A failed computation finishes the item with an error, which its owner decides about, and so does a result
    that cannot be stored: it would be computed for ever. Raises ConnectionLost, and VersionConflict when the
    server wants it tried again; the claim is then taken back by the owner.
    """
    item = link.transaction(lambda connection: work_table(connection).claim(item_id, worker))
    if item is None:
        return None
    passing("work.claimed")
    result, error = None, ""
    try:
        result = link.transaction(lambda connection: _compute(connection, item))
    except VersionConflict as conflict:
        error = f"gave up: {conflict}"
    except ConnectionLost:
        raise
    except Exception as failure:
        log.exception("work failed", kind=item.kind, key=item.key, item=item.id)
        error = f"{type(failure).__name__}: {failure}"
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
    return link.transaction(lambda connection: work_table(connection).finish(item.id, claim, result, error))


def _compute(connection: Connection, item: WorkRow) -> Any:
    function = function_of(item.kind)
    execute = getattr(connection, "execute", None)
    if execute is not None:
        # Several statements must see one moment; a computation never writes.
        execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    return function(connection, item)
