"""This room looks topics up in subscriptions: a long list, which thousands share, is read through once."""

from typing import Final, NamedTuple

from muster.messages.member import TopicCount

Subscription = tuple[TopicCount, ...]

_SHORT: Final = 4
"""So short a list is read as quickly as it is found."""

_KEPT_TOPICS: Final = 100_000
"""In all lists together; beyond it all are forgotten here."""


class Wanted(NamedTuple):
    """What one list asks for: streams by topic, and patterns, in their order."""

    threads: dict[str, int]
    patterns: tuple[TopicCount, ...]
    threads_by_pattern: int
    """The largest number of any pattern; 1 without any."""


class _Lists:
    """By identity, each held here so that no other one takes its place in memory."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Subscription, Wanted]] = {}
        self._topics = 0

    def wanted(self, subscription: Subscription) -> Wanted:
        known = self._known.get(id(subscription))
        if known is not None:
            return known[1]
        found = _read(subscription)
        if len(subscription) > _SHORT:
            if self._topics + len(subscription) > _KEPT_TOPICS:
                self._known, self._topics = {}, 0
            self._known[id(subscription)] = subscription, found
            self._topics += len(subscription)
        return found


_lists = _Lists()


def wanted(subscription: Subscription) -> Wanted:
    """The same for equal lists, whenever it is asked."""
    return _lists.wanted(subscription)


def _read(subscription: Subscription) -> Wanted:
    threads: dict[str, int] = {}
    patterns = []
    for entry in subscription:
        if entry.is_pattern:
            patterns.append(entry)
        else:
            threads.setdefault(entry.topic, entry.threads)
    return Wanted(threads, tuple(patterns), max((entry.threads for entry in patterns), default=1))
