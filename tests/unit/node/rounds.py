"""This room plays rounds of an event loop by hand."""

from collections.abc import Callable


class Rounds:
    """As much of a loop as what is done soon needs."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def next_round(self) -> None:
        due, self._soon = self._soon, []
        for callback in due:
            callback()

    @property
    def is_quiet(self) -> bool:
        return not self._soon
