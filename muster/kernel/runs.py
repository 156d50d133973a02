"""This room joins numbers that follow each other, so that many are read at a glance."""

from collections.abc import Iterable


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of each run, in order; one that is named twice counts once."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
