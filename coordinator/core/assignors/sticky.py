"""This room assigns so that loads differ least and as few partitions as possible change their owner.

Topics that the same members read form a class. Within one class, keeping what everybody has up to
an even quota is both balanced and moves the fewest. With several classes, what has no owner goes to
the least loaded reader, and then single partitions move while that lessens the difference of two loads.
Threads divide a member's share inside the member; they do not make it larger.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence

from coordinator.core.assignors.interface import Question, Shares, Threads, partitions_of
from muster.messages.partitions import Partition


class _ReaderClass:
    """The topics that exactly these members read, and who holds how much of them; `name` is one of them."""

    def __init__(self, name: str, readers: tuple[str, ...]) -> None:
        self.name = name
        self.readers = readers
        self.held: dict[str, list[Partition]] = {}
        self.free: list[Partition] = []

    def give(self, member: str, partition: Partition) -> None:
        self.held.setdefault(member, []).append(partition)


class _Ladder:
    """All members by load: the least loaded reader of a topic is found without looking at all its readers."""

    def __init__(self, members: Mapping[str, Threads], loads: dict[str, int]) -> None:
        self.loads = loads
        self._members = members
        self._rungs: dict[int, dict[str, None]] = {}
        for member in sorted(loads):
            self._rungs.setdefault(loads[member], {})[member] = None

    @property
    def least(self) -> int:
        """No member has less."""
        return min(self._rungs)

    def move(self, member: str, load: int) -> None:
        """The member has so much now. Nobody may be climbing."""
        rung = self._rungs[self.loads[member]]
        del rung[member]
        if not rung:
            del self._rungs[self.loads[member]]
        self._rungs.setdefault(load, {})[member] = None
        self.loads[member] = load

    def climb(self, group: _ReaderClass, wanted: int) -> Iterator[tuple[int, str]]:
        """Readers of the class and their loads, the least loaded first; about so many are wanted."""
        readers = group.readers
        if len(readers) == len(self.loads) or wanted * len(self.loads) < len(readers) ** 2:
            for load in sorted(self._rungs):
                for member in self._rungs[load]:
                    if group.name in self._members[member]:
                        yield load, member
        else:
            yield from sorted((self.loads[member], member) for member in readers)


class _Takers:
    """The least loaded reader of a class, again and again, while what is given to it is counted."""

    def __init__(self, ladder: _Ladder, group: _ReaderClass, wanted: int) -> None:
        self._untouched = ladder.climb(group, wanted)
        self._next = next(self._untouched, None)
        self._touched: list[tuple[int, str]] = []

    def least(self) -> tuple[int, str]:
        """Load and name."""
        if self._next is None or (self._touched and self._touched[0] < self._next):
            return self._touched[0]
        return self._next

    def give(self) -> str:
        """One more for the least loaded; its name."""
        load, member = self.least()
        if self._touched and self._touched[0] == (load, member):
            heapq.heapreplace(self._touched, (load + 1, member))
        else:
            self._next = next(self._untouched, None)
            heapq.heappush(self._touched, (load + 1, member))
        return member


def assign(question: Question) -> Shares:
    """The balanced assignment nearest to the present one."""
    classes = _classes(question)
    if len(classes) == 1:
        _even_out(classes[0])
    elif classes:
        loads = dict.fromkeys(question.members, 0)
        for group in classes:
            for member, partitions in group.held.items():
                loads[member] += len(partitions)
        ladder = _Ladder(question.members, loads)
        for group in classes:
            _place_free(group, ladder)
        while any([_balance(group, ladder) for group in classes]):
            pass
    shares: Shares = {member: [] for member in sorted(question.members)}
    for group in classes:
        for member, partitions in group.held.items():
            shares[member].extend(partitions)
    for partitions in shares.values():
        partitions.sort()
    return shares


def _classes(question: Question) -> list[_ReaderClass]:
    classes: dict[tuple[str, ...], _ReaderClass] = {}
    owner_of, members = question.owner_of, question.members
    nobody: Threads = {}
    for name, readers in question.readers().items():
        if not readers:
            continue
        who = tuple(readers)
        group = classes.get(who)
        if group is None:
            group = classes[who] = _ReaderClass(name, who)
        for partition in partitions_of(question.topics[name]):
            owner = owner_of.get(partition)
            if owner is not None and name in members.get(owner, nobody):
                group.give(owner, partition)
            else:
                group.free.append(partition)
    return [classes[who] for who in sorted(classes)]


def _even_out(group: _ReaderClass) -> None:
    """One class: everybody keeps up to its quota; those who have more than others may keep one more."""
    nothing: Sequence[Partition] = ()
    total = len(group.free) + sum(map(len, group.held.values()))
    quota, more = divmod(total, len(group.readers))
    by_load = sorted(group.readers, key=lambda member: (-len(group.held.get(member, nothing)), member))
    free = group.free
    for rank, member in enumerate(by_load):
        held = group.held.setdefault(member, [])
        keep = quota + (rank < more)
        free.extend(held[keep:])
        del held[keep:]
    free.sort()
    cards = iter(free)
    for rank, member in enumerate(by_load):
        held = group.held[member]
        for _ in range(quota + (rank < more) - len(held)):
            held.append(next(cards))


def _place_free(group: _ReaderClass, ladder: _Ladder) -> None:
    takers = _Takers(ladder, group, len(group.free))
    gained: dict[str, int] = {}
    for partition in group.free:
        member = takers.give()
        group.give(member, partition)
        gained[member] = gained.get(member, 0) + 1
    group.free = []
    _note(ladder, gained)


def _balance(group: _ReaderClass, ladder: _Ladder) -> bool:
    """Move single partitions from the most to the least loaded reader while that helps; True if any moved."""
    loads = ladder.loads
    most = [(-loads[member], member) for member, held in group.held.items() if held]
    if not most or -min(most)[0] < ladder.least + 2:
        return False
    heapq.heapify(most)
    takers = _Takers(ladder, group, len(most))
    change: dict[str, int] = {}
    while most:
        load, giver = -most[0][0], most[0][1]
        if load < takers.least()[0] + 2:
            break
        taker = takers.give()
        group.give(taker, group.held[giver].pop())
        change[giver] = change.get(giver, 0) - 1
        change[taker] = change.get(taker, 0) + 1
        if group.held[giver]:
            heapq.heapreplace(most, (1 - load, giver))
        else:
            heapq.heappop(most)
    _note(ladder, change)
    return bool(change)


def _note(ladder: _Ladder, change: Mapping[str, int]) -> None:
    for member, by in change.items():
        if by:
            ladder.move(member, ladder.loads[member] + by)
