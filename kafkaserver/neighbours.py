"""This room counts the connections of each address at a door, and knows which has as many as it may."""

from typing import Generic, TypeVar

One = TypeVar("One")


class Neighbours(Generic[One]):
    """At most `most` of one network (0: any number, and nothing is counted)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._networks: dict[One, str] = {}
        self._counts: dict[str, int] = {}

    def is_full(self, network: str) -> bool:
        """Whether nobody else of it is taken in."""
        return 0 < self._most <= self._counts.get(network, 0)

    def enter(self, one: One, network: str) -> None:
        """It was taken in."""
        if self._most:
            self._networks[one] = network
            self._counts[network] = self._counts.get(network, 0) + 1

    def leave(self, one: One) -> None:
        """It is gone; once is enough."""
        network = self._networks.pop(one, None)
        if network is None:
            return
        self._counts[network] -= 1
        if not self._counts[network]:
            del self._counts[network]
