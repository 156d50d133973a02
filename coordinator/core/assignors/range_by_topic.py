"""This room assigns each topic in ranges over the sorted threads of its subscribers (000 chapter 9)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from coordinator.core.assignors.interface import Question, Shares, partitions_of


def assign(question: Question) -> Shares:
    """Every thread gets its range of each topic; the first ones get one more where it does not divide."""
    shares: Shares = {member: [] for member in sorted(question.members)}
    more_than_one = _threads_beside_the_first(question)
    for name, readers in question.readers().items():
        if not readers:
            continue
        partitions = partitions_of(question.topics[name])
        number = len(readers) + more_than_one[name]
        least, more = divmod(len(partitions), number)
        start = 0
        threads = _threads(question, name, readers)
        # Of a thousand threads that share twenty partitions the first twenty get one.
        for index, member in enumerate(threads if least else islice(threads, more)):
            end = start + least + (index < more)
            shares[member].extend(partitions[start:end])
            start = end
    return shares


def _threads_beside_the_first(question: Question) -> Counter[str]:
    """How many more threads than members read each topic; nearly every member has one."""
    more: Counter[str] = Counter()
    for threads in question.members.values():
        if max(threads.values(), default=1) > 1:
            for name, number in threads.items():
                more[name] += number - 1
    return more


def _threads(question: Question, name: str, readers: Sequence[str]) -> Iterator[str]:
    for member in readers:
        for _ in range(question.members[member][name]):
            yield member
