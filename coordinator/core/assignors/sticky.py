"""This room assigns so that loads differ least and as few partitions as possible change their owner.

Topics that the same members read form a class. Within one class, keeping what everybody has up to
an even quota is both balanced and moves the fewest. With several classes, what has no owner goes to
the least loaded reader, and then single partitions move while that lessens the difference of two loads.
Threads divide a member's share inside the member; they do not make it larger.
"""

import heapq
from collections.abc import Iterable

from coordinator.core.assignors.interface import Question, Shares, partitions_of
from muster.messages.partitions import Partition


class _ReaderClass:
    """The topics that exactly these members read, and who holds how much of them."""

    def __init__(self, readers: tuple[str, ...]) -> None:
        self.readers = readers
        self.held: dict[str, list[Partition]] = {member: [] for member in readers}
        self.free: list[Partition] = []


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
        for group in classes:
            _place_free(group, loads)
        while any([_balance(group, loads) for group in classes]):
            pass
    shares: Shares = {member: [] for member in sorted(question.members)}
    for group in classes:
        for member, partitions in group.held.items():
            shares[member].extend(partitions)
    for partitions in shares.values():
        partitions.sort()
    return shares


def _classes(question: Question) -> list[_ReaderClass]:
    readers: dict[str, list[str]] = {name: [] for name in question.topics}
    for member in sorted(question.members):
        for name in question.members[member]:
            if name in readers:
                readers[name].append(member)
    classes: dict[tuple[str, ...], _ReaderClass] = {}
    for name in sorted(question.topics):
        who = tuple(readers[name])
        if not who:
            continue
        group = classes.get(who)
        if group is None:
            group = classes[who] = _ReaderClass(who)
        held, free, owner_of = group.held, group.free, question.owner_of
        for partition in partitions_of(question.topics[name]):
            mine = held.get(owner_of.get(partition, ""))
            (free if mine is None else mine).append(partition)
    return [classes[who] for who in sorted(classes)]


def _even_out(group: _ReaderClass) -> None:
    """One class: everybody keeps up to its quota; those who have more than others may keep one more."""
    total = len(group.free) + sum(map(len, group.held.values()))
    quota, more = divmod(total, len(group.readers))
    by_load = sorted(group.readers, key=lambda member: (-len(group.held[member]), member))
    free = group.free
    for rank, member in enumerate(by_load):
        held = group.held[member]
        keep = quota + (rank < more)
        free.extend(held[keep:])
        del held[keep:]
    free.sort()
    cards = iter(free)
    for rank, member in enumerate(by_load):
        held = group.held[member]
        for _ in range(quota + (rank < more) - len(held)):
            held.append(next(cards))


def _place_free(group: _ReaderClass, loads: dict[str, int]) -> None:
    least = _heap((loads[member], member) for member in group.readers)
    for partition in group.free:
        load, member = least[0]
        group.held[member].append(partition)
        loads[member] = load + 1
        heapq.heapreplace(least, (load + 1, member))
    group.free = []


def _balance(group: _ReaderClass, loads: dict[str, int]) -> bool:
    """Move single partitions from the most to the least loaded reader while that helps; True if any moved."""
    least = _heap((loads[member], member) for member in group.readers)
    most = _heap((-loads[member], member) for member in group.readers if group.held[member])
    moved = False
    while most:
        giver, taker = most[0][1], least[0][1]
        if -most[0][0] != loads[giver] or not group.held[giver]:
            heapq.heappop(most)
            if group.held[giver]:
                heapq.heappush(most, (-loads[giver], giver))
            continue
        if least[0][0] != loads[taker]:
            heapq.heapreplace(least, (loads[taker], taker))
            continue
        if loads[giver] < loads[taker] + 2:
            break
        group.held[taker].append(group.held[giver].pop())
        loads[giver] -= 1
        loads[taker] += 1
        heapq.heapreplace(most, (-loads[giver], giver))
        heapq.heappush(most, (-loads[taker], taker))
        heapq.heapreplace(least, (loads[taker], taker))
        heapq.heappush(least, (loads[giver], giver))
        moved = True
    return moved


def _heap(entries: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    heap = list(entries)
    heapq.heapify(heap)
    return heap
