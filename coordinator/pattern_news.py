"""This room tells groups of changed topics that a pattern of theirs matches, a slice of time at a time."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator import patterns
from runtime.of_loops import OfLoops
from runtime.slices import Slices

SLICE_S: Final = 0.004
"""For so long all shards of a node match in one round of its loop: heartbeats and leases pass in between."""

MATCHED_AT_ONCE: Final = 8
"""Names between two looks at the clock. Mostly one takes 2 µs; with a hostile pattern half a millisecond."""

_slices = OfLoops(lambda loop: Slices(loop, SLICE_S))


async def tell_whose_match(
    patterns_of: Mapping[str, Iterable[str]], names: Iterable[str], tell: Callable[[str], None]
) -> None:
    """Call `tell` with each key of which a pattern matches any of `names`; no pattern is matched twice."""
    found: dict[str, bool] = {}
    all_names = tuple(names)
    for key, wanted in patterns_of.items():
        for pattern in wanted:
            if pattern not in found:
                found[pattern] = await _matches_any(pattern, all_names)
            if found[pattern]:
                tell(key)
                break


async def _matches_any(pattern: str, names: tuple[str, ...]) -> bool:
    slices = _slices.of(asyncio.get_running_loop())
    for start in range(0, len(names), MATCHED_AT_ONCE):
        await slices.turn()
        if any(patterns.matches(pattern, name) for name in names[start : start + MATCHED_AT_ONCE]):
            return True
    return False
