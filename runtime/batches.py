"""This room is a batch of commits on its way: whose it is, what is written together, who waits for it."""

import asyncio
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import structlog

from runtime.database import Held, Link
from runtime.ports import BatchSource, LaneLost

Writer = Callable[[Any, Mapping[Any, Any]], None]
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Seat:
    """A lane as its connection sees it: which lease fences it, and whether it still is ours."""

    name: str
    epoch: int
    on_lost: Callable[[], None]
    is_lost: bool = False

    def lose(self) -> None:
        """The lease is not ours any more; said once."""
        if not self.is_lost:
            self.is_lost = True
            self.on_lost()


@dataclass(slots=True)
class Part:
    """One source's share of a batch."""

    seat: Seat
    source: BatchSource
    waiting: list["asyncio.Future[None]"] = field(default_factory=list)
    rows: Mapping[Hashable, Any] = field(default_factory=dict)
    has_more: bool = False
    """What waited with these rows is to be gathered behind them, in the same batch."""
    error: Exception | None = None

    def gather(self) -> bool:
        """Have what waits judged, or a portion of it. False: there is nothing to be written."""
        self.rows, self.has_more = {}, False
        if self.seat.is_lost:
            self.refused(LaneLost(self.seat.name))
            return False
        try:
            self.rows = self.source.gather()
            self.has_more = self.source.has_more
        except Exception as error:
            log.exception("a batch could not be gathered", lane=self.seat.name)
            self.refused(error)
            return False
        if not self.rows:
            self.committed()
        return bool(self.rows)

    def committed(self) -> None:
        try:
            self.source.committed(self.rows)
        except Exception:
            log.exception("commits could not be answered", lane=self.seat.name)
        self._resolve()

    def refused(self, error: Exception) -> None:
        try:
            self.source.refused(self.rows, error)
        except Exception:
            log.exception("commits could not be refused", lane=self.seat.name)
        self.tell(error)

    def halves(self) -> Sequence["Part"]:
        """What belongs together stays together; nothing if all of it does."""
        of = self.source.belongs_to
        owners = list(dict.fromkeys(map(of, self.rows)))
        first = set(owners[: len(owners) // 2])
        if not first:
            return ()
        shares: tuple[dict[Hashable, Any], dict[Hashable, Any]] = ({}, {})
        for key, row in self.rows.items():
            shares[of(key) not in first][key] = row
        return [Part(self.seat, self.source, rows=rows) for rows in shares]

    def was_told_by(self, pieces: Sequence["Part"]) -> None:
        """Each piece was answered; who waits for the whole hears of one that was refused."""
        error = next((piece.error for piece in pieces if piece.error is not None), None)
        if error is not None:
            self.tell(error)
            return
        self._resolve()

    def tell(self, error: Exception) -> None:
        self.error = error
        for future in self.waiting:
            fail(future, error)

    def _resolve(self) -> None:
        """Whoever waits does so for all of it."""
        if self.has_more:
            return
        for future in self.waiting:
            if not future.done():
                future.set_result(None)


def batches(parts: Sequence[Part], most_rows: int) -> Iterator[Callable[[Link], None]]:
    """The rows of all parts as transactions of one writer each, and of at most so many rows."""
    writers: dict[Writer, dict[Hashable, Any]] = {}
    for part in parts:
        writers.setdefault(part.source.write, {}).update(part.rows)
    held = {part.seat.name: Held(part.seat.name, part.seat.epoch) for part in parts}
    leases = sorted(held.values(), key=lambda lease: lease.name)
    for writer, rows in writers.items():
        if len(rows) <= most_rows:
            yield partial(_batch, leases, writer, rows)
            continue
        rest = iter(rows.items())
        while some := dict(islice(rest, most_rows)):
            yield partial(_batch, leases, writer, some)


def _batch(leases: Sequence[Held], writer: Writer, rows: Mapping[Hashable, Any], link: Link) -> None:
    link.batch(leases, lambda connection: writer(connection, rows))


def kept(parts: Sequence[Part]) -> list[Part]:
    """The parts whose lane is still ours; the others are answered."""
    for part in parts:
        if part.seat.is_lost:
            part.refused(LaneLost(part.seat.name))
    return [part for part in parts if not part.seat.is_lost]


def fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    """Whoever waits hears it; if it was told already nothing happens."""
    if not future.done():
        future.set_exception(error)
        # Whoever does not wait any more was told by other means.
        future.exception()
