"""This room is the rebalance handler: who should own what, by the rows of the group (000 chapter 9).

It runs as work of the kind `rebalance`, in a Celery worker, or in the node's spare process where no worker
is there. It writes nothing: its result is adopted by the owner of the group's shard.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from controller import catalog
from coordinator.core import rebalance
from coordinator.patterns import matches
from coordinator.store import GroupStore
from runtime.ports import Connection
from runtime.work import WorkRow


def compute_target(connection: Connection, item: WorkRow) -> Callable[[], Any]:
    """Read the group `item.key`; the computation returns its snapshot of members and the target, as JSON."""
    rows, layouts = GroupStore().load(connection, item.key), catalog.layouts(connection)
    return lambda: msgspec.to_builtins(rebalance.compute(rows, layouts, matches))
