"""This room switches single rules of compaction off, to show that walks with compacted logs notice.

Every mutant changes the product's code, none what stands in for a disk or a process.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from crc32c import crc32c

from broker import fetch_answers
from broker.log import compaction, opening
from broker.log.cleaning import Cleaning, Passes, finish_swaps
from broker.log.compaction import CLEANED, Cleaned, LastOffsets, _Writer
from broker.log.outcomes import SWAP
from broker.log.partition_log import PartitionLog
from broker.log.segments import Segments
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from tests.simulation.replication.compacted_log import ATTRIBUTES_AT
from tests.simulation.replication.disk_mutants import Mutant

CHECKSUM_AT, CHECKED_FROM = 17, 21


@contextmanager
def _compacting_above_the_high_watermark() -> Iterator[None]:
    """Records are removed for the sake of what is not committed."""
    dirt = Cleaning.dirt

    def to_the_end(self: Cleaning, settings: Any, _high_watermark: int, wall_ms: int) -> Any:
        return dirt(self, settings, 2**60, wall_ms)

    with patch.object(Cleaning, "dirt", to_the_end):
        yield


@contextmanager
def _superseding_itself() -> Iterator[None]:
    """The last record of a key is taken for one that a later record follows."""
    look = LastOffsets._look

    def one_too_far(self: LastOffsets, *told: Any) -> None:
        look(self, *told)
        self.offsets = {key: offset + 1 for key, offset in self.offsets.items()}

    with patch.object(LastOffsets, "_look", one_too_far):
        yield


@contextmanager
def _taking_what_was_not_looked_at_for_superseded() -> Iterator[None]:
    """Of what is clean the places are asked for, too, though its keys were not noted."""
    places_of = LastOffsets.places_of

    def of_all(self: LastOffsets, header: BatchHeader) -> Any:
        self._looked_from = 0
        return places_of(self, header)

    with patch.object(LastOffsets, "places_of", of_all):
        yield


def _emptied_under_its_codec(batch: memoryview, header: BatchHeader) -> bytes:
    """What is left of a producer's last batch still names how its records were compressed."""
    made = bytearray(batches.rewritten(batch, header, b"", 0, batches.NO_TIMESTAMP))
    made[ATTRIBUTES_AT] = header.attributes & batches.CODEC_BITS
    made[CHECKSUM_AT:CHECKED_FROM] = crc32c(bytes(made[CHECKED_FROM:])).to_bytes(4)
    return bytes(made)


MUTANTS: dict[str, Mutant] = {
    "codec_kept": lambda: patch.object(compaction, "_emptied", _emptied_under_its_codec),
    "nothing_sent": lambda: patch.object(fetch_answers, "_end_of_empty", lambda region: None),
    "above_hw": _compacting_above_the_high_watermark,
    "last_goes": _superseding_itself,
    "clean_goes": _taking_what_was_not_looked_at_for_superseded,
    "tombstones_at_once": lambda: patch.object(Passes, "old_to", lambda self, *_: 2**60),
    "tombstones_with_the_second_pass": lambda: patch.object(Passes, "old_to", lambda self, *_: self.clean_to),
    "passes_uncut": lambda: patch.object(Passes, "cut_at", lambda *_: None),
    "no_filler": lambda: patch.object(_Writer, "_fill", lambda self: None),
    "not_swapped": lambda: patch.object(PartitionLog, "swap_in", lambda self, cleaned: True),
    "swaps_dropped": lambda: patch.object(opening, "finish_swaps", _drop_swaps),
    "cleaned_believed": lambda: patch.object(opening, "finish_swaps", _believe_cleaned),
    "deleted_first": lambda: patch.object(Segments, "swap", _delete_first),
}


def _drop_swaps(folder: Path, names: Iterable[str]) -> bool:
    """What was finished and not yet in its place is thrown away like what was not."""
    for path in (*folder.glob(f"*{CLEANED}"), *folder.glob(f"*{SWAP}")):
        path.unlink()
    return finish_swaps(folder, names)


def _believe_cleaned(folder: Path, names: Iterable[str]) -> bool:
    """What was not finished is put in the place of others."""
    for path in folder.glob(f"*{CLEANED}"):
        base_offset = int(path.name.split(".", 1)[0])
        for old in folder.glob("*.log"):
            if int(old.stem) == base_offset:
                os.replace(path, old)
                old.with_suffix(".index").unlink(missing_ok=True)
    return finish_swaps(folder, [one.name for one in folder.iterdir()])


def _delete_first(self: Segments, cleaned: Cleaned) -> bool:
    """The old files go before the new one has the name by which it is found."""
    count = len(cleaned.bases)
    if cleaned.bases[0] not in self.bases:
        return False
    at = self.bases.index(cleaned.bases[0])
    if (*cleaned.bases, cleaned.end_offset) != tuple(self.bases[at : at + count + 1]):
        return False
    first = self._listed[at]
    for segment in reversed(self._listed[at : at + count]):
        segment.delete()
    os.replace(cleaned.path, first.path)
    fresh = self.on_disk(cleaned.bases[0])
    fresh.compacted(cleaned.size_bytes, cleaned.placed)
    self._listed[at : at + count], self.bases[at : at + count] = [fresh], [cleaned.bases[0]]
    return True
