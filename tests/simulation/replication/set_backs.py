"""This room sets the simulated database back to an earlier copy and lifts it, as a restore does.

All controllers end with it; brokers keep their folders, and what they believed until they hear otherwise.
"""

from dataclasses import replace
from random import Random

import msgspec

from controller.core.election import LAST_EPOCH
from controller.core.events import TimePassed
from controller.core.state import ClusterRows
from muster.messages.link.rows import NO_LEADER, PROVEN, UNPROVEN, UNPROVEN_AGAIN, PartitionKey, PartitionRow
from tests.simulation.replication import runner
from tests.simulation.replication.controller_process import Controller
from tests.simulation.replication.losses import Losses
from tests.simulation.replication.runner import Outcome
from tests.simulation.replication.world import Action, World

LIFT = 10_000
"""More than anything counts up to in a walk."""


def lifted(rows: ClusterRows, by: int) -> ClusterRows:
    """What `controller.statements` makes of the rows in a lift."""
    after = rows.copy()
    after.proven_version = rows.metadata_version
    after.metadata_version += by
    version = after.metadata_version
    for broker in rows.brokers.values():
        after.brokers[broker.broker_id] = msgspec.structs.replace(
            broker, broker_epoch=broker.broker_epoch + by, version=version
        )
    for topic in rows.topics.values():
        after.topics[topic.topic_id] = msgspec.structs.replace(topic, removed_epoch=topic.removed_epoch + by)
    for row in rows.partitions.values():
        if row.isr:
            higher = _lifted(row, by, version)
            after.partitions.put(higher)
            after.change_leaderless(row.topic_id, (higher.leader == NO_LEADER) - (row.leader == NO_LEADER))
    return after


def _lifted(row: PartitionRow, by: int, version: int) -> PartitionRow:
    assert row.leader_epoch + by < LAST_EPOCH
    is_alone, before = len(row.assigned) == 1, row.unproven
    return msgspec.structs.replace(
        row,
        leader=row.leader if is_alone else NO_LEADER,
        leader_epoch=row.leader_epoch + by,
        unproven=PROVEN if is_alone else {PROVEN: UNPROVEN, UNPROVEN: UNPROVEN_AGAIN}.get(before, before),
        version=version,
    )


class SetBackWorld(World):
    """One whose database is copied now and then, and set back to the copy."""

    copied: ClusterRows | None = None
    lifts = 0
    are_heard_in_time = False
    """No session ends behind a lift before a broker that lives has linked, but where a fault says so."""

    def impatient(self, patience_ms: int) -> "SetBackWorld":
        """Nobody waits longer for a log than so many steps: elections may lose records, if that is noted."""
        self.losses = Losses(is_lossy=True)
        self.settings = replace(self.settings, unproven_patience_ms=patience_ms)
        self.controller.settings = self.settings
        return self

    def possible(self) -> list[Action]:
        found = super().possible()
        if self.are_heard_in_time:
            found = [one for one in found if one[0] != "expire" or not self.brokers[int(str(one[1]))].up]
        look_at = self.controller.state.memory.shown.look_at
        return found if look_at is None or look_at > self.now else [*found, ("look_again",)]

    def faults(self) -> list[Action]:
        found = super().faults()
        if any(one.crashed for one in self.brokers.values()):
            # One at a time: more is promised to nobody, and noted nowhere.
            found = [action for action in found if action[0] != "power"]
        if self.left("copy"):
            found.append(("copy",))
        if self.left("set_back") and self.copied is not None:
            found.append(("set_back",))
        if self.left("promote"):
            found.append(("promote",))
        return found

    def _copy(self) -> None:
        self.copied = self.rows().copy()

    def _promote(self) -> None:
        """The copy of this moment takes over, as a synchronous standby does: nothing is lost."""
        self._go_on_with(self.rows())

    def _set_back(self) -> None:
        assert self.copied is not None
        self._go_on_with(self.copied)

    def _go_on_with(self, rows: ClusterRows) -> None:
        self.zombie = None
        for link in self.links:
            link.close()
        for broker in self.brokers.values():
            if broker.link is not None:
                broker.link.close()
        self.links, self.finished_work = [], []
        # A copy may be older than all lifts of before: this one goes above their sum.
        self.database.set_back(lifted(rows, by := LIFT << self.lifts), by)
        self.lifts += 1
        self.over_time.set_back(self)
        self.leavers.set_back()
        self.controller = Controller(self.database, self.settings, self.now)

    def _look_again(self) -> None:
        self.controller.turn([TimePassed()], self.now)

    def _look_at_members(self, key: PartitionKey, row: PartitionRow) -> None:
        """Who is in sync by an unproven row need hold nothing."""
        if not row.is_unproven:
            super()._look_at_members(key, row)


def standby_budget(rng: Random) -> dict[str, int]:
    """Of worlds in which a standby takes over that lacks little or nothing, while somebody is away."""
    return {
        "kill": rng.randint(1, 2),
        "expire": rng.randint(1, 2),
        "takeover": rng.randint(0, 1),
        "leave": 0,
        "break": rng.randint(0, 1),
        "copy": rng.randint(0, 2),
        "set_back": rng.choice((0, 1, 1)),
        "promote": rng.choice((1, 1, 2)),
    }


def set_back_world(rng: Random, seed: int) -> SetBackWorld:
    """Three or four brokers that die, stop, lag and lose links, and nothing is moved.

    In two of three everybody is waited for, and no election may lose anything; in the others patience ends,
    or machines crash.
    """
    brokers = rng.choice((3, 3, 4))
    factor = rng.choice((2, 3, 3))
    ids = list(range(1, brokers + 1))
    assignments = [tuple(rng.sample(ids, factor)) for _ in range(rng.choice((1, 1, 2)))]
    is_impatient = seed % 3 == 2
    power = rng.choice((0, 0, 2)) if is_impatient else 0
    budget = {
        "kill": rng.randint(0, 3),
        "expire": rng.randint(1, 4),
        "takeover": rng.randint(0, 2),
        "late": rng.randint(0, 2),
        "slow": rng.randint(0, 3),
        "move": rng.randint(0, 2),
        "elect": rng.choice((0, 0, 2)),
        "leave": rng.choice((0, 0, 2)),
        "break": rng.randint(0, 3),
        "copy": rng.randint(1, 3),
        "promote": 0,
        # One that may have lost records and is undone with its database is not followed here.
        "set_back": 1 if is_impatient else rng.randint(1, 3),
        "power": power,
    }
    if seed % 3 == 1:
        budget |= standby_budget(Random(seed))
    world = SetBackWorld(
        assignments,
        brokers=brokers,
        min_insync=2 if power else rng.choice((1, 1, 2)),
        budget=budget,
        in_the_turn=rng.choice((0, 200)),
        values=rng.choice((6, 12)),
    )
    world.are_heard_in_time = seed % 3 == 1
    return world.impatient(rng.choice((5, 15, 40))) if is_impatient else world


def run_seed(seed: int) -> Outcome:
    """One walk, as `runner` does them."""
    return runner.run_seed(seed, set_back_world)
