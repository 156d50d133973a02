"""This room says for which names a right holds: exact ones, and beginnings of names."""

from collections.abc import Iterable
from dataclasses import dataclass

NAMES_MAX = 100
NAME_LENGTH_MAX = 250


class BadScope(ValueError):
    """A pattern that no scope can have; the text says why."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Names that a right covers. One without any pattern covers every name."""

    literals: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> "Scope":
        """`orders` is a name, `orders-*` every name that begins with `orders-`. Raises BadScope."""
        given = list(patterns)
        if len(given) > NAMES_MAX:
            raise BadScope(f"at most {NAMES_MAX} names or prefixes")
        for pattern in given:
            if not pattern or len(pattern) > NAME_LENGTH_MAX or not pattern.isprintable():
                raise BadScope(f"{pattern!r} is no name")
            if "*" in pattern[:-1]:
                raise BadScope(f"{pattern!r}: a * may only stand at the end")
        return cls(
            frozenset(one for one in given if not one.endswith("*")),
            tuple(sorted({one[:-1] for one in given if one.endswith("*")})),
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        """What `of` makes this one of, sorted; empty: every name."""
        return tuple(sorted((*self.literals, *(f"{prefix}*" for prefix in self.prefixes))))

    @property
    def is_everything(self) -> bool:
        """True if every name is covered."""
        return (not self.literals and not self.prefixes) or "" in self.prefixes

    def covers(self, name: str) -> bool:
        """Whether `name` is among them."""
        prefixes = self.prefixes
        if name in self.literals or (not prefixes and not self.literals):
            return True
        # Every name begins with the empty one.
        return bool(prefixes) and name.startswith(prefixes)


EVERYTHING = Scope()
