"""This room writes committed offsets: of rows that it has met on this connection by their ids, else by key.

An id names one row for as long as its server lives, and whoever deletes a row ends what is written by its
id: the database counts what it found, and where one is missing all are written by their keys. A connection
ends before another server takes over, which may give an id again, and with it ends what is known here.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from coordinator.statements import statement
from groups.core.state import NO_NOTE, OffsetNote
from muster.messages.partitions import Partition
from runtime.arrays import array_of_numbers, array_of_texts
from runtime.postgres import LaneConnection

StoredOffset = int | tuple[int, OffsetNote]
"""An offset to commit, the next one to read; a Kafka client's comes with its note."""

GroupOffsets = Mapping[tuple[str, Partition], StoredOffset]
"""Offsets to commit, by group and partition."""

NEVER = -1
"""Stands in a statement for an offset without a time at which it expires."""

KNOWN_MAX = 200_000
"""Rows whose ids one connection keeps, of some 150 bytes each; then it begins anew."""


def write(connection: LaneConnection, offsets: GroupOffsets) -> None:
    """Commit `offsets` of any groups in one statement, sorted, so that two batches never wait in a circle.

    Where one has a note all are written with theirs.
    """
    if not offsets:
        return
    noted = not all(isinstance(offset, int) for offset in offsets.values())
    known: dict[tuple[str, Partition], int] = connection.row_ids
    ids = list(map(known.get, offsets))
    if None not in ids:
        if _update(connection, ids, offsets.values(), noted):
            return
        for key in offsets:
            known.pop(key, None)
    _upsert(connection, offsets, noted)


def forget(connection: LaneConnection, group: str, partitions: Iterable[Partition]) -> None:
    """Their rows are deleted: who makes groups and deletes them would fill what is known with them."""
    for partition in partitions:
        connection.row_ids.pop((group, partition), None)


def _update(
    connection: LaneConnection, ids: Sequence[int | None], offsets: Iterable[StoredOffset], noted: bool
) -> bool:
    """False if a row is not there any more; then all must be written again."""
    if noted:
        rows = sorted(
            [(number, *_with_note(offset)) for number, offset in zip(ids, offsets, strict=True)],
            key=itemgetter(0),
        )
        numbers, values, *notes = zip(*rows, strict=True)
        name, columns = "update_noted_offsets", _note_columns(*notes)
    else:
        numbers, values = zip(*sorted(zip(ids, offsets, strict=True)), strict=True)
        name, columns = "update_offsets", {}
    columns |= {"ids": array_of_numbers(numbers), "offsets": array_of_numbers(values)}
    return connection.changed(statement(name), columns) == len(ids)


def _upsert(connection: LaneConnection, offsets: GroupOffsets, noted: bool) -> None:
    # Compared as they are spelled, for ids compare by Python's own means; the first three are unique.
    rows = sorted(
        [
            (group, partition.topic_id.hex, partition.number, partition.topic, *_with_note(offset))
            for (group, partition), offset in offsets.items()
        ],
        key=itemgetter(0, 1, 2),
    )
    groups, topic_ids, partitions, topic_names, values, *notes = zip(*rows, strict=True)
    columns = {
        "groups": array_of_texts(groups),
        "topic_names": array_of_texts(topic_names),
        "topic_ids": array_of_texts(topic_ids),
        "partitions": array_of_numbers(partitions),
        "offsets": array_of_numbers(values),
    }
    name = "upsert_offsets"
    if noted:
        name, columns = "upsert_noted_offsets", columns | _note_columns(*notes)
    written = connection.returned(statement(name), columns)
    known: dict[Any, int] = connection.row_ids
    if len(known) + len(rows) > KNOWN_MAX:
        known.clear()
    keys = {(group, partition.topic_id, partition.number): (group, partition) for group, partition in offsets}
    for number, *key in written:
        known[keys[tuple(key)]] = number


def _with_note(offset: StoredOffset) -> tuple[Any, ...]:
    """The offset and what is committed beside it."""
    return (offset, *NO_NOTE) if isinstance(offset, int) else (offset[0], *offset[1])


def _note_columns(
    leader_epochs: Sequence[int], metadata: Sequence[str], expirations: Sequence[int | None]
) -> dict[str, str]:
    return {
        "leader_epochs": array_of_numbers(leader_epochs),
        "metadata": array_of_texts(metadata),
        "expirations": array_of_numbers(NEVER if one is None else one for one in expirations),
    }
