"""This room walks worlds with an idempotent producer: what `run.py` calls the simulation `producing`.

Brokers, logs and disks are those of `disks`; the producer speaks to the product's handler of Produce in
frames, over connections that are cut, to brokers of which it has heard that they lead. Whatever is committed
is what it wrote, each record once, in order; whatever it was told to be stored is there.

Two things no broker can prevent, here as in Kafka. A producer that begins a new epoch while it is in doubt of
records sends them again under numbers that nobody knows, and of what was deleted nobody knows that it was
stored: who asks after that again has it stored again, or is told that its number is out of order where the
broker has copied only what came later. No broker gives cause for the first by a gap of its own making. One
that has copied nothing of the producer takes whatever comes first of what is under way: there a walk ends.
"""

import asyncio
from collections import deque
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from broker.core.cluster_view import PartitionKey
from broker.handlers_produce import ProduceHandler
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from broker.plane_settings import DataPlaneSettings
from kafkaserver.quotas import ClientQuotas
from kafkaserver.replies import Reply
from muster.kafkawire import batches
from muster.kafkawire.api_table import ApiKey, read_request_header
from muster.kernel.error_codes import ErrorCode
from tests.simulation.replication.broker_process import Broker
from tests.simulation.replication.disk_broker import DiskBroker
from tests.simulation.replication.disk_harm import refusing
from tests.simulation.replication.disk_log import DiskLog
from tests.simulation.replication.disks import RETENTIONS, DiskWorld, walk
from tests.simulation.replication.idempotent_producer import (
    IN_FLIGHT,
    SENT_AGAIN,
    Batch,
    IdempotentProducer,
    Stream,
)
from tests.simulation.replication.memory_log import PRODUCER_ID, Stored, mark_of
from tests.simulation.replication.runner import Outcome, config_budget
from tests.simulation.replication.wishes import Broken
from tests.simulation.replication.world import Action, World
from tests.unit.broker_data_plane.planes import produce, produced
from tests.unit.kafkawire.asking import ClientConnection
from tests.unit.kafkawire.made_batches import made_batch

STEPS = 200
LAG_MS = 20
"""Of the world's clock, on which each step takes one: members of an ISR lag now and then."""
PRODUCE_VERSION = 9
SETTINGS = DataPlaneSettings(log=LogSettings(segment_bytes=250), replica_lag_time_max_ms=LAG_MS)


class ProducedLog(DiskLog):
    """A log that a producer wrote: its batches tell their values by their times."""

    def stored(self, one: batches.BatchHeader) -> Stored:
        written = one.producer_epoch, one.base_sequence
        return Stored(one.leader_epoch, one.base_timestamp_ms, written, mark_of(self._log.topic_id))


class ProducingBroker(DiskBroker):
    """A broker that the producer can speak to."""

    settings = SETTINGS

    def start(self) -> None:
        super().start()
        self.producing = ProduceHandler(self.plane, ClientQuotas())

    def view_of(self, log: PartitionLog, deleted: Any) -> DiskLog:
        return ProducedLog(log, deleted)


_NUMBERS = count()
"""Of connections, whose names only differ."""


class Asked(NamedTuple):
    """A request on its way."""

    key: PartitionKey
    batch: Batch
    frame: bytes


class Unknowable(Exception):
    """A leader that copied nothing of the producer, as it was deleted, is asked for what is not the next."""


class Wire:
    """One connection of the producer, at both ends; requests and answers keep their order."""

    def __init__(self, broker: ProducingBroker) -> None:
        self.broker = broker
        self.run = broker.run
        self.requests: deque[Asked] = deque()
        self.unanswered: deque[Asked] = deque()
        self.answers: deque[bytes] = deque()
        self.peer = f"producer-{next(_NUMBERS)}"
        self.identity: object = None
        self.session: Any = None
        self.is_closed = False
        self.told: dict[tuple[PartitionKey, int, int], int] = {}
        """By partition, epoch and value of a batch: the error code that it was answered with last."""
        self._replies: deque[Reply] = deque()
        self._client = ClientConnection("producer")

    @property
    def is_alive(self) -> bool:
        return self.broker.up and self.broker.run == self.run

    def ask(self, key: PartitionKey, topic: str, batch: Batch) -> None:
        records = made_batch(
            [b"x"], producer=(PRODUCER_ID, batch.epoch, batch.sequence), timestamp_ms=batch.value
        )
        body = produce(topic=topic, partition=key[1], batch=bytes(records))
        _, frame = self._client.request(ApiKey.PRODUCE, PRODUCE_VERSION, body)
        asked = Asked(key, batch, frame[4:])
        self.requests.append(asked)
        self.unanswered.append(asked)

    async def arrive(self) -> None:
        """The broker hears the next request."""
        frame = memoryview(bytearray(self.requests.popleft().frame))
        reply = Reply(self)
        self._replies.append(reply)
        self.broker.producing.handle(read_request_header(frame), frame, reply)

    def answered(self) -> tuple[Asked, int, int]:
        """The producer hears the next answer: what it had asked, error code, offset."""
        (reply,) = self._client.receive_data(self.answers.popleft())
        return self.unanswered.popleft(), *produced(reply.body)

    def hang_up(self) -> None:
        """The producer hears nothing more; what it sent may still arrive."""
        self.is_closed = True
        for reply in self._replies:
            reply.connection_ended()
        self._replies.clear()

    # -- kafkaserver.replies.Asker

    def may_park(self, elements: int) -> bool:
        return True

    def count_parked(self, elements: int) -> None:
        pass

    def mute(self, for_ms: int) -> None:
        pass

    def reply_resolved(self) -> None:
        while self._replies and self._replies[0].pieces is not None:
            pieces = self._replies.popleft().pieces or ()
            self.answers.append(b"".join(bytes(piece) for piece in pieces))  # type: ignore[arg-type]

    def close(self, reason: str) -> None:
        raise Broken(f"hung up on: {reason}")


class ProducingWorld(DiskWorld):
    """A world whose records come from a producer."""

    config_choices = (*World.config_choices, *RETENTIONS)
    revival = 0.7
    rounds_of_rest = 2 * IN_FLIGHT + 2
    """What is refused for good is sent again for ever: by then all that was under way was answered, twice."""

    def _begin(self, assignments: list[tuple[int, ...]]) -> None:
        self.wires: dict[int, Wire] = {}
        self.ghosts: list[Wire] = []
        """Connections that the producer gave up; what it sent over them lies at the broker still."""
        self.leaders: dict[PartitionKey, tuple[int, int]] = {}
        """Leader epoch and leader, as the producer heard last."""
        self._looked_to: dict[PartitionKey, int] = {}
        self._deleted_to: dict[PartitionKey, int] = {}
        self.producer = IdempotentProducer(is_eager=self._rng.random() < 0.3)
        super()._begin(assignments)
        for key in self.keys:
            self.producer.streams[key] = Stream(range(1, self.values + 1))

    def _machine(self, broker_id: int) -> Broker:
        folder = self._folder / str(broker_id)
        return ProducingBroker(broker_id, folder, self._runner, lambda: self.now, Random(self._rng.random()))

    # ------------------------------------------------------------------------------ what may happen

    def possible(self) -> list[Action]:
        found = [one for one in super().possible() if one[0] != "append"]
        for key in self.producer.streams:
            for b, broker in self._up():
                told = broker.plane.view.partition("orders", key[1])
                if told is not None and self.leaders.get(key, (-1, -1)) < (told.leader_epoch, told.leader):
                    found.append(("ask_leader", key, b))
            leader = self.leaders.get(key, (-1, -1))[1]
            if leader in self.brokers and self.brokers[leader].up and self.producer.may_send(key):
                found.append(("send", key))
        found += [("arrive", b) for b, wire in self.wires.items() if wire.requests]
        found += [("answer", b) for b, wire in self.wires.items() if wire.answers]
        return found + [("arrive_late", i) for i in range(len(self.ghosts))]

    def faults(self) -> list[Action]:
        found = [one for one in super().faults() if one[0] != "append_refused"]
        for b, wire in self.wires.items():
            if self.left("cut") and wire.unanswered:
                found.append(("cut", b))
            if self.left("refuse") and wire.requests:
                found.append(("arrive_refused", b))
        return found

    def progress(self) -> object:
        return [len(one.acknowledged) for one in self.producer.streams.values()], dict(self.leaders)

    # ------------------------------------------------------------------------------ doing it

    def do(self, action: Action, rng: Random | None = None) -> None:
        if action[0] == "arrive_refused":
            self.budget["refuse"] -= 1
        super().do(action, rng)
        for b, wire in list(self.wires.items()):
            if not wire.is_alive:
                self._lose(b)
        self.ghosts = [wire for wire in self.ghosts if wire.is_alive and wire.requests]

    def _lose(self, b: int) -> None:
        wire = self.wires.pop(b)
        for key, batch, _ in wire.unanswered:
            self.producer.lost(key, batch)

    def _ask_leader(self, key: PartitionKey, b: int) -> None:
        broker = self.brokers[b]
        assert isinstance(broker, ProducingBroker)
        told = broker.plane.view.partition("orders", key[1])
        assert told is not None
        self.leaders[key] = told.leader_epoch, told.leader
        self.producer.streams[key].moved()

    def _send(self, key: PartitionKey) -> None:
        b = self.leaders[key][1]
        if b not in self.wires:
            broker = self.brokers[b]
            assert isinstance(broker, ProducingBroker)
            self.wires[b] = Wire(broker)
        self.wires[b].ask(key, "orders", self.producer.send(key))

    def _arrive(self, b: int) -> None:
        self._deliver(self.wires[b])

    def _arrive_refused(self, b: int) -> None:
        with refusing("pwrite"):
            self._arrive(b)

    def _arrive_late(self, index: int) -> None:
        self._deliver(self.ghosts[index])

    def _deliver(self, wire: Wire) -> None:
        key, batch, _ = wire.requests[0]
        hosted = wire.broker.plane.hosted(*key)
        is_known = hosted is None or any(hosted.log.producers.states())
        if not is_known and self._deleted_to.get(key) and not self.producer.streams[key].is_next(batch):
            raise Unknowable
        self._runner.run(wire.arrive())

    def _answer(self, b: int) -> None:
        wire = self.wires[b]
        (key, batch, _), error_code, offset = wire.answered()
        wire.told[key, batch.epoch, batch.value] = error_code
        before = wire.told.get((key, batch.epoch, batch.value - 1))
        is_gap = error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and before in SENT_AGAIN
        # An eager one sends new batches between those that it sends again: it is told so, and goes on.
        if is_gap and not self.producer.is_eager:
            raise Broken("the producer is told of a gap that the broker made")
        if error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._is_deleted(key, batch):
            return self.producer.gave_up(key, batch)
        self.producer.heard(key, batch, error_code, offset)

    def _is_deleted(self, key: PartitionKey, batch: Batch) -> bool:
        """It was stored, and lies below where some log begins by now."""
        below = self.committed[key][: self._deleted_to.get(key, 0)]
        return any(stored.value == batch.value for stored in below)

    def _cut(self, b: int) -> None:
        wire = self.wires[b]
        self._lose(b)
        wire.hang_up()
        self.ghosts.append(wire)

    def _append(self, b: int, key: PartitionKey) -> None:
        """One record more, at the end of a fair run."""
        self.producer.streams[key].waiting.append(self.values)

    # ------------------------------------------------------------------------------ what must hold

    def _look(self) -> None:
        super()._look()
        for key, stream in self.producer.streams.items():
            committed = self.committed[key]
            starts = [broker.logs[key].start_offset for _, broker in self._up() if key in broker.logs]
            self._deleted_to[key] = max(self._deleted_to.get(key, 0), *starts, 0)
            for offset in range(self._looked_to.get(key, 0), len(committed)):
                self._look_at_place(key, stream, offset)
            self._looked_to[key] = len(committed)
            last = max((stored.value for stored in committed), default=0)
            for value, offset in stream.acknowledged.items():
                if value > last or (offset >= 0 and committed[offset].value != value):
                    raise Broken(f"record {value} is said to lie at {offset}")

    def _look_at_place(self, key: PartitionKey, stream: Stream, offset: int) -> None:
        """What lies there follows what lies before it, or is there again for one of two reasons."""
        stored = self.committed[key][offset]
        before = self.committed[key][offset - 1] if offset else Stored(0, 0, (0, 0))
        (epoch, _), (epoch_before, _) = stored.appended_by, before.appended_by
        was_in_doubt = epoch > epoch_before and stored.value == stream.first_values[epoch]
        is_again = stored.value <= before.value and (was_in_doubt or offset <= self._deleted_to[key])
        if stored.value != before.value + 1 and not is_again:
            raise Broken(f"offset {offset} holds record {stored.value}")

    def left_undone(self, revive: bool) -> str:
        """With everybody there, all is acknowledged."""
        if revive and any(one.waiting or one.under_way for one in self.producer.streams.values()):
            return "the producer waits for ever"
        return super().left_undone(revive)


def random_world(rng: Random, seed: int, folder: Path, runner: asyncio.Runner) -> ProducingWorld:
    """Three or four brokers, one or two partitions, and a budget for each kind of fault."""
    harm = rng.random() < 0.3
    brokers = rng.choice((3, 3, 4))
    ids = range(1, brokers + 1)
    assignments = [tuple(rng.sample(ids, rng.choice((2, 3)))) for _ in range(rng.choice((1, 2, 2)))]
    budget = {
        "kill": rng.randint(0, 2),
        "tear": rng.randint(0, 1),
        "stop": rng.randint(0, 1),
        "expire": rng.randint(0, 3),
        "takeover": rng.randint(0, 1),
        "late": rng.randint(0, 1),
        "slow": rng.randint(0, 2),
        "move": rng.randint(0, 3),
        "break": rng.randint(0, 2),
        "refuse": rng.randint(0, 2),
        "cut": rng.randint(0, 3),
        "reassign": rng.choice((0, 0, 1, 2)),
        "trim": rng.choice((0, 0, 1)),
        "power": rng.randint(0, 1) if harm else 0,
    }
    if not harm:
        budget |= config_budget(seed)
    return ProducingWorld(
        folder,
        runner,
        rng,
        assignments,
        brokers=brokers,
        min_insync=2 if harm else rng.choice((1, 2)),
        values=rng.randint(6, 14),
        budget=budget,
    )


def run_seed(seed: int) -> Outcome:
    """One walk, ended by a fair run: all machines revived, or only those that live."""
    try:
        return walk(seed, "producing", STEPS, random_world)
    except Unknowable:
        return Outcome(seed, "", ())
