"""This room counts what each broker holds while a plan is computed, and finds who holds least."""

from collections.abc import Container, Iterable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from controller.core.placement import Place

_Key: TypeAlias = tuple[int, int, int]
"""Replicas, bytes, the broker's id: the least of them is taken first."""


class Loads:
    """Replicas and bytes by broker. Only `places` are offered as a place for more; the others are counted.

    Finding the least costs some steps of a heap, however many brokers there are: a heap for each rack, and
    one over their first entries. An entry that is not what its broker holds now is dropped when it is met.
    """

    def __init__(self, places: Iterable[Place], held: dict[int, tuple[int, int]]) -> None:
        self.rack_of = {place.broker_id: place.rack for place in places}
        self._held = dict(held)
        self._racks: dict[str, list[_Key]] = {}
        for broker_id, rack in self.rack_of.items():
            self._racks.setdefault(rack, []).append(self._key(broker_id))
        for heap in self._racks.values():
            heapify(heap)
        self._firsts: list[tuple[_Key, str]] = [(heap[0], rack) for rack, heap in self._racks.items()]
        heapify(self._firsts)

    def replicas(self, broker_id: int) -> int:
        return self._held.get(broker_id, (0, 0))[0]

    def move(self, source: int | None, target: int | None, size: int) -> None:
        """One replica of `size` bytes more at `target`, one less at `source`."""
        for broker_id, more in ((source, -1), (target, 1)):
            if broker_id is None:
                continue
            replicas, held = self._held.get(broker_id, (0, 0))
            self._held[broker_id] = replicas + more, held + more * size
            rack = self.rack_of.get(broker_id)
            if rack is not None:
                heappush(self._racks[rack], self._key(broker_id))
                heappush(self._firsts, (self._first(rack), rack))

    def least(self, without: Container[int], not_on: Container[str] = ()) -> int | None:
        """Who holds least of those that are not `without` and not on these racks; None: nobody is left."""
        best: _Key | None = None
        aside: dict[str, _Key] = {}
        while self._firsts and (best is None or self._firsts[0][0] < best):
            key, rack = heappop(self._firsts)
            if rack in aside or key != self._first(rack):
                continue
            aside[rack] = key
            if rack not in not_on:
                found = self._first_but(rack, without)
                if found is not None and (best is None or found < best):
                    best = found
        for rack, key in aside.items():
            heappush(self._firsts, (key, rack))
        return None if best is None else best[2]

    def _key(self, broker_id: int) -> _Key:
        replicas, held = self._held.get(broker_id, (0, 0))
        return replicas, held, broker_id

    def _first(self, rack: str) -> _Key:
        heap = self._racks[rack]
        while heap[0] != self._key(heap[0][2]):
            heappop(heap)
        return heap[0]

    def _first_but(self, rack: str, without: Container[int]) -> _Key | None:
        heap, aside = self._racks[rack], []
        found: _Key | None = None
        while heap and found is None:
            key = heap[0]
            if key != self._key(key[2]):
                heappop(heap)
            elif key[2] in without:
                aside.append(heappop(heap))
            else:
                found = key
        for key in aside:
            heappush(heap, key)
        return found
