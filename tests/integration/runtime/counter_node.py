"""This room is a node process with counters instead of groups: killed, stopped and robbed by tests.

Reads `add LANE KEY NUMBER`, `note LANE KEY NUMBER` (a batch), `run` and `drain` from standard input; says
what happens as JSON lines.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime import clock, work
from runtime.desk import WorkDesk
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.ports import Lane, LaneLost
from runtime.postgres import Postgres
from runtime.publishing import Publisher
from runtime.side import SideLink
from runtime.work_table import Offered
from tests.conformance.counters import Added, Counter, Counters, CounterStore, Tally

LANES = ["coordinator/0", "coordinator/1", "coordinator/4"]
PROBE = "standalone.probe"


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

    keeper = LeaseKeeper(database, name, f"ws://{name}", services, freshness, clock.now, on_offered=offered)
    keeping = asyncio.create_task(keeper.keep())
    ticking = asyncio.create_task(tick(freshness, keeper, desk))
    await listen(services, keeper)
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


async def listen(services: dict[str, CounterService], keeper: LeaseKeeper) -> None:
    """Obey standard input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say(began=os.getpid())
    while line := (await reader.readline()).decode().split():
        if line[0] == "drain":
            return
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
