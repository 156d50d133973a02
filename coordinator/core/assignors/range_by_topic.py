"""This room assigns each topic in ranges over the sorted threads of its subscribers (000 chapter 9)."""

from coordinator.core.assignors.interface import Question, Shares, partitions_of


def assign(question: Question) -> Shares:
    """Every thread gets its range of each topic; the first ones get one more where it does not divide."""
    shares: Shares = {member: [] for member in sorted(question.members)}
    for name in sorted(question.topics):
        threads = [
            member for member in question.subscribers(name) for _ in range(question.members[member][name])
        ]
        if not threads:
            continue
        partitions = partitions_of(question.topics[name])
        least, more = divmod(len(partitions), len(threads))
        start = 0
        for index, member in enumerate(threads):
            end = start + least + (index < more)
            shares[member].extend(partitions[start:end])
            start = end
    return shares
