"""This room gives partitions of one number to one member, over all topics that are made alike: for joins.

Topics that the same members read and that have equally many partitions are one family. Of each family one
topic stands for all; these are assigned as the sticky assignor does, and the others follow.
"""

from coordinator.core.assignors import sticky
from coordinator.core.assignors.interface import Question, Shares
from muster.messages.partitions import Partition


def assign(question: Question) -> Shares:
    """Whoever gets partition n of a topic gets n of every topic of its family."""
    families = _families(question)
    owner_of: dict[Partition, str] = {}
    for first, family in families.items():
        for name in reversed(family):
            # Where they have different owners, the first topic's stays.
            layout = question.topics[name]
            for number in range(layout.partition_count):
                owner = question.owner_of.get(Partition(layout.name, layout.topic_id, number))
                if owner is not None:
                    head = question.topics[first]
                    owner_of[Partition(head.name, head.topic_id, number)] = owner
    standing = Question(question.members, {name: question.topics[name] for name in families}, owner_of)
    shares = sticky.assign(standing)
    return {
        member: sorted(
            Partition(question.topics[name].name, question.topics[name].topic_id, partition.number)
            for partition in partitions
            for name in families[partition.topic]
        )
        for member, partitions in shares.items()
    }


def _families(question: Question) -> dict[str, list[str]]:
    """The topics of each family by their first, in the order of names; who is read by nobody has none."""
    firsts: dict[tuple[int, tuple[str, ...]], str] = {}
    families: dict[str, list[str]] = {}
    for name, readers in question.readers().items():
        if readers:
            kind = (question.topics[name].partition_count, tuple(readers))
            families.setdefault(firsts.setdefault(kind, name), []).append(name)
    return families
