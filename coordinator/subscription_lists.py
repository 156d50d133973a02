"""This room keeps one of each list of topics: thousands of members may subscribe to the same thousand."""

from typing import Final

from muster.messages.member import TopicCount

KEPT_TOPICS: Final = 100_000
"""In all lists together; beyond it the lists are forgotten here, not by the members who have them."""

Subscription = tuple[TopicCount, ...]


class SubscriptionLists:
    """The lists that were seen last, each once."""

    def __init__(self) -> None:
        self._known: dict[Subscription, Subscription] = {}
        self._topics = 0

    def same(self, given: Subscription) -> Subscription:
        """The list that is equal to `given`: the one that was seen first, for all who bring it."""
        known = self._known.get(given)
        if known is None:
            if self._topics + len(given) > KEPT_TOPICS:
                self._known, self._topics = {}, 0
            known = self._known[given] = given
            self._topics += len(given)
        return known
