"""This room walks worlds whose brokers have disks: what `run.py` calls the simulation `disks`.

The faults of the other walks, and those of a disk: refused writes and cuts, an fsync that fails, a write torn
by a kill, a flipped bit, a crash that takes what was not flushed, a log that one start cannot open. One
damage at a time, with min.insync.replicas = 2, must lose nothing that was acknowledged (replication.md
section 6).

A flipped bit in a batch that was flushed is found by who fetches it, and then another leads; no other damage
comes before it is found. Excluded is one that turns a leader epoch into another plausible one before it is
sent on.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from broker.core.replica_log import PartitionKey
from broker.handlers_replication import WHOLE_PASS_MS
from broker.known_topics import LOG_FIELDS
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from muster.kernel.instants import Instant
from muster.kernel.topic_configs import (
    MAX_MESSAGE_BYTES,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    SEGMENT_MS,
)
from tests.simulation.replication import crashes
from tests.simulation.replication.broker_process import Broker, incarnation
from tests.simulation.replication.disk_broker import WALL_MS, DiskBroker
from tests.simulation.replication.disk_following import Diverged
from tests.simulation.replication.disk_harm import refusing
from tests.simulation.replication.disk_log import DAY_MS
from tests.simulation.replication.runner import (
    Outcome,
    config_budget,
    next_action,
    removal_budget,
    settle,
    topic_budget,
    unclean_budget,
    unclean_config_budget,
    unclean_power_budget,
)
from tests.simulation.replication.wishes import Broken
from tests.simulation.replication.world import Action, World

STEPS = 120
TOPICS_IN_EACH = 4
DAYS_IN_EACH = 6
SHRUNK_IN_EACH = UNCLEAN_IN_EACH = 10
"""One world of so many."""
MOVED_IN_EACH = 4
"""Of the unclean ones, one of so many has partitions move away from logs that cannot be opened."""
BARRED_IN_EACH, BARRED = 11, (7, 10)
"""Two worlds of so many have logs that one start cannot open, and another can."""
LONG_CUTS_IN_EACH, LONG_CUTS = 7, (1, 3, 5)
"""In three worlds of so many any cut is a long one: what its producers stored is read beside the loop."""
IN_MEMORY = Path("/dev/shm")
DAMAGE = ("power", "flip", "rot", "flush_fails")
"""Faults after which a log may lack what it held: one at a time is promised to be made good."""


OTHER_FAULTS = ("tear", "stop", "takeover", "late", "slow", "move", "break", "refuse", "trim", "day")
RETENTIONS = tuple((RETENTION_BYTES, value) for value in ("0", "400", None))
TIMES = (
    *((SEGMENT_MS, value) for value in (str(DAY_MS // 2), str(2 * DAY_MS + DAY_MS // 2), None)),
    *((RETENTION_MS, value) for value in (str(2 * DAY_MS + DAY_MS // 2), None)),
    (SEGMENT_BYTES, "1048576"),
)
"""A day closes a segment, or three do; what is three or four days old goes; and size closes none."""
OBEYED = (SEGMENT_MS, SEGMENT_BYTES, MAX_MESSAGE_BYTES, RETENTION_BYTES, RETENTION_MS)
SIZES = (
    *((SEGMENT_BYTES, value) for value in ("1048576", None)),
    *((MAX_MESSAGE_BYTES, value) for value in ("60", None)),
    *((RETENTION_MS, value) for value in ("3600000", None)),
)
"""One segment for all, or small ones; no batch may be produced, or any; all is old, or nothing."""


class DiskWorld(World):
    """A world whose brokers keep their logs in files below `folder`."""

    config_choices = (*World.config_choices, *RETENTIONS, *SIZES)
    revival = 0.5
    """How likely all machines are revived for the fair run that ends a walk."""

    def __init__(
        self, folder: Path, runner: asyncio.Runner, rng: Random, *stated: Any, **options: Any
    ) -> None:
        self.wall_ms = WALL_MS
        self._folder = folder
        self._runner = runner
        self._rng = rng
        self._starts: dict[tuple[int, PartitionKey, int], tuple[PartitionLog, int, int, int]] = {}
        """The log that a broker had there, in which of its runs, where it began when last looked at, and how
        often it was cut by then."""
        self.has_days = bool(options.get("budget", {}).get("day"))
        super().__init__(*stated, **options)
        for b in self.brokers:
            self._disk(b).committed = self.committed
            self._disk(b).may_cut = partial(self.losses.may_cut_committed, self.brokers[b])
            self._disk(b).below = {} if self.losses.is_lossy else None

    def _machine(self, broker_id: int) -> Broker:
        folder = self._folder / str(broker_id)
        made = DiskBroker(broker_id, folder, self._runner, lambda: self.now, Random(self._rng.random()))
        made.calendar = lambda: self.wall_ms
        return made

    def configs_to_choose(self) -> tuple[tuple[str, str | None], ...]:
        """Where time passes all that it acts by; where disks do harm nothing else."""
        found = super().configs_to_choose()
        if not self.has_days:
            return found
        return TIMES if self.min_insync > 1 else (*found, *TIMES)

    def _day(self) -> None:
        self.wall_ms += DAY_MS

    def possible(self) -> list[Action]:
        found = super().possible()
        for b, broker in self._up():
            if broker.plane.partitions():
                found += [("flush", b), ("checkpoint", b)]
            if any(self._deletes(one.log.settings) for one in broker.plane.partitions()):
                found.append(("retain", b))
            found += [
                ("cut_below" if one.is_read else "read_below", b, i)
                for i, one in enumerate(broker.cuts.beside)
            ]
        return found

    def _up(self) -> list[tuple[int, DiskBroker]]:
        return [(b, one) for b, one in self.brokers.items() if one.up and isinstance(one, DiskBroker)]

    def faults(self) -> list[Action]:
        days: list[Action] = [("day",)] if self.left("day") else []
        is_whole = crashes.may_crash(self)
        found = days + [one for one in super().faults() if one[0] not in DAMAGE or is_whole]
        if self.left("bar"):
            down = [(b, self._disk(b)) for b in self.brokers if not self.brokers[b].up]
            found += [("bar", b, key) for b, broker in down for key in broker.barred.choices()]
        for b, broker in self._up():
            if self.left("stop") and not broker.is_flipped:
                found.append(("stop", b))
            if self.left("tear"):
                found.append(("tear", b))
            if is_whole:
                found += [(name, b) for name in ("flip", "rot", "flush_fails") if self.left(name)]
            if broker.needs_restart:
                found.append(("kill_damaged", b))
            for key, replica in broker.replicas.items():
                if self.left("trim") and replica.leads and replica.high_watermark:
                    found.append(("trim", b, key))
                if self.left("refuse") and replica.leads:
                    found.append(("append_refused", b, key))
                if self.left("refuse") and replica.next_fetch() is not None:
                    found += [("fetch_refused", b, key, op) for op in ("pwrite", "ftruncate")]
            for i, one in enumerate(broker.cuts.beside):
                if self.left("refuse") and not one.is_read:
                    found.append(("below_refused", b, i))
        return found

    def do(self, action: Action, rng: Random | None = None) -> None:
        if action[0] in ("append_refused", "fetch_refused", "below_refused"):
            self.budget["refuse"] -= 1
        try:
            super().do(action, rng)
        except Diverged as diverged:
            # Of a topic that is gone nobody keeps what its leader, that has not heard of it, goes on with.
            if any(isinstance(one, PartitionKey) and one not in self.keys for one in action):
                return
            raise Broken(str(diverged)) from diverged

    @property
    def is_rotten(self) -> bool:
        """A flushed batch of some broker is damaged and was not found yet."""
        return any([self._disk(b).look_for_rot() for b in self.brokers])

    def _look(self) -> None:
        _ = self.is_rotten
        super()._look()
        there = set(self.keys)
        for _, broker in self._up():
            # Of a topic that is gone nobody keeps what was committed, and so what a leader deletes that
            # has not heard of it.
            if any(log.has_hole for key, log in broker.logs.items() if key in there):
                raise Broken("a log with a hole")
            self._look_at_starts(broker)
            self._look_at_settings(broker)

    def _look_at_settings(self, broker: DiskBroker) -> None:
        """Each log obeys what was set for its topic as soon as its broker has heard of it."""
        if not broker.view.ready:
            return
        for hosted in broker.plane.partitions():
            topic = broker.view.topics.get(hosted.key.topic_id)
            if topic is None:
                continue
            default, settings = broker.settings.log, hosted.log.settings
            for key, field in ((key, LOG_FIELDS[key]) for key in OBEYED):
                wanted = int(topic.configs.get(key, getattr(default, field)))
                if getattr(settings, field) != wanted:
                    raise Broken(f"a log obeys another {key} than its broker has heard")

    def _look_at_starts(self, broker: DiskBroker) -> None:
        """What is deleted was committed, and stays deleted but for a crash or a damage of its machine."""
        for hosted in broker.plane.partitions():
            base_epoch = hosted.replica.row.base_epoch if hosted.replica.row is not None else 0
            log, place = hosted.log, (broker.broker_id, hosted.key, base_epoch)
            if log.failure:
                continue
            if log.start_offset > hosted.high_watermark:
                raise Broken("begins above its high watermark")
            before, run, start, cuts = self._starts.get(place, (log, broker.run, 0, 0))
            # Another log: it was removed and made anew, both by what was heard at once.
            is_same = before is log if run == broker.run else before.folder == log.folder
            is_same &= log.end_offset >= start
            # Behind an election that lost what it has deleted it begins again, perhaps earlier.
            is_same &= not self.losses.is_lossy or run != broker.run or cuts == log.cuts
            if log.start_offset < start and is_same and not broker.crashed:
                raise Broken("what was deleted is there again")
            self._starts[place] = log, broker.run, log.start_offset, log.cuts

    def left_undone(self, revive: bool) -> str:
        """At rest every live member of the ISR begins where its leader does, or later; `revive`: all live."""
        for key in self.keys:
            row = self.rows().partitions.get(key)
            if row is None or row.leader not in self.brokers or not self.brokers[row.leader].up:
                continue
            start = self.brokers[row.leader].replicas[key].log.start_offset
            for b in row.isr:
                one = self.brokers[b]
                if one.up and key in one.replicas and one.replicas[key].log.start_offset < start:
                    return "a follower begins before its leader"
        return ""

    def look_at_unusable(self) -> None:
        """At rest every broker knows which logs cannot be used, as who has them says; raises Broken."""
        memory, there = self.controller.state.memory, self.rows().partitions
        expected = {(b, key) for b, keys in memory.unusable.items() for key in keys if there.get(key)}
        for b, broker in self._up():
            session, link = memory.sessions.get(b), broker.link
            if link is None or session is None or session.link != link.link_id or not broker.view.ready:
                continue
            if not link.open or link.to_broker or link.to_controller:
                continue
            told = broker.view.unusable.items()
            known = {(other, (t, n)) for t, here in told for n, others in here.items() for other in others}
            if {one for one in known if there.get(one[1])} != expected:
                raise Broken("a broker believes something else of logs that cannot be used")
            own = {key for key in broker.plane.troubles.unusable if there.get(key)}
            if own != {key for other, key in expected if other == b}:
                raise Broken("the controller believes something else of logs than their broker")

    def _disk(self, b: int) -> DiskBroker:
        broker = self.brokers[b]
        assert isinstance(broker, DiskBroker)
        return broker

    def _flush(self, b: int) -> None:
        self._disk(b).flush(fails=False)

    def _flush_fails(self, b: int) -> None:
        self._disk(b).flush(fails=True)

    def _checkpoint(self, b: int) -> None:
        self._disk(b).checkpoint()

    def _retain(self, b: int) -> None:
        self.losses.has_trimmed = True
        self._disk(b).retain()

    def _stop(self, b: int) -> None:
        self._disk(b).stop()

    def _trim(self, b: int, key: Any) -> None:
        self.losses.has_trimmed = True
        self._disk(b).trim(key)

    def _tear(self, b: int) -> None:
        self._disk(b).tear()

    def _bar(self, b: int, key: PartitionKey) -> None:
        self._disk(b).barred.bar(key)

    def _flip(self, b: int) -> None:
        self._disk(b).flip()

    def _rot(self, b: int) -> None:
        self._disk(b).rot()

    def _kill_damaged(self, b: int) -> None:
        self._disk(b).kill()

    def _append_refused(self, b: int, key: Any) -> None:
        with refusing("pwrite"):
            self._disk(b).append(key, self._disk(b).logs[key].next_value)

    def _fetch_refused(self, b: int, key: Any, operation: str) -> None:
        request = self.brokers[b].request(key)
        answer = self._serve(request)
        if answer is None:
            return
        if not crashes.may_crash(self):
            # A log that fails is doubted when it is opened again, and that is a damage as well.
            self._take(b, answer)
            return
        broker = self._disk(b)
        with refusing(operation):
            self._take(b, answer)
        if broker.plane.troubles.unusable:
            broker.needs_restart = True
            broker.crashed, broker.crashed_in = 1, incarnation(broker.run)

    def _read_below(self, b: int, index: int) -> None:
        self._disk(b).read_below(index)

    def _below_refused(self, b: int, index: int) -> None:
        with refusing("pread"):
            self._disk(b).read_below(index)

    def _cut_below(self, b: int, index: int) -> None:
        self._disk(b).cut_below(index)

    def _deletes(self, settings: LogSettings) -> bool:
        return settings.deletes and (settings.retention_bytes >= 0 or settings.retention_ms < self.wall_ms)

    def waits_for_a_pass(self, text: str) -> bool:
        """True once: now leaders judge again who asks for nothing new."""
        if not text:
            return False
        passed, self.now = self.now, Instant(self.now + WHOLE_PASS_MS)
        return passed < WHOLE_PASS_MS

    def revive_damaged(self) -> bool:
        """Somebody looks after the disks and starts these brokers again; False: there are none."""
        damaged = [
            b for b, one in self._up() if one.needs_restart or any(r.failed for r in one.replicas.values())
        ]
        for b in damaged:
            self.do(("kill_damaged", b))
            self.do(("start", b))
        return bool(damaged)


def random_world(rng: Random, seed: int, folder: Path, runner: asyncio.Runner) -> DiskWorld:
    """Three brokers, one or two partitions, and a budget for each kind of fault."""
    fate = rng.random()
    harm, rot = fate < 0.7, fate > 0.85
    factor = 2 if rot else rng.choice((2, 3, 3))
    assignments = [tuple(rng.sample((1, 2, 3), factor)) for _ in range(rng.choice((1, 2)))]
    budget = {
        "kill": rng.randint(0, 2),
        "tear": rng.randint(0, 2),
        "stop": rng.randint(0, 1),
        "expire": rng.randint(0, 2),
        "takeover": rng.randint(0, 1),
        "late": rng.randint(0, 1),
        "slow": rng.randint(0, 2),
        "move": rng.randint(0, 2),
        "break": rng.randint(0, 2),
        "refuse": rng.randint(0, 2),
        "power": rng.randint(0, 1) if harm else 0,
        "flip": rng.randint(0, 2) if harm else 0,
        "rot": 1 if rot else 0,
        "reassign": 2 if rot else 0,
        "flush_fails": rng.randint(0, 1) if harm else 0,
        # Of its own chance: a walk without deletions is as it would be if there were none.
        "trim": Random(seed + 1).choice((0, 0, 1, 3)),
    }
    if seed % TOPICS_IN_EACH == 0:
        budget.update(topic_budget(rng))
    if not harm and not rot:
        budget |= config_budget(seed)
    is_unclean = seed % UNCLEAN_IN_EACH == 7
    if is_unclean:
        harm = rot = False
        budget |= dict.fromkeys(DAMAGE, 0) | unclean_budget(Random(seed))
        budget |= unclean_power_budget(seed) | {"configure": 0, **unclean_config_budget(seed)}
        if seed // UNCLEAN_IN_EACH % MOVED_IN_EACH == 3:
            budget |= {"bar": 8, "reassign": 4, "power": 0}
    if seed % DAYS_IN_EACH == 5:
        budget |= {"day": Random(seed).randint(2, 7), "configure": Random(seed + 3).randint(2, 5)}
    if seed % SHRUNK_IN_EACH == 4:
        # What a log that was removed held below its start, nobody here remembers.
        budget |= {**removal_budget(Random(seed)), "trim": 0}
    if seed % BARRED_IN_EACH in BARRED:
        # Of its own chance, and nothing of it elsewhere: other walks are as they were.
        bars = Random(seed + 4)
        budget["bar"] = bars.randint(1, 4)
        if is_unclean:
            # A crash, and a log that does not open behind it, of the last that is in sync: nothing else.
            assignments = [tuple(bars.sample((1, 2, 3), 2))]
            budget |= dict.fromkeys(OTHER_FAULTS, 0) | {"bar": 8, "power": bars.randint(2, 4), "configure": 4}
    return DiskWorld(
        folder,
        runner,
        rng,
        assignments,
        brokers=3,
        min_insync=2 if harm or rot else rng.choice((1, 2)),
        budget=budget,
        in_the_turn=rng.choice((0, 200)),
        is_lossy=is_unclean,
    )


def settle_machines(world: DiskWorld, revive: bool) -> str:
    """Fair runs until no machine needs another start; the first that breaks something is the last."""
    try:
        text = settle(world, revive)
        world.look_at_unusable()
        while not world.broken and (world.revive_damaged() or world.waits_for_a_pass(text)):
            text = settle(world, revive)
            world.look_at_unusable()
    except Broken as broken:
        return str(broken)
    return text


def run_seed(seed: int) -> Outcome:
    """One walk, ended by a fair run: all machines revived, or only those that live."""
    return walk(seed, "disks", STEPS, random_world)


def walk(
    seed: int, name: str, steps: int, made: Callable[[Random, int, Path, asyncio.Runner], DiskWorld]
) -> Outcome:
    """The same of so many steps through a world that `made` makes."""
    rng = Random(seed)
    trail: list[Action] = []
    parent = IN_MEMORY if IN_MEMORY.is_dir() else None
    with (
        TemporaryDirectory(dir=parent, prefix=f"{name}-") as folder,
        asyncio.Runner() as runner,
        structlog.testing.capture_logs(),
    ):
        try:
            world = made(rng, seed, Path(folder), runner)
            for b in world.brokers:
                world._disk(b).holds_cuts = seed % LONG_CUTS_IN_EACH in LONG_CUTS
            likelihood = rng.choice((0.05, 0.1, 0.2))
            for _ in range(steps):
                action = next_action(world, rng, likelihood)
                if action is None:
                    break
                trail.append(action)
                world.do(action, rng)
            world.revive_damaged()
        except Broken as broken:
            return Outcome(seed, str(broken), tuple(trail))
        # Whoever holds the only copy that is alive goes on with it: the others must come back.
        revive = rng.random() < world.revival or world.is_rotten
        text = settle_machines(world, revive) or world.left_undone(revive)
        for _, broker in world._up():
            broker.kill()
    return Outcome(seed, f"after a fair run ({revive=}): {text}" if text else "", tuple(trail))
