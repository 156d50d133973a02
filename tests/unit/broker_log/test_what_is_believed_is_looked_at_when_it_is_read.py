"""A segment that nobody checked when it was opened serves no batch in another's place or of another epoch."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from tests.unit.broker_log.logs import ORDERS, append, bytes_of, opened

COUNT = 120
SMALL = LogSettings(segment_bytes=20_000)
"""Five entries of its index and more in each segment."""


def _closed(folder: Path) -> dict[int, bytes]:
    """A log that was stopped cleanly; the batch that holds each offset."""
    log = opened(folder, SMALL)
    for number in range(COUNT):
        append(log, *[b"x" * 150] * (1 + number % 4), epoch=1 + number // 40, timestamp_ms=1_000 + number)
    held = {}
    for offset in range(log.end_offset):
        held[offset] = log.batch_at(offset)
    log.flush()
    log.close()
    return held


def _opened(folder: Path, end_offset: int, *, was_clean: bool = True) -> tuple[PartitionLog, str]:
    log = PartitionLog(folder, ORDERS, OpenFiles(), SMALL)
    return log, log.open(Trust(was_clean, recovery_point=end_offset, high_watermark=end_offset), 0)


def _read(log: PartitionLog, offset: int, max_bytes: int, limit: int) -> list[bytes]:
    found = log.read(offset, max_bytes, limit, at_least_one=True)
    data = b"" if found is None else bytes_of(found)
    starts = [start for start, _ in batches.headers(data)]
    return [data[start:end] for start, end in pairwise([*starts, len(data)])]


def _served(log: PartitionLog, held: dict[int, bytes], rng: Random) -> int:
    """How many reads found records, each of them what was stored where it was asked."""
    served = 0
    for _ in range(200):
        offset = rng.randrange(log.start_offset, log.end_offset)
        limit = rng.randint(offset + 1, log.end_offset)
        try:
            found = _read(log, offset, rng.choice((1, 3_000, 50_000)), limit)
        except StorageFailed:
            continue
        for batch in found:
            assert batch == held[offset]
            offset = batches.read_header(batch, 0).next_offset
        served += bool(found)
    return served


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_served_that_was_not_stored_there(tmp_path: Path, seed: int) -> None:
    """One bit of what no checksum covers: base offset, length, leader epoch, magic."""
    held, rng = _closed(tmp_path), Random(seed)
    path = rng.choice(sorted(tmp_path.glob("*.log")))
    data = bytearray(path.read_bytes())
    start = rng.choice([start for start, _ in batches.headers(bytes(data))])
    data[start + rng.randrange(17)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    log, damage = _opened(tmp_path, len(held))
    assert damage or log.end_offset == len(held)
    assert all(_served(log, held, rng) for _ in range(2))
    assert not log.failure, "what else it holds can be read"
    for timestamp_ms in range(1_000, 1_000 + COUNT):
        try:
            found = log.first_from(timestamp_ms, log.end_offset)
        except StorageFailed:
            continue
        assert found is None or batches.read_header(held[found.offset], 0).base_offset == found.offset


def test_each_batch_is_looked_at_once(tmp_path: Path) -> None:
    held = _closed(tmp_path)
    log, damage = _opened(tmp_path, len(held))
    assert damage == ""
    assert b"".join(dict.fromkeys(held.values())) == b"".join(
        b"".join(_read(log, base, 1_000_000, len(held))) for base in log._segments.bases
    )
    assert not any(any(segment._unseen or b"") for segment in log._segments)
    append(log, b"y" * 5_000, epoch=4)
    log.truncate_to(len(held) - 1, 0)
    append(log, b"z" * 5_000, epoch=4)
    assert [len(batch) for batch in _read(log, log.end_offset - 1, 1_000_000, log.end_offset)] == [5_072]


def test_a_batch_that_moved_the_end_is_found_before_anything_is_stored_behind_it(tmp_path: Path) -> None:
    held = _closed(tmp_path)
    path = max(tmp_path.glob("*.log"))
    data = bytearray(path.read_bytes())
    *_, (last, _) = batches.headers(bytes(data))
    data[last + 6] ^= 1
    path.write_bytes(data)
    log, damage = _opened(tmp_path, len(held))
    base = batches.read_header(held[len(held) - 1], 0).base_offset
    assert (damage, log.end_offset) == (f"the batch at offset {base} is damaged", base)


def test_below_the_recovery_point_the_same_is_looked_at(tmp_path: Path) -> None:
    held = _closed(tmp_path)
    path = min(tmp_path.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)
    log, damage = _opened(tmp_path, len(held), was_clean=False)
    assert (damage, log.end_offset) == ("", len(held))
    with pytest.raises(StorageFailed):
        log.read(0, 100, len(held), at_least_one=True)
    with pytest.raises(StorageFailed):
        log.truncate_to(1, 0)
