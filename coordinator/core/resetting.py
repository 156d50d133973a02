"""This room says where committed offsets go when an operator sets them, and what of that has to be said.

An offset that no record has, nor will have next, is moved to the nearer end of the log: a consumer would find
it out of range and go where its own configuration says.
"""

from collections.abc import Iterable, Mapping

from groups.core.requests import Found, OffsetChange, ResetOffsets, UndoReset
from muster.messages.partitions import Partition

NOTHING = -1
"""Stands for no committed offset."""


def changes_of(
    wish: ResetOffsets, found: Iterable[Found], committed: Mapping[Partition, int]
) -> tuple[OffsetChange, ...]:
    """Every partition that was asked for, by topic and number; also those that stay where they are."""
    changes = []
    for one in sorted(found, key=lambda one: (one.topic, one.partition)):
        before = committed.get(Partition(one.topic, one.topic_id, one.partition), NOTHING)
        wanted, note = _wanted(wish, one, before)
        after = wanted
        if wanted != NOTHING:
            after = min(max(wanted, one.earliest), one.latest)
            if after != wanted:
                note = f"{wanted} is outside of the log, which holds {one.earliest} to {one.latest}"
        elif before != NOTHING:
            after = before
        changes.append(OffsetChange(one.topic, one.topic_id, one.partition, before, after, note))
    return tuple(changes)


def _wanted(wish: ResetOffsets, one: Found, before: int) -> tuple[int, str]:
    """The offset as it was asked for, NOTHING to leave it; and what is to be said about it."""
    match wish.to:
        case "earliest":
            return one.earliest, ""
        case "latest":
            return one.latest, ""
        case "time":
            return (one.other, "") if one.other >= 0 else (one.latest, "no record is so late: the end")
        case "offset":
            return wish.value, ""
        case "shift":
            if before == NOTHING:
                return NOTHING, "nothing is committed, so there is nothing to shift"
            return max(0, before + wish.value), ""
        case _:
            return (one.other, "") if one.other >= 0 else (NOTHING, f"{wish.source} committed nothing here")


def undone(wish: UndoReset, committed: Mapping[Partition, int]) -> tuple[tuple[OffsetChange, ...], list[str]]:
    """The changes that take a reset back, and the partitions where something else is committed by now."""
    back, moved = [], []
    for one in wish.changes:
        now = committed.get(Partition(one.topic, one.topic_id, one.partition), NOTHING)
        if now != one.after:
            moved.append(f"{one.topic}-{one.partition}")
        back.append(OffsetChange(one.topic, one.topic_id, one.partition, now, one.before))
    return tuple(back), moved
