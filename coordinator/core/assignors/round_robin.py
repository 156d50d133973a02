"""This room deals the partitions of all topics round the sorted threads of all members."""

from itertools import cycle

from coordinator.core.assignors.interface import Question, Shares, partitions_of


def assign(question: Question) -> Shares:
    """One card after the other; a thread whose member does not read the topic is passed over."""
    shares: Shares = {member: [] for member in sorted(question.members)}
    seats = [member for member in shares for _ in range(max(question.members[member].values(), default=0))]
    read = {name for threads in question.members.values() for name in threads}
    members = question.members
    circle = cycle(seats)
    for name in sorted(question.topics):
        if name not in read:
            continue
        for partition in partitions_of(question.topics[name]):
            member = next(seat for seat in circle if name in members[seat])
            shares[member].append(partition)
    return shares
