"""Compaction: of each key the last record stays, offsets stay, and a kill at any step costs nothing."""

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from broker.core.producers import Duplicate
from broker.log.cleaning import CLEANER_CHECKPOINT
from broker.log.compaction import LastOffsets, compacted
from broker.log.outcomes import AppendRefused, LogSettings
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from muster.kafkawire.compression import ZSTD
from muster.kafkawire.errors import CorruptBatch
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_log.compacted_logs import (
    COMPACT,
    compact,
    ends,
    keyed,
    put,
    records,
    segments,
    task_of,
)
from tests.unit.broker_log.logs import bytes_of, opened, stored
from tests.unit.kafkawire.made_batches import view

CHECKSUM_AT = 17
ATTRIBUTES_AT = 21


class Killed(BaseException):
    """The process is gone."""


def values(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """The last value of each key, as a reader of the whole log has it in the end."""
    return {one.key: one.value for one in records(log)}


def filled(folder: Path, count: int = 40) -> PartitionLog:
    log = opened(folder, COMPACT)
    for number in range(count):
        put(log, (b"k%d" % (number % 3), b"v%d" % number), (b"once%d" % number, b"x"))
    return log


def merging(folder: Path) -> PartitionLog:
    """A log of which the next pass makes one segment of several."""
    log = opened(folder, COMPACT)
    for _ in range(2):
        compact(log)
        for number in range(24):
            put(log, (b"k%d" % (number % 3), b"v%d" % number * 20))
    return log


def header_at(log: PartitionLog, offset: int) -> batches.BatchHeader:
    region = log.read(offset, 300, log.end_offset, at_least_one=True)
    assert region is not None
    return batches.read_header(bytes_of(region))


@pytest.mark.parametrize("seed", range(25))
def test_whatever_was_written_the_last_value_of_each_key_is_what_it_was(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log = opened(tmp_path, COMPACT)
    everything: dict[int, tuple[bytes, bytes | None]] = {}
    latest: dict[bytes, bytes | None] = {}
    for number in range(rng.randint(20, 80)):
        pairs = [
            (
                b"k%d" % rng.randint(0, 9) * rng.choice((1, 1, 20)),
                rng.choice((None, b"v%d" % number, b"w" * 50)),
            )
            for _ in range(rng.randint(1, 5))
        ]
        codec, epoch = rng.choice((0, 0, 1, 2, 3, 4)), 1 + number // 10
        base = put(log, *pairs, compression=codec, epoch=epoch, timestamp_ms=1_000 * number)
        everything.update({base + n: pair for n, pair in enumerate(pairs)})
        latest.update(pairs)
        if rng.random() < 0.1:
            compact(log, most_keys=rng.choice((1, 3, 100)))
    while compact(log, most_keys=4):
        pass
    found = records(log)
    assert all(everything[one.offset] == (one.key, one.value) for one in found)
    assert {one.key: one.value for one in found} == latest
    assert [one.timestamp_ms // 1_000 for one in found] == sorted(one.timestamp_ms // 1_000 for one in found)
    places = stored(log)
    assert all(behind == base for (_, behind), (base, _) in pairwise(places))
    for trusting in (False, True):
        log.flush()
        log.close()
        again = opened(tmp_path, COMPACT, was_clean=trusting)
        assert (again.start_offset, again.end_offset, records(again)) == (0, log.end_offset, found)
        assert again.epochs.entries == log.epochs.entries
    active = log._segments.bases[-1]
    closed = [one.key for one in found if one.offset < active]
    assert len(closed) == len(set(closed)), "behind the last pass no key stands twice"


def test_what_is_written_is_never_touched_nor_what_is_not_committed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    active = (tmp_path / f"{segments(tmp_path)[-1]:020}.log").read_bytes()
    assert compact(log, high_watermark=1) == 0
    before = segments(tmp_path)
    assert compact(log, high_watermark=before[3]) == before[3]
    assert compact(log) == before[-1]
    assert (tmp_path / f"{segments(tmp_path)[-1]:020}.log").read_bytes() == active
    assert compact(log) == 0, "there is nothing new"


def test_what_is_too_young_is_not_compacted_yet(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.settings = LogSettings(
        segment_bytes=400, cleanup_policy=frozenset({"compact"}), min_compaction_lag_ms=500
    )
    assert compact(log, wall_ms=1_400) == 0
    assert compact(log, wall_ms=10_000) > 0


def test_what_has_waited_for_long_is_due_however_little_it_is(tmp_path: Path) -> None:
    log = filled(tmp_path)
    compact(log)
    lag = replace(COMPACT, max_compaction_lag_ms=500)
    for _ in range(4):
        put(log, (b"k0", b"again"), (b"k1", b"again"))
    assert not log.cleaning.dirt(lag, log.end_offset, 1_400).is_due
    assert log.cleaning.dirt(lag, log.end_offset, 9_000).is_due


def test_a_tombstone_stays_for_its_time_and_then_goes(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))

    def fill() -> None:
        for number in range(8):
            put(log, (b"other", b"x" * 80), (b"other", b"%d" % number))

    fill()
    day = log.settings.delete_retention_ms
    compact(log, wall_ms=10 * day)
    assert values(log)[b"a"] is None, "a reader that begins now must hear of it"
    fill()
    compact(log, wall_ms=11 * day - 1)
    assert b"a" in values(log)
    fill()
    compact(log, wall_ms=11 * day)
    assert b"a" not in values(log)
    assert values(log)[b"b"] == b"1"


def test_a_producer_is_known_by_its_last_batch(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    put(log, (b"k", b"1"), producer=(7, 0, 0))
    put(log, (b"k", b"2"), producer=(7, 0, 1))
    for number in range(12):
        put(log, (b"k", b"%d" % number * 60))
    compact(log)
    assert [one.value for one in records(log) if one.offset < 2] == []
    for snapshot in tmp_path.glob("*.snapshot"):
        snapshot.unlink()
    again = opened(tmp_path, COMPACT)
    retried = batches.read_header(keyed([(b"k", b"2")], producer=(7, 0, 1)))
    assert again.producers.judge(retried) == Duplicate(1, 1)


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_without_records_names_no_codec(tmp_path: Path, codec: int) -> None:
    """Its bytes are none: a client that opened them as a codec's would never get past them."""
    log = opened(tmp_path, COMPACT)
    base = put(log, (b"k", b"1" * 60), producer=(7, 0, 0), compression=codec)
    for number in range(12):
        put(log, (b"k", b"%d" % number * 60))
    compact(log)
    emptied = header_at(log, base)
    assert (emptied.base_offset, emptied.record_count, emptied.attributes, emptied.producer_id) == (
        base, 0, 0, 7,
    )  # fmt: skip


def test_a_batch_that_was_emptied_under_its_codec_is_mended_by_the_next_pass(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACT)
    full = keyed([(b"k", b"1" * 60)], producer=(7, 0, 0), compression=ZSTD)
    emptied = bytearray(batches.rewritten(full, batches.read_header(full), b"", 0, batches.NO_TIMESTAMP))
    emptied[ATTRIBUTES_AT + 1] = ZSTD
    emptied[CHECKSUM_AT:ATTRIBUTES_AT] = crc32c(bytes(emptied[ATTRIBUTES_AT:])).to_bytes(4)
    log.append_as_follower(view(bytes(emptied)), now_ms=0)
    for number in range(12):
        put(log, (b"k", b"%d" % number * 60))
    compact(log)
    first = header_at(log, 0)
    assert (first.base_offset, first.record_count, first.attributes, first.producer_id) == (0, 0, 0, 7)


@pytest.mark.parametrize("is_merging", [False, True])
@pytest.mark.parametrize("step", range(14))
def test_a_kill_at_any_step_costs_nothing(
    tmp_path: Path, step: int, is_merging: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = merging(tmp_path) if is_merging else filled(tmp_path)
    expected, end = values(log), log.end_offset
    left = step

    def counting(name: str) -> None:
        done = getattr(os, name)

        def counted(*stated: object, **named: object) -> object:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            return done(*stated, **named)

        monkeypatch.setattr(os, name, counted)

    for name in ("replace", "unlink", "fsync", "rename"):
        counting(name)
    try:
        compact(log)
    except Killed:
        pass
    finally:
        monkeypatch.undo()
    again = opened(tmp_path, COMPACT)
    assert (again.end_offset, values(again)) == (end, expected)
    while compact(again):
        pass
    assert values(opened(tmp_path, COMPACT)) == expected
    assert not [path for path in tmp_path.iterdir() if path.name.endswith((".cleaned", ".swap"))]


def test_a_log_that_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    log = filled(tmp_path)
    task = task_of(log)
    assert task is not None
    cleaned = next(compacted(task, LastOffsets(task)))
    log.delete_before(segments(tmp_path)[1], now_ms=0)
    assert not log.swap_in(cleaned)
    assert log.start_offset == segments(tmp_path)[0]


def test_a_follower_behind_its_leaders_compaction_gets_what_is_left(tmp_path: Path) -> None:
    leader = opened(tmp_path / "leader", COMPACT)
    for number in range(30):
        put(leader, (b"k", b"%d" % number * 30))
    follower = opened(tmp_path / "follower", COMPACT)
    for _ in range(3):
        region = leader.read(follower.end_offset, 1, leader.end_offset, at_least_one=True)
        assert region is not None
        follower.append_as_follower(view(bytes_of(region)), now_ms=0)
    compact(leader)
    assert leader.damage_at(follower.end_offset, last_epoch=1) == "", "it begins before, and is no damage"
    while follower.end_offset < leader.end_offset:
        region = leader.read(follower.end_offset, 1, leader.end_offset, at_least_one=True)
        assert region is not None
        follower.append_as_follower(view(bytes_of(region)), now_ms=0)
    assert values(follower) == values(leader)
    assert opened(tmp_path / "follower", COMPACT).end_offset == leader.end_offset


def test_a_batch_that_cannot_be_read_stops_the_pass_and_changes_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = tmp_path / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptBatch):
        compact(log)
    assert path.read_bytes() == data


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_a_record_without_a_key_is_refused(tmp_path: Path, codec: int) -> None:
    log = opened(tmp_path, COMPACT)
    with pytest.raises(AppendRefused) as refused:
        put(log, (b"k", b"v"), (None, b"v"), compression=codec)
    assert (refused.value.error_code, log.end_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert refused.value.wrong_records == (1,)
    log.settings = LogSettings()
    assert put(log, (None, b"v")) == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_is_compressed_again_as_it_was(tmp_path: Path, codec: int) -> None:
    log = opened(tmp_path, COMPACT)
    put(log, (b"k", b"1" * 100), (b"once", b"x" * 100), compression=codec)
    for number in range(12):
        put(log, (b"k", b"%d" % number * 60))
    compact(log)
    region = log.read(0, 1, log.end_offset, at_least_one=True)
    assert region is not None
    header = batches.read_header(bytes_of(region))
    assert (header.attributes & 7, header.record_count, header.last_offset_delta) == (codec, 1, 1)
    assert records(log)[0][2:4] == (b"once", b"x" * 100)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"0\n1\n99 0\n")])
def test_a_tombstone_whose_pass_nobody_knows_any_more_stays_longer(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    log = opened(tmp_path, COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    for number in range(12):
        put(log, (b"other", b"%d" % number * 60))
    day = log.settings.delete_retention_ms
    compact(log, wall_ms=10 * day)
    spoil(tmp_path / CLEANER_CHECKPOINT)
    log = opened(tmp_path, COMPACT, was_clean=True, recovery_point=log.end_offset)
    for wall_ms, stands in ((11 * day, True), (12 * day - 1, True), (12 * day, False)):
        for number in range(12):
            put(log, (b"other", b"%d" % number * 60))
        compact(log, wall_ms=wall_ms)
        assert (b"a" in values(log)) == stands


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_pass_over_what_is_gone_counts_no_more(tmp_path: Path, is_crash: bool) -> None:
    """What comes again from a leader that has not compacted it has never been looked at here."""
    log = opened(tmp_path, COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    for number in range(12):
        put(log, (b"other%d" % number, b"x" * 60))
    sent: list[bytes] = []
    while not sent or ends(sent[-1]) < log.end_offset:
        region = log.read(ends(sent[-1]) if sent else 0, 1, log.end_offset, at_least_one=True)
        assert region is not None
        sent.append(bytes_of(region))
    day = log.settings.delete_retention_ms
    assert compact(log, wall_ms=10 * day) > 2
    if is_crash:
        # Of the machine: no record was flushed, and the small file that tells of the pass is there.
        for path in tmp_path.glob("*.log"):
            path.unlink()
        log = opened(tmp_path, COMPACT)
    else:
        log.truncate_to(2, now_ms=0)
        log.truncate_to(1, now_ms=0)
    for batch in sent:
        if ends(batch) > log.end_offset:
            log.append_as_follower(view(batch), now_ms=0)
    for number in range(12):
        put(log, (b"more%d" % number, b"x" * 60))
    compact(log, wall_ms=11 * day)
    assert values(log)[b"a"] is None, "here the first pass has only just found the tombstone"
