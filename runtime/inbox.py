"""This room brings operators' requests of one kind to the owner of their lane, each of them once."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import structlog

from runtime import requests
from runtime.ports import Connection, ConnectionLost, Lane, LaneLost, NodeContext, VersionConflict
from runtime.work_table import RequestRow

REMEMBERED = 1_000
"""Requests that were handed in: one that is read again before its turn is written is not decided twice."""

READ_AT_ONCE = 100
"""Requests that one read brings: each may hold megabytes."""

OUR_MISTAKE = "The request could not be decided, by a mistake of ours. Nothing was changed."

log = structlog.get_logger(__name__)


class RequestInbox:
    """The requests of one lane. `take` gives one to the lane's next turn; it may raise ValidationError."""

    def __init__(self, kind: str, take: Callable[[RequestRow], None], node: NodeContext) -> None:
        self._kind = kind
        self._take = take
        self._node = node
        self._wanted: set[str] = set()
        self._reader: asyncio.Task[None] | None = None
        self._handed: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, lane: Lane, key: str) -> None:
        """Somebody asked something about this key; what is asked during a read is read after it."""
        self._wanted.add(key)
        if self._reader is None or self._reader.done():
            self._reader = self._start(self._read(lane))

    def give_up(self, request_id: str, answer: msgspec.Struct | None = None, why: str = OUR_MISTAKE) -> None:
        """No turn can be taken with this request: say so in its row, by this answer if there is one."""
        self._start(self._give_up(request_id, answer, why))

    def forget(self) -> None:
        """The lane was given up: its next owner reads the requests."""
        for task in self._tasks:
            task.cancel()
        self._reader = None
        self._wanted.clear()
        self._handed.clear()

    async def _read(self, lane: Lane) -> None:
        left = REMEMBERED
        try:
            while self._wanted:
                # Before the read: who asks while it is under way may not be seen by it.
                keys, self._wanted = sorted(self._wanted), set()
                unknown = partial(requests.ready, known=list(self._handed), most=READ_AT_ONCE)
                rows = await lane.read(partial(unknown, kind=self._kind, keys=keys))
                for row in rows:
                    self._hand_over(row)
                left -= len(rows)
                if len(rows) == READ_AT_ONCE and left > 0:
                    self._wanted.update(keys)
        except (LaneLost, ConnectionLost) as problem:
            # The node tells once a second of what is not answered.
            log.info("requests could not be read", lane=lane.name, error=str(problem))
            self._wanted.clear()

    def _hand_over(self, row: RequestRow) -> None:
        if row.id in self._handed:
            return
        self._handed[row.id] = None
        if len(self._handed) > REMEMBERED:
            del self._handed[next(iter(self._handed))]
        if row.is_late:
            # Who asked could not withdraw it: the database was away then, or its node died.
            self.give_up(row.id, why=requests.WITHDRAWN)
            return
        try:
            self._take(row)
        except msgspec.ValidationError as problem:
            log.error("request cannot be read", request=row.id, key=row.key, error=str(problem))
            self.give_up(row.id)

    async def _give_up(self, request_id: str, answer: msgspec.Struct | None, why: str) -> None:
        def write(connection: Connection) -> None:
            if answer is None:
                requests.give_up(connection, request_id, why)
            else:
                requests.conclude(connection, request_id, answer)

        try:
            await self._node.query(write)
        except (ConnectionLost, VersionConflict) as problem:
            log.info("request could not be given up", request=request_id, error=str(problem))
            self._handed.pop(request_id, None)
        except Exception:
            log.exception("request could not be given up", request=request_id)
            if answer is not None:
                # What spoilt its turn may stand in this answer, too: the next owner must not meet it again.
                await self._give_up(request_id, None, why)
            else:
                # Who asked waits still: what the node reminds of is read, and tried, again.
                self._handed.pop(request_id, None)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
