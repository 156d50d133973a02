"""This room is `make fuzz`: many spoilt frames for every door; what went wrong is printed with its bytes.

python -m tests.fuzz.run --frames 100000 [--seed 1] [--first 0] [--trace]
"""

import argparse
import asyncio
import gc
import os
import sys
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FRAMES_IN_A_ROUND = 2_000
SEATS_EVERY = 400
"""Members are expelled by what strangers say in their names; so often new ones come."""

CLOSED_WITHIN_S = 10.0
KEPT_BY_CONNECTIONS = (
    *("kafkaserver.sockets.Connection", "kafkaserver.replies.Reply", "gateway.session.KafkaSession"),
    *("gateway.seats.Seat", "coordinator.connections.MemberConnection", "controller.links.BrokerLink"),
    *("node.websocket.TextWebSocket", "node.handshakes.PatientHttp"),
)
GROWTH_MAX = 0.01
"""The last third of the rounds may hold so many more blocks than the first. Megabytes are told, not judged:
what the allocator keeps of a frame of twenty megabytes is its own affair."""

HELD_MAX_S = 0.1
"""Of the loop's own CPU time; a door that works longer on one frame keeps everybody else waiting. Judged
behind the first round, in which older shapes of requests are loaded by whoever is the first to ask in them.
"""


@dataclass
class Result:
    """What one run showed."""

    watch: Any
    memory_kb: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)


async def fuzz(seed: int, numbers: range) -> Result:
    """Throw these frames, a round of them at each new house."""
    from tests.fuzz.watching import Watch

    result = Result(Watch())
    before = _left_in_memory()
    for start in range(numbers.start, numbers.stop, FRAMES_IN_A_ROUND):
        some = range(start, min(start + FRAMES_IN_A_ROUND, numbers.stop))
        await _round(seed, some, result.watch)
        left = _left_in_memory() - before
        if left:
            result.watch.find(f"left in memory after all doors were closed: {left}")
        result.memory_kb.append(_pss_kb())
        result.blocks.append(sys.getallocatedblocks())
    return result


async def _round(seed: int, numbers: range, watch: Any) -> None:
    from runtime.collecting import calm_collector
    from tests.fuzz.house import open_house
    from tests.fuzz.hurling import Hurler
    from tests.fuzz.watching import watched

    with watched(watch):
        async with open_house() as house:
            # As processes do once they have started: else full collections walk through all that tests load.
            calm_collector()
            beating = asyncio.create_task(watch.beat())
            hurler = Hurler(seed, house, watch)
            for start in range(numbers.start, numbers.stop, SEATS_EVERY):
                await house.seat_members()
                await hurler.throw(range(start, min(start + SEATS_EVERY, numbers.stop)))
            beating.cancel()
            hurler.hang_up()
            deadline = time.monotonic() + CLOSED_WITHIN_S
            while (left := house.what_is_left()) and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            for what in left:
                watch.find(f"left behind though everybody hung up: {what}")
            for server in house.kafka_servers:
                if server.counters.failed:
                    watch.find(f"{server.name} failed {server.counters.failed} times")
    gc.unfreeze()


def _left_in_memory() -> Counter[str]:
    """How many objects are alive of what each connection has."""
    gc.collect()
    kinds = Counter(f"{type(one).__module__}.{type(one).__name__}" for one in gc.get_objects())
    return Counter({name: kinds[name] for name in KEPT_BY_CONNECTIONS})


def _pss_kb() -> int:
    rolled = Path(f"/proc/{os.getpid()}/smaps_rollup").read_text()
    return int(rolled.split("Pss:")[1].split()[0])


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first frame, to replay")
    parser.add_argument("--trace", action="store_true", help="say which lines hold what is left (slow)")
    asked = parser.parse_args(arguments)
    from tests.simulation.run import _prepare

    _prepare()
    if asked.trace:
        tracemalloc.start(8)
    began = time.monotonic()
    result = asyncio.run(fuzz(asked.seed, range(asked.first, asked.first + asked.frames)))
    _report(asked.seed, result, time.monotonic() - began)
    growth = _growth(result.blocks)
    if growth > GROWTH_MAX:
        print(f"blocks of memory grew by {growth:.1%}, allowed are {GROWTH_MAX:.1%}")
    warm = asked.first + FRAMES_IN_A_ROUND
    held_s = max((late_s for late_s, number, _ in result.watch.held if number >= warm), default=0.0)
    if held_s >= HELD_MAX_S:
        print(f"the loop was held for {held_s * 1000:.0f} ms, allowed are less than {HELD_MAX_S * 1000:.0f}")
    return 1 if result.watch.findings or growth > GROWTH_MAX or held_s >= HELD_MAX_S else 0


def _growth(held: list[int]) -> float:
    """Of the last third against the first, of which the first round is left out: it imports and compiles."""
    third = len(held) // 3
    if third < 2:
        return 0.0
    first = sum(held[1:third]) / (third - 1)
    return sum(held[-third:]) / third / first - 1


def _report(seed: int, result: Result, took_s: float) -> None:
    watch = result.watch
    for finding in watch.findings[:50]:
        print(finding)
        first = max(0, finding.number // SEATS_EVERY * SEATS_EVERY)
        print(f"    replay: python -m tests.fuzz.run --seed {seed} --first {first} --frames {SEATS_EVERY}")
    outcomes = ", ".join(f"{count:,} {what}" for what, count in sorted(watch.outcomes.items()))
    print(f"seed {seed}: {outcomes}; {took_s:.0f} s; {len(watch.findings)} findings")
    for reason, count in watch.reasons.most_common(40):
        print(f"  {count:7,} closed: {reason}")
    for late_s, number, sent in watch.held[:10]:
        print(f"  the loop was held for {late_s * 1000:.0f} ms at frame {number}: {sent}")
    print("  memory after each round, MB:", *(f"{one / 1024:.0f}" for one in result.memory_kb))
    print("  blocks after each round, thousands:", *(f"{one / 1000:.0f}" for one in result.blocks))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
