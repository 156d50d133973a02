"""This room ends the consumers that a program leaves open, and tells its forked children whose they are."""

import atexit
import logging
import os
import weakref
from typing import Protocol

logger = logging.getLogger("muster.client")


class Ended(Protocol):
    """A consumer on a thread of its own, which nothing but this would end."""

    _forked: bool

    @property
    def consumer_id(self) -> str: ...

    def _begin_to_close(self) -> None: ...

    def close(self) -> None: ...

    def _forget_the_parent(self) -> None: ...


consumers: "weakref.WeakSet[Ended]" = weakref.WeakSet()
"""Those that were entered."""


def close_all() -> None:
    """They leave at the same time, for each may take a session's length, and whoever fails stops no other.

    No thread can be begun any more where the interpreter ends. A child leaves its parent's consumers alone.
    """
    own = [one for one in list(consumers) if not one._forked]
    for consumer in own:
        consumer._begin_to_close()
    for consumer in own:
        try:
            consumer.close()
        except Exception:
            text = "consumer %s could not be closed; at the latest its session's end frees its partitions"
            logger.warning(text, consumer.consumer_id, exc_info=True)


def _after_fork() -> None:
    for consumer in list(consumers):
        consumer._forget_the_parent()


atexit.register(close_all)
os.register_at_fork(after_in_child=_after_fork)
