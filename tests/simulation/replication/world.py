"""This room is the world of replication: machines, controllers, links, a producer, and what must never be.

An action is a tuple (name, arguments). `possible` lists what may happen without a fault, `faults` what
fate may do; `do` performs one and then looks at every invariant of replication.md section 6.
"""

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import ClassVar
from uuid import UUID

from broker.core.cluster_view import PartitionKey
from broker.core.producers import REMEMBERED_BATCHES, Append, Duplicate
from broker.core.replica import Replica
from controller.core.draft import Draft
from controller.core.election import Choice, never_led
from controller.core.events import PlanComputed, ProposalsReady
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, folded
from muster.kernel.instants import Instant
from muster.kernel.topic_configs import UNCLEAN_LEADER_ELECTION
from muster.messages.link.rows import NO_LEADER, PartitionRow, TopicRow
from tests.simulation.replication import crashes
from tests.simulation.replication.broker_process import (
    ALWAYS_LAGS,
    NEVER_LAGS,
    Broker,
    FetchAnswer,
    FetchRequest,
    is_of,
    laggards,
)
from tests.simulation.replication.configuring import Configuring
from tests.simulation.replication.controller_process import Controller, Database, Link, compute
from tests.simulation.replication.leaving import Leavers
from tests.simulation.replication.losses import Held, Losses, match, may_trim
from tests.simulation.replication.memory_log import Stored
from tests.simulation.replication.over_time import OverTime
from tests.simulation.replication.plan_walks import PlanWalks
from tests.simulation.replication.registrations import Registrations
from tests.simulation.replication.wishes import Broken, Wishes

Action = tuple[object, ...]
TOPIC = UUID(int=1)
UNCLEAN_OR_NOT = tuple((UNCLEAN_LEADER_ELECTION, value) for value in ("true", "false"))
IN_FLIGHT = 5
"""Batches that an idempotent producer sends before the first is acknowledged."""


class World(Wishes):
    """Brokers 1 to n and one topic `orders`; budgets say how often each fault may still happen."""

    configs: ClassVar[Mapping[str, str]] = {}
    """Of the first topic."""

    broken = ""
    """What a fair run broke: another one would not meet it again."""
    rounds_of_rest = 2
    """Of a fair run, in which nothing changes: then nothing will."""

    def __init__(
        self,
        assignments: list[tuple[int, ...]],
        brokers: int = 3,
        min_insync: int = 1,
        values: int = 6,
        budget: dict[str, int] | None = None,
        in_the_turn: int = 200,
        is_lossy: bool = False,
    ) -> None:
        self.now = Instant(0)
        self.values = values
        self.budget = dict(budget or {})
        self.min_insync = min_insync
        self.deaths_are_left = not in_the_turn  # To a worker: their own turns have no room.
        self.settings = ControllerSettings(
            default_min_insync_replicas=min_insync,
            # Where workers decide deaths, a world of two partitions shows a turn that is full, too.
            max_changed_in_bulk=max(1, in_the_turn),
            max_altered_in_a_turn=max(1, in_the_turn),
        )
        self.database = Database()
        self.controller = Controller(self.database, self.settings, self.now)
        self.zombie: Controller | None = None
        self.brokers = {b: self._machine(b) for b in range(1, brokers + 1)}
        self.links: list[Link] = []
        self.finished_work: list[ProposalsReady | PlanComputed] = []
        self.late: list[FetchRequest] = []
        self.committed: dict[PartitionKey, list[Stored]] = defaultdict(list)
        self.checked_leaders: set[tuple[PartitionKey, int]] = set()
        self.wishes = 0
        self.leavers = Leavers()
        self.registrations = Registrations()
        self.over_time = OverTime()
        self.plan_walks = PlanWalks()
        self.configuring = Configuring()
        self.losses = Losses(is_lossy)
        self._led: dict[PartitionKey, set[int]] = {}
        """Who led what when it was last looked at."""
        self._begin(assignments)

    def _machine(self, broker_id: int) -> Broker:
        return Broker(broker_id)

    def _begin(self, assignments: list[tuple[int, ...]]) -> None:
        """All brokers register, the topic is there, leaders are elected, nothing is in flight."""
        for broker_id in self.brokers:
            self.do(("hello", broker_id))
        self._deliver_everything()
        configs = dict(self.configs) | ({UNCLEAN_LEADER_ELECTION: "true"} if self.losses.is_lossy else {})
        topic = TopicRow(TOPIC, "orders", len(assignments), len(assignments[0]), configs)

        def create(draft: Draft) -> None:
            draft.topics[TOPIC] = topic
            for number, assigned in enumerate(assignments):
                draft.put_partition(PartitionRow(TOPIC, number, assigned, NO_LEADER, 0, (), draft.version))
                isr = tuple(assigned)
                draft.choose(draft.partitions[TOPIC, number], Choice(assigned[0], isr))

        self.controller.operate(create, self.now)
        self._deliver_everything()
        for broker in self.brokers.values():
            broker.crashed = 0
        assert folded(topic.name) in self.database.rows.topic_ids

    def _deliver_everything(self) -> None:
        while acts := [a for a in self.possible() if a[0] in ("heed", "control")]:
            self.do(acts[0])

    # ------------------------------------------------------------------------------ what may happen

    def rows(self) -> ClusterRows:
        return self.database.rows

    @property
    def keys(self) -> list[PartitionKey]:
        """Every partition that is there."""
        return [row.key for row in self.rows().partitions.values()]

    def possible(self) -> list[Action]:
        """Everything that may happen without a fault."""
        found: list[Action] = []
        live = self.controller.state.memory.sessions
        found += [("control", i) for i, link in enumerate(self.links) if link.to_controller]
        if sum(1 for link in self.links if link.to_controller) > 1:
            found.append(("control_all",))
        for b, broker in self.brokers.items():
            session = live.get(b)
            if session is not None and (session.link is None or not broker.up):
                found.append(("expire", b))
            if not broker.up:
                continue
            if broker.link is not None and broker.link.to_broker:
                found.append(("heed", b))
            if self.leavers.may_ping(self, b):
                found.append(("ping", b))
            if self.losses.may_be_told(broker):
                found.append(("tell_losses", b))
            if broker.link is None or broker.link.controller is not self.controller:
                found.append(("hello", b))
            found += [("receive", b, i) for i in range(len(broker.answers))]
            for key, replica in broker.replicas.items():
                found += self._possible_for(b, key, replica)
        found += [("work", i) for i in range(len(self.database.work))]
        found += [("finish", i) for i in range(len(self.finished_work))]
        memory = self.controller.state.memory
        if memory.is_unfinished:
            found.append(("go_on",))
        found += [("late_arrives", i) for i in range(len(self.late))]
        return found

    def _possible_for(self, b: int, key: PartitionKey, replica: Replica) -> list[Action]:
        found: list[Action] = []
        broker = self.brokers[b]
        if replica.leads:
            if broker.logs[key].next_value <= min(self.values, self._acknowledged(key) + IN_FLIGHT):
                found.append(("append", b, key))
            if broker.link is not None and replica.pending is None:
                if replica.may_grow:
                    found.append(("propose", b, key, NEVER_LAGS))
                if laggards(replica):
                    found.append(("propose", b, key, ALWAYS_LAGS))
        elif replica.next_fetch() is not None:
            in_flight = [one for one in broker.answers if one.key == key]
            if all(one.asked.leader_epoch != replica.leader_epoch for one in in_flight):
                found += [("fetch", b, key, "now"), ("fetch", b, key, "lost")]
        return found

    def faults(self) -> list[Action]:
        """Everything that fate may still do."""
        found: list[Action] = []
        for b, broker in self.brokers.items():
            if not broker.up:
                found.append(("start", b))
                continue
            if self.left("kill"):
                found.append(("kill", b))
            if self.left("leave") and not broker.leaving:
                found.append(("leave", b))
            if self.left("power") and crashes.may_crash(self):
                found.append(("power", b))
            if self.left("break") and broker.link is not None and broker.link.open:
                found.append(("break", b))
            if self.left("expire") and b in self.controller.state.memory.sessions:
                found.append(("expire_slow", b))
            if self.left("zombie") and self.zombie is not None and broker.view.metadata_version:
                found.append(("hello_zombie", b))
            for key, replica in broker.replicas.items():
                if replica.next_fetch() is not None:
                    found += [(name, b, key) for name in ("slow", "late") if self.left(name)]
                row = self.rows().partitions.get(key)
                if self.losses.is_lossy and self.left("trim") and may_trim(replica):
                    found.append(("trim", b, key))
                may_lead = row is not None and b in row.isr and row.leader not in (NO_LEADER, b)
                if self.left("move") and may_lead:
                    found.append(("move", b, key))
        if self.left("takeover"):
            found.append(("takeover",))
        for key in self.keys:
            if self.left("reassign"):
                found += [("reassign", key, b) for b in self.brokers]
            if self.left("cancel") and key in self.rows().reassignments:
                found.append(("cancel", key))
            if self.left("elect"):
                found += [("elect", key), ("balance",)]
        return found + self.topic_faults() + self.registrations.faults(self)

    def progress(self) -> object:
        """What else changes as long as there is something to do."""
        return None

    # ------------------------------------------------------------------------------ doing it

    def do(self, action: Action, rng: Random | None = None) -> None:
        """Perform `action`; raises Broken."""
        name = str(action[0])
        kind = {"expire_slow": "expire", "hello_zombie": "zombie", "balance": "elect"}.get(name, name)
        if kind in self.budget and name != "expire":
            self.budget[kind] -= 1
        self.now = Instant(self.now + 1)
        if name == "power":
            assert rng is not None
            self.brokers[action[1]].crash_machine(lambda log: rng.randint(0, log.end_offset))  # type: ignore[index]
        else:
            getattr(self, f"_{name}")(*action[1:])
        self._look()

    def _control(self, index: int) -> None:
        link = self.links[index]
        link.controller.read([link], self.now)
        self._forget_read_links()

    def _control_all(self) -> None:
        """Several links have something to say: one turn for all that belong to one controller."""
        for controller in (self.controller, self.zombie):
            mine = [link for link in self.links if link.to_controller and link.controller is controller]
            if mine and controller is not None:
                controller.read(mine, self.now)
        self._forget_read_links()

    def _forget_read_links(self) -> None:
        self.links = [link for link in self.links if link.open or link.to_controller]

    def _heed(self, b: int) -> None:
        self.brokers[b].heed(self.now)
        if self.brokers[b].may_leave:
            self.brokers[b].kill()

    def _leave(self, b: int) -> None:
        self.brokers[b].leave()

    def _unregister(self, b: int) -> None:
        self.registrations.unregister(self, b)

    def _ping(self, b: int) -> None:
        self.leavers.ping(self, b)

    def _tell_losses(self, b: int) -> None:
        self.brokers[b].tell_losses()

    def configs_to_choose(self) -> tuple[tuple[str, str | None], ...]:
        return (*self.config_choices, *(UNCLEAN_OR_NOT if self.losses.is_lossy else ()))

    def _trim(self, b: int, key: PartitionKey) -> None:
        """The leader deletes what is committed, or half of it."""
        replica = self.brokers[b].replicas[key]
        span = replica.high_watermark - replica.log.start_offset
        self.losses.has_trimmed = True
        kept = span // 2 if self.left("trim") % 2 else 0
        self.brokers[b].delete_below(key, replica.high_watermark - kept)

    def _hello(self, b: int) -> None:
        self.links.append(self.brokers[b].open_link(self.controller))

    def _hello_zombie(self, b: int) -> None:
        assert self.zombie is not None
        self.links.append(self.brokers[b].open_link(self.zombie))

    def _expire(self, b: int) -> None:
        self.leavers.miss(self, b)

    _expire_slow = _expire

    def _append(self, b: int, key: PartitionKey) -> None:
        """The producer retries behind its last acknowledged value, and goes on behind what is stored."""
        broker = self.brokers[b]
        replica, log = broker.replicas[key], broker.logs[key]
        retried = self._acknowledged(key) + 1
        stored = [record.value for record in log.records]
        row = self.rows().partitions.get(key)
        if row is not None and replica.leader_epoch == row.leader_epoch and retried <= self.values:
            verdict = log.judge(retried)
            if isinstance(verdict, Append) and retried in stored:
                raise Broken("a retried batch is stored twice")
            if isinstance(verdict, Duplicate) and retried not in stored:
                raise Broken("answered as a duplicate, but not stored")
            # What an election had lost, and another brings back, is acknowledged to nobody.
            is_old = retried in stored[:-REMEMBERED_BATCHES] and self.losses.may_have_lost(row)
            if not isinstance(verdict, Append | Duplicate) and not is_old:
                raise Broken("false out-of-sequence")
        value = log.next_value
        if isinstance(log.judge(value), Append):
            if value in stored:
                raise Broken("a batch is stored twice")
            broker.append(key, value)

    def _propose(self, b: int, key: PartitionKey, lag_time_max_ms: int) -> None:
        self.brokers[b].propose(key, self.now, lag_time_max_ms)

    def _fetch(self, b: int, key: PartitionKey, fate: str) -> None:
        request = self.brokers[b].request(key)
        answer = self._serve(request)
        if answer is not None and fate == "now":
            self._take(b, answer)
        elif answer is not None and fate == "slow":
            self.brokers[b].answers.append(answer)

    def _serve(self, request: FetchRequest | None) -> FetchAnswer | None:
        if request is None:
            return None
        leader = self.brokers.get(request.position.leader)
        return leader.serve(request, self.now) if leader is not None and leader.up else None

    def _slow(self, b: int, key: PartitionKey) -> None:
        self._fetch(b, key, "slow")

    def _late(self, b: int, key: PartitionKey) -> None:
        request = self.brokers[b].request(key)
        if request is not None:
            self.late.append(request)

    def _late_arrives(self, index: int) -> None:
        self._serve(self.late.pop(index))

    def _receive(self, b: int, index: int) -> None:
        self._take(b, self.brokers[b].answers.pop(index))

    def _take(self, b: int, answer: FetchAnswer) -> None:
        held = Held(self, b, answer)
        held.look_at_cut(self, self.brokers[b].receive(answer))

    def _work(self, index: int) -> None:
        self.finished_work.append(compute(self.database, self.settings, self.database.work.pop(index)))

    def _finish(self, index: int) -> None:
        self.controller.turn([self.finished_work.pop(index)], self.now)

    def _go_on(self) -> None:
        self.controller.turn([], self.now)

    def _kill(self, b: int) -> None:
        self.brokers[b].kill()

    def _start(self, b: int) -> None:
        self.brokers[b].start()

    def _break(self, b: int) -> None:
        link = self.brokers[b].link
        if link is not None:
            link.close()

    def _takeover(self) -> None:
        # A work item that is adopted in part is still done: the new owner finds it.
        memory = self.controller.state.memory
        self.finished_work += [one.event for one in memory.adopting]
        self.finished_work += [one.event for one in memory.adding_steps]
        self.zombie = self.controller
        self.controller = Controller(self.database, self.settings, self.now)

    def _move(self, b: int, key: PartitionKey) -> None:
        """An operator's election: b, a live member of the ISR, leads."""

        def elect(draft: Draft) -> None:
            row = draft.partition(key)
            if row is not None and b in row.isr and b in draft.live():
                draft.choose(row, Choice(b, row.isr))

        self.controller.operate(elect, self.now)

    # ------------------------------------------------------------------------------ what must hold

    def _acknowledged(self, key: PartitionKey) -> int:
        committed = self.committed[key]
        return committed[-1].value if committed else 0

    def _look(self) -> None:
        self.losses.begin(self)
        for row in self.rows().partitions.values():
            key = row.key
            self._look_at_row(row)
            hosted = [
                (b, one.replicas[key])
                for b, one in self.brokers.items()
                if key in one.replicas and key in one.logs and is_of(one.replicas[key], row)
            ]
            had_led, led = self._led.get(key, set()), {b for b, one in hosted if one.leads}
            self._led[key] = led
            # Leaders first: in one step a leader may commit and its follower hear of it.
            for b, replica in sorted(hosted, key=lambda one: not one[1].leads):
                if not self.losses.is_of_before(self.brokers[b], key, replica, b in had_led):
                    self._look_at_replica(b, replica, row, b in led | had_led)
            self._look_at_members(key, row)
            if not match(
                [broker.logs[key].records for broker in self.brokers.values() if key in broker.logs]
            ):
                raise Broken("same offset and epoch, other record or prefix")
        for one in (
            self.configuring,
            self.plan_walks,
            self.leavers,
            self.over_time,
            self.registrations,
            self.losses,
        ):
            if text := one.look(self):
                raise Broken(text)
        if not self.controller.deposed and self.controller.state.rows != self.rows():
            raise Broken("the owner's cache differs from the rows")

    def _look_at_row(self, row: PartitionRow) -> None:
        if not row.isr and not never_led(row):
            raise Broken("empty ISR")
        if not set(row.isr) <= set(row.assigned) or row.leader not in (NO_LEADER, *row.isr):
            raise Broken("leader in ISR within AR is broken")

    def _look_at_members(self, key: PartitionKey, row: PartitionRow) -> None:
        committed = self.committed[key]
        for b in row.isr:
            broker = self.brokers[b]
            log = broker.logs.get(key)
            records = log.records if log is not None else []
            if broker.crashed != 1 and records[: len(committed)] != committed:
                raise Broken("an ISR member lacks committed records")
        crashes.follow(self)

    def _look_at_replica(self, b: int, replica: Replica, row: PartitionRow, may_commit: bool) -> None:
        key = row.key
        log, committed = self.brokers[b].logs[key].records, self.committed[key]
        if replica.high_watermark > len(log):
            raise Broken("high watermark above the log end")
        if replica.pending is not None and replica.row is not None and replica.row.version == row.version:
            self._look_at_pending(key, log[: replica.high_watermark], replica.pending.isr)
        current = replica.leads and replica.leader_epoch == row.leader_epoch and row.leader == b
        if current and (key, row.leader_epoch) not in self.checked_leaders:
            self.checked_leaders.add((key, row.leader_epoch))
            if log[: len(committed)] != committed:
                raise Broken("lost: a new leader lacks committed records")
        self._expose(key, replica, log, may_commit)
        latest = replica.latest_offset()
        if current and latest is not None and latest < len(self.committed[key]):
            raise Broken("the end offset went back")

    def _look_at_pending(self, key: PartitionKey, seen: list[Stored], wanted: tuple[int, ...]) -> None:
        """What is committed while a proposal is open is with everybody who may be in the ISR by now."""
        for b in wanted:
            other = self.brokers[b]
            log = other.logs.get(key)
            if log is not None and not other.crashed and log.records[: len(seen)] != seen:
                raise Broken("committed without a member of the proposed ISR")

    def _expose(self, key: PartitionKey, replica: Replica, log: list[Stored], may_commit: bool) -> None:
        """What is below a high watermark may be read and is acknowledged: it must stay."""
        seen, committed = log[: replica.high_watermark], self.committed[key]
        if seen[: len(committed)] != committed[: len(seen)]:
            raise Broken("committed records differ between brokers")
        if len(seen) <= len(committed):
            return
        self.committed[key] = seen
        if not may_commit:
            raise Broken("a follower exposes what no leader committed")
        if self.losses.was_committed(key, seen):
            return
        copies = 0
        for other_id, other in self.brokers.items():
            other_log = other.logs.get(key)
            held = other_log is not None and other_log.records[: len(seen)] == seen
            copies += held or bool(other.crashed and other_id in replica.isr)
        if copies < min(replica.min_insync_replicas, self.rows().partitions[key].settled_count):
            raise Broken("committed with fewer copies than min.insync.replicas")
