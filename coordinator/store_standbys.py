"""This room writes who stands by for which partition: rows of ownership whose copy is not the first.

A member is in one row of a partition only, so what was is deleted before the owners are written, and what is
now follows them.
"""

from collections import defaultdict
from collections.abc import Collection

from coordinator.statements import statement
from groups.core.state import GroupRows
from muster.messages.partitions import Partition
from runtime.arrays import array_of_numbers, array_of_texts
from runtime.postgres import LaneConnection


def touched(before: GroupRows, after: GroupRows) -> Collection[Partition]:
    """The partitions for which others stand by after the turn."""
    if before.standbys is after.standbys:
        return ()
    nothing: frozenset[Partition] = frozenset()
    return frozenset().union(
        *(
            before.standbys.get(member, nothing) ^ after.standbys.get(member, nothing)
            for member in before.standbys.keys() | after.standbys.keys()
        )
    )


def delete(connection: LaneConnection, group: str, partitions: Collection[Partition]) -> None:
    """Nobody stands by for these any more."""
    if partitions:
        values = {
            "group": group,
            "topic_ids": array_of_texts(one.topic_id.hex for one in partitions),
            "partitions": array_of_numbers(one.number for one in partitions),
        }
        connection.execute(statement("delete_standbys"), values)


def insert(connection: LaneConnection, after: GroupRows, partitions: Collection[Partition]) -> None:
    """Who stands by for these now."""
    members: dict[Partition, list[str]] = defaultdict(list)
    for member in sorted(after.standbys):
        for partition in after.standbys[member].intersection(partitions):
            members[partition].append(member)
    rows = [(one, *copy) for one in sorted(members) for copy in enumerate(members[one], start=1)]
    if rows:
        values = {
            "group": after.group_id,
            "generation": after.generation,
            "topic_names": [one.topic for one, _, _ in rows],
            "topic_ids": array_of_texts(one.topic_id.hex for one, _, _ in rows),
            "partitions": array_of_numbers(one.number for one, _, _ in rows),
            "copies": array_of_numbers(copy for _, copy, _ in rows),
            "members": [member for _, _, member in rows],
        }
        connection.execute(statement("insert_standbys"), values)
