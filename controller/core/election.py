"""This room elects: who leads a partition, and what its ISR becomes (002 A 3.2; replication.md section 2)."""

from collections.abc import Container
from typing import Final, NamedTuple

import msgspec

from muster.kernel.topic_configs import floor
from muster.messages.link.rows import NO_LEADER, PROVEN, PartitionRow

LAST_EPOCH: Final = 2**31 - 1
"""What Kafka's protocol has room for. Nobody leads in it, for no other leader could be told from who does."""


class Policy(NamedTuple):
    """What a topic's configs say about elections."""

    min_insync_replicas: int
    unclean: bool


class Choice(NamedTuple):
    """Leader (−1: nobody), ISR, and why committed records may be missing ("" when they are not)."""

    leader: int
    isr: tuple[int, ...]
    possible_loss: str = ""


def elect(row: PartitionRow, isr: tuple[int, ...], live: Container[int], unclean: bool) -> Choice:
    """The first live member of `isr` in the order of assignment; without one nobody, and the ISR is kept.

    Only with `unclean` any live replica may lead then; what it lacks is lost.
    """
    for broker_id in row.assigned:
        if broker_id in isr and broker_id in live:
            return Choice(broker_id, isr)
    lossy = any_leader(row, live) if unclean else None
    return lossy if lossy is not None else Choice(NO_LEADER, isr)


def any_leader(row: PartitionRow, live: Container[int]) -> Choice | None:
    """The first live replica, in sync or not; None: none lives.

    What a reassignment is still adding comes last, wherever it stands: it may hold nothing at all
    (`unclean_takes_the_empty`).
    """
    alive = [broker_id for broker_id in row.assigned if broker_id in live]
    if not alive:
        return None
    first = next((broker_id for broker_id in alive if broker_id not in row.adding), alive[0])
    return Choice(first, (first,), "unclean election: no member of the ISR was live")


def without(row: PartitionRow, broker_id: int, fewest: int, lost_tail: bool) -> tuple[int, ...]:
    """The ISR after the loss of `broker_id`.

    A log that lost its tail leaves whatever remains, as its seat would make it leader without its
    records (section 7.2); the last member is always kept.
    """
    if broker_id not in row.isr:
        return row.isr
    rest = tuple(b for b in row.isr if b != broker_id)
    return rest if len(rest) >= (1 if lost_tail else fewest) else row.isr


def can_be_led_anew(row: PartitionRow) -> bool:
    """False: its leader epochs are used up; whoever is elected, nobody would lead."""
    return row.leader_epoch + 1 < LAST_EPOCH


def led_by_nobody(row: PartitionRow, version: int) -> PartitionRow:
    """The row in its last epoch; as it is if it is there already, or never was led: it had no epoch then."""
    if never_led(row) or (row.leader, row.leader_epoch) == (NO_LEADER, LAST_EPOCH):
        return row
    return msgspec.structs.replace(
        row, leader=NO_LEADER, leader_epoch=LAST_EPOCH, version=version, unproven=PROVEN
    )


def never_led(row: PartitionRow) -> bool:
    """True for a new partition: nothing was ever written, so any live replica may lead it."""
    return not row.isr


def first_leader(row: PartitionRow, live: Container[int]) -> Choice | None:
    """init_leaders of 002: the first live replica leads and all live ones are in sync; None: nobody lives."""
    alive = tuple(b for b in row.assigned if b in live)
    return Choice(alive[0], alive) if alive else None


def after_loss(
    row: PartitionRow, broker_id: int, live: Container[int], policy: Policy, lost_tail: bool = False
) -> Choice | None:
    """What becomes of a partition when `broker_id` is gone from `live`; None: nothing changes.

    Where nobody has shown a log since the database was set back, the ISR says nothing of who may be spared.
    """
    if row.is_unproven or (row.leader != broker_id and broker_id not in row.isr):
        return None
    isr = without(row, broker_id, floor(policy.min_insync_replicas, row.settled_count), lost_tail)
    if row.leader == broker_id:
        return elect(row, isr, live, policy.unclean)
    return Choice(row.leader, isr) if isr != row.isr else None


def after_leaving(row: PartitionRow, broker_id: int, live: Container[int], policy: Policy) -> Choice | None:
    """What becomes of a partition when `broker_id`, which still serves, is about to stop; None: nothing.

    `live` is without it. What nobody else in the ISR can lead it leads to its end; never unclean, and no seat
    is given up where nobody leads: its records may be the only ones that come back soon.
    """
    if broker_id not in row.isr or row.leader == NO_LEADER:
        return None
    isr = without(row, broker_id, floor(policy.min_insync_replicas, row.settled_count), False)
    if row.leader != broker_id:
        return Choice(row.leader, isr) if isr != row.isr else None
    choice = elect(row, tuple(b for b in row.isr if b != broker_id), live, unclean=False)
    return Choice(choice.leader, isr) if choice.leader != NO_LEADER and can_be_led_anew(row) else None


def after_return(row: PartitionRow, live: Container[int], policy: Policy) -> Choice | None:
    """A replica of a leaderless partition became live: a live member of the ISR leads, if there is one.

    Not where a database that was set back names that ISR (`isr_is_believed`).
    """
    if row.leader != NO_LEADER or row.is_unproven or not can_be_led_anew(row):
        return None
    if never_led(row):
        return first_leader(row, live)
    choice = elect(row, row.isr, live, policy.unclean)
    return choice if choice.leader != NO_LEADER else None
