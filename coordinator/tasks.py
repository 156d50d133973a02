"""This room is the coordinator's work for workers: who should own what, and where logs begin and end.

It runs as work of the kinds `rebalance` (000 chapter 9) and `group.request`, in a Celery worker, or in the
node's spare process where no worker is there. It writes nothing: the owner of the group's shard adopts
what it found.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from django.conf import settings

from access import workers
from controller import catalog
from controller.catalog import LedPartition
from coordinator import ends
from coordinator.core import rebalance
from coordinator.patterns import PatternsTakeTooLong, Search, matches
from coordinator.store import GroupStore
from groups.core.requests import PARTITIONS_MAX, Asked, Findings, Found, ResetOffsets, Scope
from groups.core.state import GroupRows
from muster.client.broker_questions import EARLIEST, LATEST
from muster.client.securing import Security
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topology import Layouts
from muster.messages.partitions import Partition
from runtime.ports import Connection
from runtime.work import WorkRow

FOUND_OUT_S: Final = 0.5
"""For so long patterns are matched inside a transaction, which lasts at most two seconds."""

WHY_NOT_LET_IN = (
    "Workers prove who they are by SECRET_KEY, which they and all nodes must share, and trust whom"
    " MUSTER_KAFKA_TLS_CA names"
)


def compute_target(connection: Connection, item: WorkRow) -> Callable[[], Any]:
    """Read the group `item.key`; the computation returns its snapshot of members and the target, as JSON."""
    rows, layouts = GroupStore().load(connection, item.key), catalog.layouts(connection)
    if rows.assignor == rebalance.RACK_AWARE:
        layouts = catalog.with_racks(connection, _read_soon(rows, layouts))
    return lambda: msgspec.to_builtins(rebalance.compute(rows, layouts, matches, Search(layouts)))


def _read_soon(rows: GroupRows, layouts: Layouts) -> Layouts:
    """The topics that members read; all of them if that cannot be found out while a transaction is open."""
    try:
        read = rebalance.topics_read(rows, layouts, Search(layouts, FOUND_OUT_S))
    except PatternsTakeTooLong:
        return layouts
    return {name: layouts[name] for name in read}


def find_offsets(connection: Connection, item: WorkRow) -> Callable[[], Any]:
    """Read which partitions a reset is about; the computation asks their leaders, and returns Findings."""
    asked = msgspec.convert(item.payload, Asked)
    assert isinstance(asked.wish, ResetOffsets)
    wish = asked.wish
    other: Mapping[Partition, int] = {}
    if wish.to == "group":
        source = GroupStore().load(connection, wish.source)
        if not source.version:
            text = f"There is no group {wish.source}."
            return lambda: msgspec.to_builtins(Findings((), int(ErrorCode.GROUP_ID_NOT_FOUND), text))
        other = source.offsets
    offsets = other or GroupStore().load(connection, item.key).offsets
    scope = wish.scope or tuple(Scope(name) for name in sorted({one.topic for one in offsets}))
    led = catalog.led_partitions(connection, [one.topic for one in scope])
    return lambda: msgspec.to_builtins(_found(wish, scope, led, other))


def _found(
    wish: ResetOffsets, scope: Sequence[Scope], led: Sequence[LedPartition], other: Mapping[Partition, int]
) -> Findings:
    wanted = {one.topic: frozenset(one.partitions) for one in scope}
    chosen = [one for one in led if not wanted[one.topic] or one.partition in wanted[one.topic]]
    known = {(one.topic, one.partition) for one in chosen}
    for asked in scope:
        missing = [number for number in asked.partitions if (asked.topic, number) not in known]
        if missing or not any(topic == asked.topic for topic, _ in known):
            name = f"{asked.topic}-{missing[0]}" if missing else asked.topic
            return Findings((), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), f"There is no {name}.")
    if not scope:
        return Findings((), int(ErrorCode.INVALID_REQUEST), "Nothing is committed there: name the topics.")
    if not chosen or len(chosen) > PARTITIONS_MAX:
        text = f"These are {len(chosen)} partitions; a request may be about 1 to {PARTITIONS_MAX}."
        return Findings((), int(ErrorCode.INVALID_REQUEST), text)
    timestamps = [EARLIEST, LATEST, *([wish.value] if wish.to == "time" else [])]
    try:
        earliest, latest, *by_time = ends.offsets_at(chosen, timestamps, _security())
    except ends.NotLetIn as problem:
        text = f"{problem}. {WHY_NOT_LET_IN}. Nothing was changed."
        return Findings((), int(ErrorCode.SASL_AUTHENTICATION_FAILED), text)
    except ends.NotFound as problem:
        return Findings((), int(ErrorCode.LEADER_NOT_AVAILABLE), f"{problem}. Ask again.")
    found = []
    for one in chosen:
        key = (one.topic, one.partition)
        at = by_time[0][key] if by_time else other.get(Partition(one.topic, one.topic_id, one.partition), -1)
        found.append(Found(one.topic, one.topic_id, one.partition, earliest[key], latest[key], at))
    return Findings(tuple(found))


def _security() -> Security:
    """What brokers are shown that ask who comes."""
    return Security(
        token=workers.token_text(settings.SECRET_KEY), ca_file=settings.MUSTER_KAFKA_TLS_CA or None
    )
