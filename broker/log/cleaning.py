"""This room keeps how far a log is compacted, says when it is worth it, and finishes what a kill cut off."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from broker.log.checkpoints import load_passes, save_passes
from broker.log.compaction import CLEANED, Source
from broker.log.outcomes import SWAP, LogSettings
from broker.log.segment import Segment
from broker.log.segments import Segments
from muster.kafkawire import batches
from muster.kafkawire.errors import CorruptBatch

CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
MOST_PASSES: Final = 100


class Dirt(NamedTuple):
    """How much of a log may be compacted, and how much of it is not yet."""

    clean_bytes: int
    dirty_bytes: int
    segments: tuple[Segment, ...]
    """Those before the first that may not be compacted yet."""
    is_due: bool
    """What is dirty has waited for as long as it may."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


class Passes:
    """Which offsets a log was compacted up to, and when, the newest last: a file of the log's folder.

    A file that cannot be believed is as good as none: everything is compacted again, and tombstones stay
    longer.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CLEANER_CHECKPOINT
        self._passes = load_passes(self._path)

    @property
    def clean_to(self) -> int:
        return self._passes[-1][0] if self._passes else 0

    def old_to(self, wall_ms: int, age_ms: int) -> int:
        """Up to where a pass has been that is at least so old."""
        return max((to for to, at_ms in self._passes if wall_ms - at_ms >= age_ms), default=0)

    def note(self, clean_to: int, wall_ms: int, age_ms: int) -> None:
        """Everything below was compacted now; passes older than `age_ms` are one. Raises OSError."""
        old_to = self.old_to(wall_ms, age_ms)
        kept = [(to, at_ms) for to, at_ms in self._passes if to >= old_to]
        if clean_to > self.clean_to:
            kept.append((clean_to, wall_ms))
        while len(kept) > MOST_PASSES:
            # Of two passes that are told as one the later one counts: tombstones stay a little longer.
            del kept[0]
        save_passes(self._path, kept)
        self._passes = kept

    def cut_at(self, offset: int) -> None:
        """What lies behind is no more. Raises OSError."""
        if offset < self.clean_to:
            self._passes = [(min(to, offset), at_ms) for to, at_ms in self._passes]
            save_passes(self._path, self._passes)


class Cleaning:
    """The compaction of one log, as the broker's loop sees it."""

    __slots__ = ("_folder", "_segments", "passes")

    def __init__(self, folder: Path | str, segments: Segments) -> None:
        self._folder = folder
        self._segments = segments
        self.passes: Passes | None = None
        """None: nobody has looked yet."""

    def load(self) -> None:
        """Learn which passes there were; beside the loop."""
        self.passes = Passes(Path(self._folder))

    def opened_at(self, end_offset: int, *, is_sure: bool) -> None:
        """The log was found to end there: no pass counts over what lay behind.

        `is_sure`: it was closed cleanly and is whole, so that nothing lay there.

        What a leader sends again may hold records that were removed here, and tombstones that delete them.
        Raises OSError.
        """
        if not is_sure and os.path.exists(os.path.join(self._folder, CLEANER_CHECKPOINT)):
            Passes(Path(self._folder)).cut_at(end_offset)

    def dirt(self, settings: LogSettings, high_watermark: int, wall_ms: int) -> Dirt:
        """What may be compacted: neither the segment that is written, nor what is not committed or too young.

        Raises OSError.
        """
        clean_to = self.passes.clean_to if self.passes is not None else 0
        clean_bytes = dirty_bytes = 0
        found: list[Segment] = []
        is_due = False
        youngest_allowed = wall_ms - settings.min_compaction_lag_ms
        oldest_allowed = wall_ms - settings.max_compaction_lag_ms
        for segment, end_offset in zip(self._segments, self._segments.bases[1:], strict=False):
            is_dirty = end_offset > clean_to
            if end_offset > high_watermark:
                break
            if is_dirty and settings.min_compaction_lag_ms and segment.youngest_ms() > youngest_allowed:
                break
            found.append(segment)
            if is_dirty:
                dirty_bytes += segment.size_bytes
                is_due = is_due or segment.oldest_ms() < oldest_allowed
            else:
                clean_bytes += segment.size_bytes
        return Dirt(clean_bytes, dirty_bytes, tuple(found), is_due)

    def sources(self, found: Dirt) -> tuple[Source, ...]:
        """The files of what may be compacted."""
        bases = self._segments.bases
        ends = bases[bases.index(found.segments[0].base_offset) + 1 :]
        return tuple(
            Source(segment.path, segment.base_offset, end, segment.size_bytes)
            for segment, end in zip(found.segments, ends, strict=False)
        )

    def cut_at(self, offset: int) -> None:
        """Behind a cut other records will lie, which no pass has seen. Raises OSError."""
        if self.passes is None:
            (Path(self._folder) / CLEANER_CHECKPOINT).unlink(missing_ok=True)
        else:
            self.passes.cut_at(offset)


def finish_swaps(folder: Path, names: Iterable[str]) -> bool:
    """Before a log is opened: what was not finished goes, what was is put in its place; False: nothing was.

    `names`: what lies in `folder`. Raises OSError.
    """
    unfinished = [folder / name for name in names if name.endswith(CLEANED)]
    for left in unfinished:
        left.unlink()
    finished = [folder / name for name in names if name.endswith(SWAP)]
    for swap in finished:
        base_offset = int(swap.name.split(".", 1)[0])
        end_offset = _end_of(swap, base_offset)
        if end_offset > base_offset:
            for path in folder.glob("*.log"):
                if base_offset < int(path.stem) < end_offset:
                    path.unlink()
                    path.with_suffix(".index").unlink(missing_ok=True)
            target = folder / f"{base_offset:020}.log"
            target.with_suffix(".index").unlink(missing_ok=True)
            swap.replace(target)
        else:
            # It was synced before it had this name: the disk lost it; what it stood for is checked anyway.
            swap.unlink()
    return bool(unfinished or finished)


def _end_of(path: Path, base_offset: int) -> int:
    """The offset behind the last batch of a file that is whole; `base_offset` if it is not."""
    data, end = memoryview(path.read_bytes()), base_offset
    position = 0
    with suppress(CorruptBatch):
        for start, header in batches.headers(data):
            batches.check(data, start, header)
            if header.base_offset != end:
                return base_offset
            end, position = header.next_offset, start + header.size_bytes
        if position == len(data):
            return end
    return base_offset
