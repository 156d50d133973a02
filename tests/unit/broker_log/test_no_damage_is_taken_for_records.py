"""Random cuts and flips in every file of a log: no wrong byte is served, no batch before it is lost."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from muster.kafkawire.records import ConsumedRecord
from tests.unit.broker_log.compacted_logs import COMPACT, compact, put, records
from tests.unit.broker_log.logs import ORDERS, opened

SEEDS = range(40)


class Made(NamedTuple):
    """A log whose process is gone, and what it held."""

    records: list[ConsumedRecord]
    start_offset: int
    end_offset: int
    high_watermark: int


def made(folder: Path, rng: Random) -> Made:
    """A log with segments, epochs, producers; perhaps compacted, perhaps with a start of its own."""
    log = opened(folder, COMPACT)
    for number in range(rng.randint(10, 40)):
        pairs = [
            (b"k%d" % rng.randint(0, 5), b"%d" % number * rng.randint(1, 30))
            for _ in range(rng.randint(1, 3))
        ]
        producer = rng.choice(((-1, -1, -1), (7 + number, 0, 0)))
        put(log, *pairs, epoch=1 + number // 8, producer=producer, compression=rng.choice((0, 4)))
    if rng.random() < 0.4:
        compact(log)
    if rng.random() < 0.4:
        log.delete_before(rng.randint(0, log.end_offset), now_ms=0)
    if rng.random() < 0.3:
        log.flush()
        log.close()
    return Made(records(log), log.start_offset, log.end_offset, rng.choice((0, log.end_offset)))


def flipped(data: bytearray, rng: Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: Random) -> None:
    del data[rng.randrange(len(data)) :]


def zeroed(data: bytearray, rng: Random) -> None:
    """A page that a crash never wrote."""
    start = rng.randrange(len(data))
    data[start:] = bytes(len(data) - start)


def good_to(path: Path, before: bytes, after: bytes) -> int:
    """The offset behind the last batch of a segment that no harm came to."""
    end = int(path.stem)
    for start, header in batches.headers(before):
        if before[: start + header.size_bytes] != after[: start + header.size_bytes]:
            break
        end = header.next_offset
    return end


@pytest.mark.parametrize("harm", [flipped, cut, zeroed])
@pytest.mark.parametrize("seed", SEEDS)
def test_damage_costs_what_lies_behind_it_and_is_told(
    tmp_path: Path, seed: int, harm: Callable[[bytearray, Random], None]
) -> None:
    rng = Random(seed)
    held = made(tmp_path, rng)
    files = [path for path in sorted(tmp_path.iterdir()) if path.stat().st_size]
    logs = [path for path in files if path.suffix == ".log"]
    path = rng.choice(logs if logs and rng.random() < 0.6 else files)
    before = path.read_bytes()
    data = bytearray(before)
    harm(data, rng)
    path.write_bytes(data)

    again = PartitionLog(tmp_path, ORDERS, OpenFiles(), LogSettings())
    damage = again.open(Trust(high_watermark=held.high_watermark), now_ms=0)
    known = {one.offset: one for one in held.records}
    found = records(again)
    assert all(known.get(one.offset) == one for one in found if one.offset >= held.start_offset), "as it was"
    if again.start_offset >= held.start_offset:
        assert [one.offset for one in found] == [
            one.offset for one in held.records if again.start_offset <= one.offset < again.end_offset
        ]
    least = good_to(path, before, bytes(data)) if path.suffix == ".log" else held.end_offset
    assert again.end_offset >= least, "what lies before is there"
    is_less = again.end_offset < held.end_offset or again.start_offset < held.start_offset
    is_torn = path == max(logs, default=None) and harm is not flipped
    if is_less and not (is_torn and not held.high_watermark):
        assert damage, "and what is missing is told"
    end = again.end_offset
    put(again, (b"k", b"goes on"), epoch=99)
    assert again.end_offset == end + 1
