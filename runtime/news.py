"""This room says of what goes wrong again and again only now and then that it is news: logs fill disks."""

from collections.abc import Hashable

from muster.kernel.instants import Instant

TOLD_EVERY_MS = 10_000
TOLD_MAX = 1_000
"""How many kinds are known to have been told; then all are news again."""


class News:
    """When each kind of trouble was told last."""

    def __init__(self) -> None:
        self._told_at: dict[Hashable, Instant] = {}

    def is_news(self, what: Hashable, now: Instant) -> bool:
        """Whether `what` is to be told now: nobody was told of it for ten seconds."""
        told_at = self._told_at.get(what)
        if told_at is not None and now - told_at < TOLD_EVERY_MS:
            return False
        if len(self._told_at) >= TOLD_MAX:
            self._told_at.clear()
        self._told_at[what] = now
        return True
