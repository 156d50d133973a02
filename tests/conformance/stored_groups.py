"""This room keeps groups in either database, turn by turn, as a lane would."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from coordinator.store import GroupStore
from groups.core.records import GroupRecord
from groups.core.rows import apply
from groups.core.state import GroupRows, OffsetNote
from muster.kernel.shards import shard_of
from muster.messages.partitions import Partition
from runtime.database import Link
from runtime.work_table import WorkRow

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(tuple[GroupRecord, ...]).decode


class Store(Protocol):
    """What a lane's subject writes with."""

    def load(self, connection: Any, key: str) -> GroupRows: ...

    def load_shard(self, connection: Any, shard: int) -> Mapping[str, GroupRows | None]: ...

    def save(self, connection: Any, key: str, before: GroupRows, records: Sequence[GroupRecord]) -> None: ...

    def write_offsets(self, connection: Any, offsets: Any) -> None: ...


class Group:
    """One group: the owner's rows, those that its journal folds to, and those that are stored."""

    def __init__(self, link: Link, store: Store | None, name: str = "departures") -> None:
        self.link = link
        self.store = store or GroupStore("node-1")
        self.name = name
        self.rows = self.stored()
        self.folded = self.rows

    def stored(self) -> GroupRows:
        """What a single load brings."""
        return self.link.transaction(lambda connection: self.store.load(connection, self.name))

    def stored_in_bulk(self) -> GroupRows | None:
        """What a new owner of the shard reads."""
        shard = shard_of(self.name)
        return self.link.transaction(lambda connection: self.store.load_shard(connection, shard)).get(
            self.name
        )

    def write(self, before: GroupRows, *turn: GroupRecord) -> None:
        """One transaction of a turn that was decided on `before`."""
        self.link.transaction(lambda connection: self.store.save(connection, self.name, before, turn))

    def take(self, *turn: GroupRecord) -> GroupRows:
        """One turn: written, folded, and folded again from what the journal keeps of it."""
        self.write(self.rows, *turn)
        self.rows = apply(self.rows, turn)
        self.folded = apply(self.folded, _decode(_encode(turn)))
        return self.rows

    def commit(self, positions: Mapping[Partition, int], notes: Mapping[Partition, OffsetNote]) -> None:
        """One batch of this group's commits: written, and known to the owner; no journal tells of it."""
        stored = {(self.name, one): offset for one, offset in positions.items()}
        noted = {(self.name, one): (positions[one], note) for one, note in notes.items()}
        self.link.transaction(lambda connection: self.store.write_offsets(connection, {**stored, **noted}))
        kept = {one: note for one, note in self.rows.offset_notes.items() if one not in positions}
        for rows in ("rows", "folded"):
            before: GroupRows = getattr(self, rows)
            after = replace(before, offsets={**before.offsets, **positions}, offset_notes={**kept, **notes})
            setattr(self, rows, after)

    def ask(self, request: WorkRow) -> None:
        """Store a request that its owner is to answer."""

        def store(connection: Any) -> None:
            work = connection.work_table
            work.insert(request)
            claimed = work.claim(request.id, "tests")
            work.finish(request.id, claimed.claim_epoch, None, "")

        self.link.transaction(store)
