"""This room brings operators' requests to the groups of one shard, each of them once."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import structlog

from groups.core.requests import KIND, Asked, Findings, GroupRequest
from muster.kernel.error_codes import ErrorCode
from runtime import requests
from runtime.ports import ConnectionLost, Lane, LaneLost, NodeContext, VersionConflict
from runtime.work_table import RequestRow

REMEMBERED = 1_000
"""Requests that were handed in: one that is read again before its turn is written is not decided twice."""

OUR_MISTAKE = "The request could not be decided, by a mistake of ours. Nothing was changed."

log = structlog.get_logger(__name__)


class Requests:
    """The requests about one shard's groups. `hand_in` gives one to its group's next turn."""

    def __init__(self, hand_in: Callable[[str, GroupRequest], None], node: NodeContext) -> None:
        self._hand_in = hand_in
        self._node = node
        self._wanted: set[str] = set()
        self._handed: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, lane: Lane, key: str) -> None:
        """Somebody asked something of this group; those named during a read are read after it."""
        reading = bool(self._wanted)
        self._wanted.add(key)
        if not reading:
            self._start(self._read(lane))

    def refused(self, request: GroupRequest) -> None:
        """No turn can be taken with this request."""
        self._start(self._give_up(request.id))

    def forget(self) -> None:
        """The shard was given up: its next owner reads the requests."""
        for task in self._tasks:
            task.cancel()
        self._wanted.clear()
        self._handed.clear()

    async def _read(self, lane: Lane) -> None:
        try:
            while self._wanted:
                keys = sorted(self._wanted)
                rows = await lane.read(partial(requests.ready, kind=KIND, keys=keys))
                self._wanted.difference_update(keys)
                for row in rows:
                    self._take(row)
        except (LaneLost, ConnectionLost) as problem:
            # The node tells once a second of what is not answered.
            log.info("requests could not be read", lane=lane.name, error=str(problem))
        finally:
            self._wanted.clear()

    def _take(self, row: RequestRow) -> None:
        if row.id in self._handed:
            return
        self._handed[row.id] = None
        if len(self._handed) > REMEMBERED:
            del self._handed[next(iter(self._handed))]
        try:
            asked = msgspec.convert(row.payload, Asked)
            findings = msgspec.convert(row.result or {}, Findings)
        except msgspec.ValidationError as problem:
            log.error("request cannot be read", request=row.id, group=row.key, error=str(problem))
            self._start(self._give_up(row.id))
            return
        if row.error:
            findings = Findings(error=int(ErrorCode.UNKNOWN_SERVER_ERROR), text=row.error)
        self._hand_in(row.key, GroupRequest(row.id, row.principal, row.reason, asked, findings))

    async def _give_up(self, request_id: str) -> None:
        try:
            await self._node.query(lambda connection: requests.give_up(connection, request_id, OUR_MISTAKE))
        except (ConnectionLost, VersionConflict) as problem:
            log.info("request could not be given up", request=request_id, error=str(problem))
            self._handed.pop(request_id, None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
