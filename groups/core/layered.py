"""This room holds a mapping that is changed by copying only what changed lately, however large it is."""

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_GONE: Any = object()


class Layered(MutableMapping[K, V]):
    """What was there, and above it what changed since; whoever changes something forks it first.

    A fork copies the upper layer, and pours it into the lower one when it has outgrown its square root: so n
    entries cost about as much as the root of n, each time one of them changes.
    """

    __slots__ = ("_base", "_length", "_top")

    def __init__(self, base: Mapping[K, V], top: dict[Any, Any] | None = None) -> None:
        """Of a copy of `base`; with a `top`, which is what changed since, `base` itself is kept as it is."""
        # Of anything: a cast is a call, and thousands are looked up here in one turn.
        kept: Any = base
        self._base: dict[Any, Any] = dict(base) if top is None else kept
        self._top: dict[Any, Any] = {} if top is None else top
        self._length: int | None = None
        """Known as soon as somebody asks, and kept from then on: a batch of commits only writes."""

    @staticmethod
    def fork(before: Mapping[K, V]) -> "Layered[K, V]":
        """The same entries, to be changed without a change to `before`."""
        if not isinstance(before, Layered):
            return Layered(before)
        # Nothing is made in vain: there is a fork at each ping, and at each answer.
        if len(before._top) ** 2 > len(before._base):
            return Layered(before._poured(), {})
        fork: Layered[K, V] = Layered(before._base, before._top.copy())
        fork._length = before._length
        return fork

    def _poured(self) -> dict[K, V]:
        # Copied as it lies in memory: entry by entry takes several times as long.
        top = self._top
        poured = self._base.copy() if self._base else top.copy()
        if self._base:
            poured.update(top)
        for key in [key for key, value in top.items() if value is _GONE]:
            del poured[key]
        return poured

    def __getitem__(self, key: K) -> V:
        value: Any = self._top.get(key, self)
        if value is self:
            value = self._base[key]
        elif value is _GONE:
            raise KeyError(key)
        found: V = value
        return found

    def get(self, key: K, default: Any = None) -> Any:
        value = self._top.get(key, self)
        if value is self:
            return self._base.get(key, default)
        return default if value is _GONE else value

    def __contains__(self, key: object) -> bool:
        value = self._top.get(key, self)
        return key in self._base if value is self else value is not _GONE

    def __len__(self) -> int:
        """Counted once; a group of thousands asks at each of their joins."""
        if self._length is None:
            base, length = self._base, len(self._base)
            for key, value in self._top.items():
                length += (value is not _GONE) - (key in base)
            self._length = length
        return self._length

    def __iter__(self) -> Iterator[K]:
        top = self._top
        for key in self._base:
            if top.get(key) is not _GONE:
                yield key
        for key, value in top.items():
            if value is not _GONE and key not in self._base:
                yield key

    def __setitem__(self, key: K, value: V) -> None:
        if self._length is not None and key not in self:
            self._length += 1
        self._top[key] = value

    def take_over(self, others: Mapping[K, V]) -> None:
        """As `update`, for any number of entries at the price of a dictionary's."""
        self._length = None
        self._top.update(others)

    def items(self) -> ItemsView[K, V]:
        """As they are now; what changes later is not seen."""
        return self._poured().items()

    def pop(self, key: K, *default: Any) -> Any:
        """As a dictionary's."""
        value = self.get(key, _GONE)
        if value is _GONE:
            if not default:
                raise KeyError(key)
            return default[0]
        self._take_out(key)
        return value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._take_out(key)

    def _take_out(self, key: K) -> None:
        """Of an entry that is there."""
        if self._length is not None:
            self._length -= 1
        if key in self._base:
            self._top[key] = _GONE
        else:
            del self._top[key]

    def __repr__(self) -> str:
        return repr(dict(self))
