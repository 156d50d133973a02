"""This room ships goods from where they lie to where there is room, for the largest sum of worths."""

from collections import deque
from collections.abc import Sequence


class Network:
    """A flow from node 0 to node 1; `ship` finds the one of most worth among the largest."""

    def __init__(self, nodes: int) -> None:
        self._from: list[list[int]] = [[] for _ in range(nodes)]
        self._to: list[int] = []
        self._room: list[int] = []
        self._cost: list[int] = []

    def connect(self, start: int, end: int, room: int, worth: int = 0) -> int:
        """A way for so many, each of which is worth so much; the number by which `shipped` knows it."""
        for one, other, capacity, cost in ((start, end, room, -worth), (end, start, 0, worth)):
            self._from[one].append(len(self._to))
            self._to.append(other)
            self._room.append(capacity)
            self._cost.append(cost)
        return len(self._to) - 2

    def shipped(self, way: int) -> int:
        """How many went this way."""
        return self._room[way + 1]

    def ship(self) -> None:
        """Along the cheapest path again and again, as far as there is one (successive shortest paths)."""
        while path := self._cheapest_path():
            amount = min(self._room[way] for way in path)
            for way in path:
                self._room[way] -= amount
                self._room[way ^ 1] += amount

    def _cheapest_path(self) -> Sequence[int]:
        """The ways from node 0 to node 1 of least cost that have room; empty if there is none."""
        to, room, cost = self._to, self._room, self._cost
        distance: dict[int, int] = {0: 0}
        came_by: dict[int, int] = {}
        waiting, queued = deque([0]), {0}
        while waiting:
            node = waiting.popleft()
            queued.discard(node)
            so_far = distance[node]
            for way in self._from[node]:
                end = to[way]
                if room[way] and (end not in distance or so_far + cost[way] < distance[end]):
                    distance[end] = so_far + cost[way]
                    came_by[end] = way
                    if end not in queued:
                        queued.add(end)
                        waiting.append(end)
        path: list[int] = []
        node = 1
        while node in came_by and node:
            path.append(came_by[node])
            node = to[came_by[node] ^ 1]
        return path
