"""This room knows who has come to a door and not said yet who it is, and who of them makes room for others.

The oldest does: whoever means well is through in milliseconds, whoever only holds a place held it longest.
"""

from typing import Final, Generic, TypeVar

One = TypeVar("One")

OF_ONE_ADDRESS: Final = "too_many_of_one_address"
IN_ALL: Final = "too_many_strangers"


class Strangers(Generic[One]):
    """At most `most` of them, and of one network `most_of_one` (0: any number, as behind a proxy)."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._all: dict[One, str] = {}
        self._of_one: dict[str, dict[One, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, one: One, network: str) -> tuple[One, str] | None:
        """Somebody has come; whoever is to make room for that is still here, and why."""
        self._all[one] = network
        neighbours = self._of_one.setdefault(network, {})
        neighbours[one] = None
        if 0 < self._most_of_one < len(neighbours):
            return next(iter(neighbours)), OF_ONE_ADDRESS
        return (next(iter(self._all)), IN_ALL) if len(self._all) > self._most else None

    def leave(self, one: One) -> str:
        """It has said who it is, or is gone; its network, "" if it was no stranger."""
        network = self._all.pop(one, "")
        neighbours = self._of_one.get(network, {})
        neighbours.pop(one, None)
        if not neighbours:
            self._of_one.pop(network, None)
        return network

    def oldest(self) -> One | None:
        """Who has been here longest."""
        return next(iter(self._all), None)
