"""This room reads the simulated partitions as consumers on racks do: at leaders, and where they are sent.

Reading changes nothing but what a reader has seen, so walks are the same with readers and without.
"""

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from broker.core import nearest_replica
from broker.core.replica import Replica
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.rows import PartitionRow
from tests.simulation.replication.broker_process import NEVER_LAGS, Broker
from tests.simulation.replication.losses import is_unclean
from tests.simulation.replication.memory_log import Stored
from tests.simulation.replication.over_time import Identity, identity
from tests.simulation.replication.wishes import Broken

if TYPE_CHECKING:
    from tests.simulation.replication.world import World

TURNS = 6
"""In so many a reader that nobody disturbs has seen everything: sent on, sent back, and all of it at once."""


class Reader:
    """A consumer on the rack of one broker, with old metadata: it states no leader epoch."""

    def __init__(self, rack: int) -> None:
        self.rack = rack
        self.at: dict[Identity, int] = {}
        """Where it reads, if it was sent away from the leader."""
        self.alone: dict[Identity, int] = {}
        """Where it reads what may be lost: at the leader."""
        self.seen: dict[Identity, list[Stored]] = {}
        """What it has read, by offset."""


class Readers:
    """One reader on the rack of each broker; each broker has a rack of its own."""

    def __init__(self, racks: Iterable[int]) -> None:
        self.readers = [Reader(rack) for rack in racks]
        self.read_at_followers = 0
        self._told: dict[tuple[Identity, int, int], Stored] = {}
        """What anybody read, by offset and leader epoch, where elections may lose records."""

    def step(self, world: "World", rng: Random) -> None:
        """Some of them read; raises Broken."""
        for reader in self.readers:
            for row in world.rows().partitions.values():
                if _may_lose(world, row):
                    self._read_what_may_go(world, reader, row)
                    continue
                if rng.random() < 0.5:
                    self._read(world, reader, row, rng.randint(1, 3))

    def read_on(self, world: "World") -> str:
        """Everybody reads to the end; what hinders somebody, "" if nothing does. Raises Broken."""
        rows = [row for row in world.rows().partitions.values() if not _may_lose(world, row)]
        for reader in self.readers:
            for row in rows:
                for _ in range(TURNS):
                    self._read(world, reader, row, len(world.committed[row.key]) + 1)
                leader = _replica(world, row.leader, row)
                can_go_on = leader is not None and leader.leads and leader.leader_epoch == row.leader_epoch
                if can_go_on and len(reader.seen[identity(row)]) < leader.high_watermark:  # type: ignore[union-attr]
                    return "a reader stands still"
        return ""

    def _read_what_may_go(self, world: "World", reader: Reader, row: PartitionRow) -> None:
        """What is read may be lost; another record in its place is one of another leader epoch."""
        name, leader = identity(row), _replica(world, row.leader, row)
        if leader is None or leader.refusal() is not ErrorCode.NONE:
            return
        at = reader.alone.get(name, 0)
        if at > leader.log.end_offset:
            at = 0
        end = min(leader.readable_end, at + 3)
        if end > leader.high_watermark:
            raise Broken("a reader is served above the high watermark")
        for offset, record in enumerate(world.brokers[row.leader].logs[row.key].records[at:end], at):
            if self._told.setdefault((name, offset, record.epoch), record) != record:
                raise Broken("a reader saw two records at one offset, of one leader epoch")
        reader.alone[name] = max(at, end)

    def _read(self, world: "World", reader: Reader, row: PartitionRow, most: int) -> None:
        """One fetch, at the leader or where the reader was sent."""
        name = identity(row)
        seen = reader.seen.setdefault(name, [])
        b = reader.at.get(name, row.leader)
        replica = _replica(world, b, row)
        if replica is None or self._refused(replica, len(seen)):
            reader.at.pop(name, None)
            return
        if replica.leads and self._sent_on(world, reader, row, world.brokers[b]):
            return
        if not replica.leads and b not in replica.isr:
            raise Broken("served by a follower that knows to be out of sync")
        offset = len(seen)
        end = min(replica.readable_end, offset + most)
        seen += world.brokers[b].logs[row.key].records[offset:end]
        self.read_at_followers += len(seen) - offset if not replica.leads else 0
        if seen != world.committed[row.key][: len(seen)]:
            raise Broken("a reader saw what was not committed, or not in its place")

    def _refused(self, replica: Replica, offset: int) -> bool:
        """True if it has to look for the leader."""
        refusal = replica.refusal()
        if refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            refusal = nearest_replica.refusal_at_follower(replica, offset)
        elif refusal is ErrorCode.NONE and offset > replica.log.end_offset:
            refusal = ErrorCode.OFFSET_OUT_OF_RANGE
        if refusal is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Broken("a reader begins anew")
        return refusal is not ErrorCode.NONE

    def _sent_on(self, world: "World", reader: Reader, row: PartitionRow, leader: Broker) -> bool:
        known = leader.view.brokers.get(reader.rack)
        if reader.rack == leader.broker_id or known is None or not known.live or known.leaving:
            return False
        replica, name = leader.replicas[row.key], identity(row)
        offset = len(reader.seen[name])
        found = nearest_replica.nearest_follower(replica, (reader.rack,), offset, world.now, NEVER_LAGS)
        if found is None:
            return False
        reader.at[name] = found
        follower = world.brokers[found]
        there = follower.replicas.get(row.key)
        # Who lost its tail with its machine still counts here with what it held.
        is_sound = there is not None and there.leader_epoch == replica.leader_epoch and not follower.crashed
        if is_sound and offset > follower.logs[row.key].end_offset:
            raise Broken("sent to a follower that lacks what is wanted")
        if found not in replica.isr:
            raise Broken("sent to a follower that is out of sync")
        return True


def _may_lose(world: "World", row: PartitionRow) -> bool:
    return is_unclean(world, row) or world.losses.may_have_lost(row)


def _replica(world: "World", b: int, row: PartitionRow) -> Replica | None:
    """What the broker holds of this very partition; None: nothing, or it is away."""
    broker = world.brokers.get(b)
    replica = broker.replicas.get(row.key) if broker is not None and broker.up else None
    if replica is None or replica.row is None or replica.row.base_epoch != row.base_epoch:
        return None
    return replica
