"""This room is a node process with counters instead of groups: killed, stopped and robbed by tests.

Reads `add LANE KEY NUMBER`, `note LANE KEY NUMBER` (a batch), `run`, `close` (its door), `ended` and
`drain` from standard input; says what happens as JSON lines.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from muster.kernel.addresses import place_of_websocket
from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime import clock, metrics, work
from runtime.desk import WorkDesk
from runtime.freshness import Freshness
from runtime.judging import CRASHED, GONE, HUNG
from runtime.leases import LeaseKeeper
from runtime.ports import Lane, LaneLost
from runtime.postgres import Postgres
from runtime.publishing import Publisher
from runtime.side import SideLink
from runtime.vigils import Vigils
from runtime.work_table import Offered
from tests.conformance.counters import Added, Counter, Counters, CounterStore, Tally

LANES = ["coordinator/0", "coordinator/1", "coordinator/4"]
PROBE = "standalone.probe"
ENDED, WHYS = "muster_runs_ended_total", (GONE, CRASHED, HUNG)


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


class OfferingStore(CounterStore):
    """Offers a work item with a counter whose key asks for it, and adopts those that are done."""

    def save(self, connection: Any, key: str, before: Counter, records: Sequence[Added]) -> None:
        super().save(connection, key, before, records)
        if key.startswith("work-"):
            done = work.finished(connection, PROBE, [key])
            for item in done:
                work.adopt(connection, item.id)
            if not done:
                work.offer(connection, PROBE, key, before.version, {})


@dataclass
class SayingCounters(Counters):
    """Says on standard output what is settled."""

    store: CounterStore = field(default_factory=OfferingStore)

    def settle(self, key: str, state: Counter, decision: Decision[Added, int]) -> None:
        super().settle(key, state, decision)
        if decision.replies:
            say(said=key, replies=list(decision.replies), total=self.states[key].total)


class SayingTally(Tally):
    """Says on standard output what is durable."""

    def committed(self, rows: Mapping[Any, Any]) -> None:
        super().committed(rows)
        say(noted=dict(rows))


@dataclass
class CounterService:
    """LaneService of one lane of counters."""

    name: str
    counters: SayingCounters = field(default_factory=SayingCounters)
    lane: Lane | None = None
    tally: "SayingTally" = field(init=False)

    def __post_init__(self) -> None:
        self.tally = SayingTally(self.name)

    async def accept(self, lane: Lane) -> None:
        self.counters.states.clear()
        self.lane = lane
        await lane.read(lambda connection: None)
        say(accepted=self.name, epoch=lane.epoch)

    async def wind_down(self) -> None:
        say(winding_down=self.name)

    async def give_up(self, new_owner: str | None) -> None:
        self.lane = None
        self.counters.states.clear()
        say(given_up=self.name, to=new_owner)

    def freeze(self) -> None:
        say(frozen=self.name)

    def thaw(self, late_ms: int) -> None:
        say(thawed=self.name, late_ms=late_ms)

    def tick(self, now: Instant) -> None:
        pass

    def woken(self, name: str, key: str) -> None:
        if name == "work" and self.lane is not None:
            kind, _, item = key.partition(" ")
            say(finished=item, kind=kind)
            self.lane.hand_in(self.counters, item, 1)

    def quiet_ms(self, now: Instant) -> int:
        return 0


class Spare:
    """Does nothing: these nodes leave work to workers."""

    def publish(self, item_id: str) -> None:
        say(spare=item_id)


class Door:
    """Where peers meet this node: it hears nothing, and can be closed while the node lives."""

    def __init__(self) -> None:
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> str:
        """Its address."""
        self._server = await asyncio.start_server(self._come, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"ws://{host}:{port}"

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        say(met_at_door=len(self._writers))
        await reader.read()
        writer.close()

    def close(self) -> None:
        """Hang up on everybody, and listen no more."""
        self._server.close()
        for writer in self._writers:
            writer.close()


class Watch:
    """What a node does about its peers' connections (`node.serve`); it also says it."""

    def __init__(self) -> None:
        self._vigils: Vigils[str] = Vigils(self._lost, self._refused)
        self.keeper: LeaseKeeper

    def keep(self, addresses: Mapping[str, str]) -> None:
        self._vigils.keep({run: place_of_websocket(address) for run, address in addresses.items()})
        say(watched=sorted(addresses))

    def _lost(self, run: str) -> None:
        self.keeper.doubt_owner()

    def _refused(self, run: str) -> None:
        say(refused=run)
        self.keeper.refused(run)


async def main(name: str) -> None:
    """Run until standard input ends or says drain."""
    import config.celery

    config.celery.app.set_default()
    freshness = Freshness(clock.now)
    services = {lane: CounterService(lane) for lane in LANES}
    database = Postgres(os.environ["DATABASE_URL"], name)
    side = SideLink(database, lambda: keeper.run, "queries")

    def finished(lane: str, kind: str, key: str) -> None:
        services[lane].woken("work", f"{kind} {key}")

    desk = WorkDesk(side.query, Publisher(), Spare(), clock.now, lambda: keeper.accepted, finished)

    def offered(items: Sequence[Offered]) -> None:
        for item in items:
            say(offered=item.id)
        desk.offered(items)

    door, watch = Door(), Watch()
    placed = (database, name, await door.open(), services, freshness, clock.now)
    keeper = watch.keeper = LeaseKeeper(*placed, on_offered=offered, keep_vigil=watch.keep)
    keeping = asyncio.create_task(keeper.keep())
    ticking = asyncio.create_task(tick(freshness, keeper, desk))
    await listen(services, keeper, door)
    await keeper.drain()
    desk.stop()
    for task in (keeping, ticking):
        task.cancel()
    await keeper.stop()
    side.stop()


async def tick(freshness: Freshness, keeper: LeaseKeeper, desk: WorkDesk) -> None:
    """What node.duties does."""
    swept_at = clock.now()
    while True:
        now = clock.now()
        freshness.tick(now)
        keeper.watch(now)
        if now - swept_at >= 1_000:
            swept_at = now
            desk.look()
        await asyncio.sleep(0.1)


async def listen(services: dict[str, CounterService], keeper: LeaseKeeper, door: Door) -> None:
    """Obey standard input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say(began=os.getpid())
    while line := (await reader.readline()).decode().split():
        if line[0] == "drain":
            return
        if line[0] == "close":
            door.close()
            continue
        if line[0] == "ended":
            samples = (metrics.REGISTRY.get_sample_value(ENDED, {"why": why}) for why in WHYS)
            say(ended=dict(zip(WHYS, samples, strict=True)))
            continue
        if line[0] == "run":
            say(run=keeper.run)
            continue
        service = services[line[1]]
        try:
            if service.lane is None:
                raise LaneLost(line[1])
            if line[0] == "note":
                service.tally.note(line[2], int(line[3]))
                service.lane.offer_batch(service.tally)
            else:
                service.lane.hand_in(service.counters, line[2], int(line[3]))
        except LaneLost:
            say(not_coordinator=line[1])


if __name__ == "__main__":
    import django

    django.setup()
    asyncio.run(main(sys.argv[1]))
