"""This room tells Python's collector of cycles that a long-running process has started."""

import gc
from typing import Final

YOUNG_OBJECTS: Final = 10_000
"""Collect after so many new objects. With Python's 700 a turn on ten thousand partitions was interrupted a
hundred times, and each full collection walked through all of Django: more than half of an election. With
50,000, each of which holds some others, everybody waited for 10 to 16 ms each time."""

YOUNG_COLLECTIONS: Final = 50
"""After so many of these, look through what was left by them; and after twenty of those, through all."""


def calm_collector() -> None:
    """Count everything that is here as permanent, and look for cycles among the rest less often.

    Call it once, when everything is imported. The house makes few cycles; reference counts free the rest.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, 20)
