"""This room lays the replicas of a cluster out anew: it evens them out, and finds places that fit racks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from controller.core.loads import Loads
from controller.core.placement import Place

ROUNDS: Final = 8
"""How often all who have too much are looked at again: racks may let something go only after another."""


class World:
    """Replicas of all partitions by place in a list, as they are and as they are to be (`targets`).

    What is not even stays so where evening it would put two replicas of a partition on one rack. A broker in
    trouble gives what it has too much of, as any other; it takes only what has no other place, and then
    stands first for nothing.
    """

    def __init__(
        self, places: Sequence[Place], assigned: Sequence[tuple[int, ...]], sizes: Sequence[int]
    ) -> None:
        self.targets: dict[int, tuple[int, ...]] = {}
        self._assigned, self._sizes, self._places = assigned, sizes, places
        held: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        self._first: Counter[int] = Counter()
        for replicas, size in zip(assigned, sizes, strict=True):
            self._first[replicas[0]] += 1
            for broker_id in replicas:
                one = held[broker_id]
                one[0] += 1
                one[1] += size
        self._held = {broker_id: (one[0], one[1]) for broker_id, one in held.items()}
        self._loads = Loads(places, self._held)
        # Where all are in trouble, none is worse than the others.
        self._sound = [one for one in places if not one.in_trouble] or places
        self._takers = self._loads if len(self._sound) == len(places) else Loads(self._sound, self._held)
        self._racks = dict(self._loads.rack_of)

    def know_racks(self, racks: dict[int, str]) -> None:
        """The racks of all brokers, those that get nothing among them."""
        self._racks = racks

    @property
    def racks(self) -> set[str]:
        """Where something may be placed."""
        return set(self._loads.rack_of.values())

    def rack(self, broker_id: int) -> str:
        return self._racks.get(broker_id, "")

    def now(self, place: int) -> tuple[int, ...]:
        return self.targets.get(place) or self._assigned[place]

    # ------------------------------------------------------------------------------ one partition

    def put(self, place: int, target: Sequence[int]) -> None:
        """The partition goes there."""
        before, size = self.now(place), self._sizes[place]
        for broker_id in before:
            if broker_id not in target:
                self._move(broker_id, None, size)
        for broker_id in target:
            if broker_id not in before:
                self._move(None, broker_id, size)
        self._first[before[0]] -= 1
        self._first[target[0]] += 1
        if tuple(target) == self._assigned[place]:
            self.targets.pop(place, None)
        else:
            self.targets[place] = tuple(target)

    def _move(self, source: int | None, target: int | None, size: int) -> None:
        self._loads.move(source, target, size)
        if self._takers is not self._loads:
            self._takers.move(source, target, size)

    def place_for(self, others: Sequence[int], without: Sequence[int], strictly: bool = False) -> int | None:
        """Who holds least, on a rack where none of `others` is; unless `strictly`, else anywhere.

        One in trouble only where nobody else is left, and never `strictly`.
        """
        racks = {self.rack(b) for b in others}
        found = self._takers.least(without, racks)
        if found is not None or strictly:
            return found
        for loads, not_on in ((self._takers, ()), (self._loads, racks), (self._loads, ())):
            if (found := loads.least(without, not_on)) is not None:
                return found
        return None

    def led_by_least(self, target: list[int], before: Sequence[int]) -> list[int]:
        """The same brokers, first who stands first least often; rather one that has the records already."""
        may_lead = self._takers.rack_of
        first = min(target, key=lambda b: (b not in may_lead, self._first[b], b not in before))
        return [first] + [b for b in target if b != first]

    def least_needed(self, target: Sequence[int], isr: Sequence[int]) -> int:
        """Out of sync before in sync, on a rack with another before alone, who holds most."""
        racks = Counter(self.rack(b) for b in target)
        return max(
            target[1:],
            key=lambda b: (b not in isr, racks[self.rack(b)] > 1, self._loads.replicas(b), target.index(b)),
        )

    def on_one_rack(self, target: Sequence[int], isr: Sequence[int]) -> int | None:
        """One that shares its rack with another: rather one that is out of sync, never the first; or None."""
        racks = Counter(self.rack(b) for b in target)
        found = [b for b in target[1:] if racks[self.rack(b)] > 1]
        return max(found, key=lambda b: (b not in isr, target.index(b)), default=None)

    # ------------------------------------------------------------------------------ all of them

    def spread(self, free: Sequence[int]) -> None:
        """Replicas evenly over all that may get some, then who stands first; the smallest logs move."""
        smallest_first = sorted(free, key=self._sizes.__getitem__)
        self._even_out(smallest_first, self._takers)
        self._even_out_first(free)

    def fill(self, free: Sequence[int], new: set[int]) -> None:
        """`new` get as many as the others have, and stand first as often; nothing moves between others."""
        takers = Loads([one for one in self._places if one.broker_id in new], self._held)
        self._even_out(free, takers)
        self._even_out_first(list(self.targets))

    def _even_out(self, free: Sequence[int], loads: Loads) -> None:
        """First down to the mean, then up to it, which moves fewest; then who has two more than another.

        That alone moves more: who has one more than the mean would give two to whoever has nothing.
        """
        givers = {one.broker_id for one in self._places}
        if not givers:
            return
        on: dict[int, list[int]] = defaultdict(list)
        for place in free:
            for broker_id in self.now(place):
                if broker_id in givers:
                    on[broker_id].append(place)
        count = self._loads.replicas
        lowest, rest = divmod(sum(map(count, givers)), len(givers))
        highest = lowest + (rest > 0)

        def down(giver: int, taker: int) -> bool:
            return count(giver) > highest > count(taker)

        def up(giver: int, taker: int) -> bool:
            return count(giver) > lowest > count(taker)

        def improves(giver: int, taker: int) -> bool:
            return count(giver) >= count(taker) + 2

        for rule in (down, up, *[improves] * ROUNDS):
            moved = False
            for giver in sorted(on, key=lambda b: (-count(b), b)):
                moved |= self._give(giver, on, loads, rule)
            if not moved and rule is improves:
                return

    def _give(
        self,
        giver: int,
        on: dict[int, list[int]],
        loads: Loads,
        rule: Callable[[int, int], bool],
    ) -> bool:
        """What one may give to others; True if it gave something."""
        kept, gave = [], False
        for number, place in enumerate(on[giver]):
            found = loads.least(())
            if found is None or not rule(giver, found):
                kept += on[giver][number:]
                break
            before = self.now(place)
            taker = self._taker(giver, before, loads, rule)
            if taker is None:
                kept.append(place)
                continue
            self.put(place, tuple(taker if b == giver else b for b in before))
            if loads not in (self._loads, self._takers):
                loads.move(giver, taker, self._sizes[place])
            on[taker].append(place)
            gave = True
        on[giver] = kept
        return gave

    def _taker(
        self, giver: int, before: Sequence[int], loads: Loads, rule: Callable[[int, int], bool]
    ) -> int | None:
        """Who may take the giver's replica; no rack gets a second one for it."""
        racks = {self.rack(b) for b in before if b != giver}
        found = loads.least(before, racks)
        if found is not None and rule(giver, found):
            return found
        if self.rack(giver) not in racks:
            return None
        # It shares its rack already: nothing becomes worse anywhere.
        found = loads.least(before)
        return found if found is not None and rule(giver, found) else None

    def _even_out_first(self, free: Iterable[int]) -> None:
        """Who stands first too often changes its place with another replica; nothing is copied for it."""
        may_lead = {one.broker_id for one in self._places}
        if not may_lead:
            return
        led: dict[int, list[int]] = defaultdict(list)
        for place in sorted(free, key=lambda place: place not in self.targets):
            first = self.now(place)[0]
            if first in may_lead:
                led[first].append(place)
        highest = -(-sum(self._first[b] for b in may_lead) // len(may_lead))
        for number in range(ROUNDS):
            changed = False
            for giver in sorted(led, key=lambda b: (-self._first[b], b)):
                kept = []
                for place in led[giver]:
                    taker = self._next_first(giver, self.now(place), highest if number == 0 else None)
                    if taker is None:
                        kept.append(place)
                        continue
                    self.put(place, (taker, *(b for b in self.now(place) if b != taker)))
                    led[taker].append(place)
                    changed = True
                led[giver] = kept
            if not changed and number > 0:
                return

    def _next_first(self, giver: int, target: Sequence[int], highest: int | None) -> int | None:
        others = [b for b in target if b in self._takers.rack_of and b != giver]
        least = min(others, key=lambda b: (self._first[b], b), default=None)
        if least is None:
            return None
        if highest is not None:
            return least if self._first[giver] > highest > self._first[least] else None
        return least if self._first[giver] >= self._first[least] + 2 else None
