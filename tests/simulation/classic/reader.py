"""This room is what a simulated Kafka client reads: from where it begins, and what it commits of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coordinator.classic_commits import Committed
from coordinator.core.offsets import NO_OFFSET
from muster.kernel.error_codes import ErrorCode
from muster.kernel.ids import TopicName
from muster.messages.partitions import Partition

if TYPE_CHECKING:
    from tests.simulation.classic.client import Client
    from tests.simulation.classic.seat import Found

PARTITIONS = 6
FETCH_AGAIN_MS = 300
FETCH_TIMEOUT_MS = 8_000
OFFSETS = 2**31
NEVER_READ = "past"
"""A topic that nobody subscribes to, and of which there are offsets nevertheless; it comes and goes."""


class Reader:
    """The shares of one client in one generation. `ready`: it knows where to begin."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._world = client.world
        self.shares: frozenset[int] = frozenset()
        self.ready = False
        self.commits = 0
        self._last: dict[Partition, Committed] = {}
        self._had: frozenset[int] = frozenset()
        self._round = 0

    def start(self, shares: frozenset[int]) -> None:
        """It has an assignment, and asks what is committed for it."""
        self.stop()
        self.shares = shares
        self._fetch()

    def stop(self) -> None:
        """It reads nothing more."""
        self._had = self.shares or self._had
        self.shares, self.ready = frozenset(), False
        self._round += 1

    # -- OffsetFetch ------------------------------------------------------------------------

    def _fetch(self) -> None:
        mine, seat = self._round, self._client.seat
        if seat is None or self._client.gone:
            self._again(mine, FETCH_AGAIN_MS)
            return

        def told(found: Found | ErrorCode) -> None:
            if mine != self._round:
                return
            if isinstance(found, ErrorCode):
                self._again(mine, FETCH_AGAIN_MS)
            else:
                self.ready = True

        seat.send(seat.fetch, self._partitions(self.shares), told)
        self._again(mine, FETCH_TIMEOUT_MS)

    def _again(self, mine: int, delay_ms: float) -> None:
        client = self._client

        def still() -> None:
            if mine == self._round and not self.ready and not client.gone:
                self._round += 1
                self._fetch()

        self._world.later(delay_ms, still)

    # -- OffsetCommit -----------------------------------------------------------------------

    def commit_now_and_then(self) -> None:
        """Its interval is over, or not."""
        if self.ready and (self._world.chance.random() < 0.6 or self._world.quiet):
            self._commit(self.shares)

    def commit_late(self) -> None:
        """What it read before it heard that it is to join again."""
        if self._world.chance.random() < 0.5:
            self._commit(self.shares or self._had)
        self.stop()

    def commit_as_of_old(self) -> None:
        """A commit that lay about: of a generation that is over, or of one that is not assigned yet."""
        self._commit(self._had or self.shares, older=0 if self._client.state == "syncing" else 1)

    def _commit(self, shares: Iterable[int], older: int = 0) -> None:
        client, chance = self._client, self._world.chance
        seat = client.seat
        if seat is None or not client.member_id or client.generation < older or client.paused:
            return
        partitions = self._partitions(shares)
        if chance.random() < 0.2:
            partitions += (client.cluster.partition(NEVER_READ, 0),)
        positions = self._positions(partitions)
        if not positions:
            return

        member_id, generation = client.member_id, client.generation - older
        sent_at = self._world.now

        def told(error: ErrorCode) -> None:
            if error is ErrorCode.NONE and (member_id, generation) == (client.member_id, client.generation):
                self.commits += 1
                client.cluster.checks.lives(client, sent_at)
            elif error is ErrorCode.FENCED_INSTANCE_ID or error is ErrorCode.ILLEGAL_GENERATION:
                self._world.tell(f"    a commit of {client.name} hears {error.name}")

        seat.send(seat.commit, member_id, client.instance, generation, positions, told)

    def _positions(self, partitions: Iterable[Partition]) -> dict[Partition, Committed]:
        """Where it is now; now and then nothing has come since its last commit."""
        chance = self._world.chance
        plain, idle = chance.random() < 0.5, chance.random() < 0.2
        positions = {
            one: self._last[one] if idle and one in self._last else self.position(plain=plain)
            for one in partitions
        }
        self._last.update(positions)
        return positions

    def position(self, *, plain: bool) -> Committed:
        """Some offset, which nobody committed before; not plain: with a note."""
        chance = self._world.chance
        offset = chance.randrange(NO_OFFSET + 1, OFFSETS)
        if plain:
            return Committed(offset)
        return Committed(offset, chance.randint(0, 9), f"read up to {offset}")

    def _partitions(self, shares: Iterable[int]) -> tuple[Partition, ...]:
        return tuple(self._client.cluster.partition(TopicName("orders"), number) for number in sorted(shares))
