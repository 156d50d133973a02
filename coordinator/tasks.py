"""This room is the rebalance handler: who should own what, by the rows of the group (000 chapter 9).

It runs as work of the kind `rebalance`, in a Celery worker, or in the node's spare process where no worker
is there. It writes nothing: its result is adopted by the owner of the group's shard.
"""

from typing import Any

import msgspec

from controller import catalog
from coordinator.core import rebalance
from coordinator.patterns import matches
from coordinator.store import GroupStore
from runtime.ports import Connection
from runtime.work import WorkRow


def compute_target(connection: Connection, item: WorkRow) -> Any:
    """The snapshot of members and the target, as JSON; `item.key` is the group's name."""
    rows = GroupStore().load(connection, item.key)
    proposal = rebalance.compute(rows, catalog.layouts(connection), matches)
    return msgspec.to_builtins(proposal)
