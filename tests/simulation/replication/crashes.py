"""This room follows machines that crashed until they hold again what they should."""

from typing import TYPE_CHECKING

from muster.messages.link.rows import NO_LEADER

if TYPE_CHECKING:
    from tests.simulation.replication.world import World


def may_crash(world: "World") -> bool:
    """One at a time, where that is promised to be made good; several, where elections may lose records."""
    return world.losses.is_lossy or not any(one.crashed for one in world.brokers.values())


def follow(world: "World") -> None:
    """Who was heard of since is looked at again, and counts again when it is in every ISR."""
    rows = list(world.rows().partitions.values())
    for b, broker in world.brokers.items():
        known = world.rows().brokers.get(b)
        is_heard = known is not None and known.incarnation > broker.crashed_in
        if broker.crashed == 1 and is_heard and not _is_to_be_elected(world, b):
            broker.crashed = 2
        mine = [row for row in rows if b in row.assigned]
        if broker.crashed == 2 and all(b in row.isr and not row.is_unproven for row in mine):
            broker.crashed = 0


def _is_to_be_elected(world: "World", b: int) -> bool:
    """A later turn elects it for what it is the last member of, and says that records may be missing."""
    rows = world.rows().partitions.values()
    return any(row.isr == (b,) and row.leader == NO_LEADER for row in rows)
