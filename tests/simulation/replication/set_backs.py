"""This room sets the simulated database back to an earlier copy and lifts it, as a restore does.

All controllers end with it; brokers keep their folders, and what they believed until they hear otherwise.
"""

from dataclasses import replace
from random import Random

import msgspec

from controller.core.election import LAST_EPOCH
from controller.core.events import TimePassed
from controller.core.state import ClusterRows
from muster.messages.link.rows import NO_LEADER, PROVEN, UNPROVEN, PartitionKey, PartitionRow
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
            after.partitions.put(_lifted(row, by, version))
    return after


def _lifted(row: PartitionRow, by: int, version: int) -> PartitionRow:
    assert row.leader_epoch + by < LAST_EPOCH
    is_alone = len(row.assigned) == 1
    return msgspec.structs.replace(
        row,
        leader=row.leader if is_alone else NO_LEADER,
        leader_epoch=row.leader_epoch + by,
        unproven=PROVEN if is_alone else max(row.unproven, UNPROVEN),
        version=version,
    )


class SetBackWorld(World):
    """One whose database is copied now and then, and set back to the copy."""

    copied: ClusterRows | None = None
    lifts = 0

    def impatient(self, patience_ms: int) -> "SetBackWorld":
        """Nobody waits longer for a log than so many steps: elections may lose records, if that is noted."""
        self.losses = Losses(is_lossy=True)
        self.settings = replace(self.settings, unproven_patience_ms=patience_ms)
        self.controller.settings = self.settings
        return self

    def possible(self) -> list[Action]:
        found = super().possible()
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
        return found

    def _copy(self) -> None:
        self.copied = self.rows().copy()

    def _set_back(self) -> None:
        assert self.copied is not None
        self.zombie = None
        for link in self.links:
            link.close()
        for broker in self.brokers.values():
            if broker.link is not None:
                broker.link.close()
        self.links, self.finished_work = [], []
        # A copy may be older than a lift of before: this one goes above that, too.
        self.lifts += 1
        self.database.set_back(lifted(self.copied, by := self.lifts * LIFT), by)
        self.over_time.set_back(self)
        self.leavers.set_back()
        self.controller = Controller(self.database, self.settings, self.now)

    def _look_again(self) -> None:
        self.controller.turn([TimePassed()], self.now)

    def _look_at_members(self, key: PartitionKey, row: PartitionRow) -> None:
        """Who is in sync by an unproven row need hold nothing."""
        if not row.is_unproven:
            super()._look_at_members(key, row)


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
        # One that may have lost records and is undone with its database is not followed here.
        "set_back": 1 if is_impatient else rng.randint(1, 3),
        "power": power,
    }
    world = SetBackWorld(
        assignments,
        brokers=brokers,
        min_insync=2 if power else rng.choice((1, 1, 2)),
        budget=budget,
        in_the_turn=rng.choice((0, 200)),
        values=rng.choice((6, 12)),
    )
    return world.impatient(rng.choice((5, 15, 40))) if is_impatient else world


def run_seed(seed: int) -> Outcome:
    """One walk, as `runner` does them."""
    return runner.run_seed(seed, set_back_world)
