"""Compaction reads common records in place: what it finds is what the general reader finds, or refuses."""

from random import Random

import pytest

from broker.log.keyed_records import kept_of, note_last, picked
from muster.kafkawire.batches import HEADER_BYTES
from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.record_frames import NO_KEY, frames
from tests.unit.broker_log.compacted_logs import Pair, keyed
from tests.unit.kafkawire.made_batches import lying_batch

BASE = 1_000


def pair(dice: Random, *, common: bool) -> Pair:
    name = b"k%d" % dice.randint(0, 9)
    keys = [name, name * 16, *(() if common else (None, name * 40))]
    return dice.choice(keys), dice.choice([None, b"", b"v" * 50, b"v" * (300 if common else 9_000)])


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_both_ways_find_the_same(seed: int, common: bool) -> None:
    dice = Random(seed)
    count = dice.choice((1, 5, 200))
    records = keyed([pair(dice, common=common) for _ in range(count)])[HEADER_BYTES:]
    every = list(frames(records, count))
    with_keys = [one for one in every if one.key_start != NO_KEY]
    last = {records[one.key_start : one.key_end]: BASE + one.offset_delta for one in with_keys}
    found: dict[bytes, int] = {}
    note_last(records, count, BASE, found)
    assert sorted(found.values()) == sorted(last.values())
    below = BASE + dice.choice((0, count // 2, count))
    stay = [
        one
        for one in with_keys
        if last[records[one.key_start : one.key_end]] == BASE + one.offset_delta
        and not (one.is_tombstone and BASE + one.offset_delta < below)
    ]
    kept = kept_of(records, count, BASE, found.get, below)
    assert kept.records == [records[one.start : one.end] for one in stay]
    assert not stay or kept.newest_delta == max(one.timestamp_delta for one in stay)


@pytest.mark.parametrize("seed", range(40))
def test_what_the_general_reader_refuses_is_refused(seed: int) -> None:
    dice, count = Random(seed), 6
    records = bytearray(keyed([pair(dice, common=True) for _ in range(count)])[HEADER_BYTES:])
    records[dice.randrange(len(records))] = dice.randrange(256)
    unseen: dict[bytes, int] = {}
    spoilt = bytes(records[: dice.choice((len(records), len(records) - 1))])
    try:
        every = list(frames(spoilt, count))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            note_last(spoilt, count, BASE, {})
        with pytest.raises(CorruptBatch):
            kept_of(spoilt, count, BASE, unseen.get, BASE)
    else:
        kept = kept_of(spoilt, count, BASE, unseen.get, BASE)
        assert len(kept.records) == len([one for one in every if one.key_start != NO_KEY])


@pytest.mark.parametrize("seed", range(10))
def test_records_are_found_by_their_places_as_by_their_keys(seed: int) -> None:
    """Places are enough where each record has a key, and its place for its offset."""
    dice = Random(seed)
    count = dice.choice((1, 5, 200))
    pairs = [pair(dice, common=True) for _ in range(count)]
    # A value of some length that takes three bytes to say is passed over, and found.
    pairs[dice.randrange(count)] = b"long", b"v" * 200
    records = keyed(pairs)[HEADER_BYTES:]
    found: dict[bytes, int] = {}
    assert note_last(records, count, BASE, found)
    places = sorted(offset - BASE for offset in found.values())
    assert picked(records, places) == kept_of(records, count, BASE, found.get, BASE)


def test_values_of_any_length_are_passed_over() -> None:
    lengths = (0, 50, 62, 63, 64, 8_000, 8_180, 8_191, 8_192, 20_000, 2_000_000, 3)
    count = len(lengths)
    records = keyed([(b"k%d" % number, b"v" * size) for number, size in enumerate(lengths)])[HEADER_BYTES:]
    every = list(frames(records, count))
    for place in range(count):
        one = every[place]
        assert picked(records, [place]) == ([records[one.start : one.end]], one.timestamp_delta)
    with pytest.raises(CorruptBatch):
        picked(records, [count])


@pytest.mark.parametrize(
    "claimed", [[(1, b"a", b"")], [(0, b"a", b""), (2, b"b", b"")], [(1, b"a", b""), (0, b"b", b"")]]
)
def test_a_record_that_has_not_its_place_for_its_offset_is_noticed(
    claimed: list[tuple[int, bytes, bytes | None]],
) -> None:
    records = bytes(lying_batch(claimed)[HEADER_BYTES:])
    assert not note_last(records, len(claimed), BASE, {})


def test_records_without_keys_are_found_by_no_place() -> None:
    records = keyed([(b"a", b"1"), (None, b"2")])[HEADER_BYTES:]
    assert not note_last(records, 2, BASE, {})
