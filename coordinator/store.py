"""This room writes the rows of consumer groups, and is the only one that does.

`save` is one turn of one group, conditional on the version that was decided on; `write_offsets` is a batch
of commits that takes no turn. Both run inside a transaction that the lane has fenced with its lease.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import psycopg

from coordinator import store_classic, store_offsets, store_outlived, store_standbys
from coordinator.core.waiting import Waiting
from coordinator.statements import statement
from coordinator.store_offsets import GroupOffsets
from groups.core.classic import CLASSIC, ClassicRows
from groups.core.phases import Phase
from groups.core.records import (
    GroupDeleted,
    GroupRecord,
    HandlerAsked,
    ItemAdopted,
    MemberAdded,
    MemberChanged,
    MemberQuarantined,
    MemberRemoved,
    OffsetsDeleted,
    OffsetsFlushed,
    OffsetsSet,
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsRunning,
    QuarantineEnded,
    RequestDecided,
)
from groups.core.rows import apply
from groups.core.state import NATIVE, NO_NOTE, GroupRows, Member, OffsetNote, Quarantine, Tenure
from muster.kernel.shards import shard_of
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition, each_partition, each_position
from runtime import cluster, requests, work
from runtime.arrays import array_of_numbers, array_of_texts
from runtime.ports import VersionConflict
from runtime.postgres import LaneConnection
from runtime.succession import Lifted

logger = logging.getLogger("muster.coordinator")

REBALANCE = "rebalance"
"""The kind of work item that a rebalance handler claims; its key is the group's name."""

_PLAIN = list(NO_NOTE)
_NOT_CLASSIC = ClassicRows()
_subscription_encoder = msgspec.json.Encoder()
_subscription_decoder = msgspec.json.Decoder(tuple[TopicCount, ...])


HALVES_MAX = 256
"""How often a reading of several groups that fails is divided: enough for some twenty damaged groups among
thousands. Where more are, groups beside them may be left out: each is loaded by a turn of its own then.
"""

_DAMAGE = (
    psycopg.DataError,
    psycopg.NotSupportedError,
    ValueError,
    TypeError,
    LookupError,
    msgspec.MsgspecError,
)
"""What rows raise that this program would not write; a statement that fails is a mistake of another kind."""


class Unreadable(Exception):
    """Rows of a group that this program would not write: another program's, or somebody's hand."""


class GroupColumns(NamedTuple):
    """A row of `consumer_group`, in the order of `load_groups`."""

    name: str
    generation: int
    version: int
    phase: str
    error: str
    ephemeral: bool
    rebalance_mode: str
    assignor: str
    copies: int
    protocol: str
    protocol_type: str
    protocol_name: str | None
    leader: str | None


class _Tables:
    """Everything that is stored of some groups, one statement a table, whatever they speak."""

    def __init__(self, connection: LaneConnection, groups: Sequence[GroupColumns]) -> None:
        self.groups = groups
        self._members: dict[str, list[Any]] = defaultdict(list)
        self._owned: dict[str, dict[str, dict[Partition, Tenure]]] = defaultdict(lambda: defaultdict(dict))
        self._standbys: dict[str, dict[str, set[Partition]]] = defaultdict(lambda: defaultdict(set))
        self._offsets: dict[str, dict[Partition, int]] = defaultdict(dict)
        self._notes: dict[str, dict[Partition, OffsetNote]] = defaultdict(dict)
        native = {"groups": [one.name for one in groups if one.protocol == NATIVE]}
        if native["groups"]:
            for name, *row in connection.execute(statement("load_members"), native):
                self._members[name].append(row)
            for name, owner, copy, topic, topic_id, number, since, running in connection.execute(
                statement("load_ownership"), native
            ):
                if copy:
                    self._standbys[name][owner].add(Partition(topic, topic_id, number))
                else:
                    self._owned[name][owner][Partition(topic, topic_id, number)] = Tenure(since, running)
        classic = [one.name for one in groups if one.protocol == CLASSIC]
        self._classic_members = store_classic.load(connection, classic) if classic else {}
        names = [one.name for one in groups]
        self._quarantined: dict[str, dict[str, Quarantine]] = defaultdict(dict)
        if names:
            for name, *row in connection.execute(statement("load_quarantines"), {"groups": names}):
                self._quarantined[name][row[0]] = Quarantine(*row[1:])
        self._asked = work.open_keys(connection, REBALANCE, names) if names else set()
        if names:
            offsets = connection.execute(statement("load_offsets"), {"groups": names})
            for name, topic, topic_id, number, offset, *note in offsets:
                partition = Partition(topic, topic_id, number)
                self._offsets[name][partition] = offset
                if note != _PLAIN:
                    self._notes[name][partition] = OffsetNote(*note)

    def rows(self, group: GroupColumns) -> GroupRows:
        """One group. Raises ValueError or MsgspecError for what this program does not write."""
        name, classic = group.name, None
        if group.protocol == CLASSIC:
            members = self._classic_members.get(name, {})
            classic = ClassicRows(group.protocol_type, group.protocol_name, group.leader, members)
        elif group.protocol != NATIVE:
            raise ValueError(f"nobody speaks the protocol {group.protocol}")
        return GroupRows(
            group_id=name,
            generation=group.generation,
            version=group.version,
            phase=Phase(group.phase),
            error=group.error,
            ephemeral=group.ephemeral,
            protocol=group.protocol,
            rebalance_mode=group.rebalance_mode,
            assignor=group.assignor,
            copies=group.copies,
            handler_asked=name in self._asked,
            members=self._native_members(name),
            owned={owner: dict(rows) for owner, rows in self._owned[name].items()},
            standbys={member: frozenset(mine) for member, mine in self._standbys[name].items()},
            offsets=self._offsets[name],
            offset_notes=self._notes[name],
            classic=classic,
            quarantined=self._quarantined[name],
        )

    def _native_members(self, group: str) -> dict[str, Member]:
        """Those who subscribe alike share one list. Raises msgspec.DecodeError for one that is none."""
        rows = self._members[group]
        lists = {row[0]: _subscription_decoder.decode(row[3]) for row in rows if row[3] is not None}
        return {row[0]: _member(row, lists) for row in rows}


class GroupStore:
    """Loads and saves groups on psycopg connections; `node` is written beside members for people."""

    def __init__(self, node: str = "") -> None:
        self._node = node

    def load(self, connection: LaneConnection, key: str) -> GroupRows:
        """One group; a group without a row has version 0 and starts at the cluster's epoch floor.

        Raises Unreadable if its rows are not what this program writes.
        """
        groups, unreadable = self._load(connection, shard_of(key), key)
        if key in unreadable:
            raise Unreadable(f"the rows of group {key} cannot be read") from unreadable[key]
        return groups.get(key) or GroupRows(group_id=key, generation=cluster.read(connection).epoch_floor)

    def load_shard(self, connection: LaneConnection, shard: int) -> Mapping[str, GroupRows | None]:
        """All groups of a shard by name: what an owner reads when it takes the shard.

        None for a group that cannot be read: whoever asks for it is refused, and the others are served.
        """
        groups, unreadable = self._load(connection, shard, None)
        for name, problem in unreadable.items():
            logger.error("the rows of group %s cannot be read", name, exc_info=problem)
        return {**groups, **dict.fromkeys(unreadable)}

    def outlived(
        self, connection: LaneConnection, shard: int, retention_minutes: int
    ) -> store_outlived.Outlived:
        """What the groups of a shard may have committed for nothing, by now."""
        return store_outlived.find(connection, shard, retention_minutes)

    def _load(
        self, connection: LaneConnection, shard: int, group: str | None
    ) -> tuple[dict[str, GroupRows], dict[str, Exception]]:
        found = connection.execute(statement("load_groups"), {"shard": shard, "group": group}).fetchall()
        groups: dict[str, GroupRows] = {}
        unreadable: dict[str, Exception] = {}
        tries_left = HALVES_MAX
        waiting = [[GroupColumns(*row) for row in found]]
        while waiting:
            some = waiting.pop()
            try:
                rows_of = _Tables(connection, some)
            except _DAMAGE as problem:
                # A row that the driver cannot read hides those of all groups that are read with it.
                middle = len(some) // 2
                if middle and tries_left > 0:
                    tries_left -= 1
                    waiting += (some[middle:], some[:middle])
                else:
                    unreadable.update((one.name, problem) for one in some)
                continue
            for columns in some:
                try:
                    groups[columns.name] = rows_of.rows(columns)
                except _DAMAGE as problem:
                    unreadable[columns.name] = problem
        return groups, unreadable

    def save(
        self, connection: LaneConnection, key: str, before: GroupRows, records: Sequence[GroupRecord]
    ) -> None:
        """Write one turn of the group. Raises VersionConflict if its row is not as it was decided on."""
        after = apply(before, records)
        if after.version != before.version:
            self._save_group(connection, before, after)
        touched_members = {
            record.member_id
            for record in records
            if isinstance(record, MemberAdded | MemberChanged)
            or (isinstance(record, MemberRemoved) and record.member_id in before.members)
        }
        self._save_members(connection, after, touched_members)
        store_classic.save(connection, key, before.classic, after.classic, self._node)
        others_stand_by = store_standbys.touched(before, after)
        store_standbys.delete(connection, key, others_stand_by)
        self._save_ownership(connection, before, after, records)
        store_standbys.insert(connection, after, others_stand_by)
        # Last, because the rows that name a member go before it does only by the deferred foreign key.
        flushed = {
            (key, partition): position.offset
            for record in records
            if isinstance(record, OffsetsFlushed | OffsetsSet)
            for partition, position in each_position(record.offset_info)
        }
        self.write_offsets(connection, flushed)
        self._delete_offsets(connection, after, records)
        self._save_quarantines(connection, after, records)
        for record in records:
            if isinstance(record, HandlerAsked):
                work.offer(connection, REBALANCE, key, after.version, {"cause": record.cause})
            elif isinstance(record, ItemAdopted):
                work.adopt(connection, record.item_id)
            elif isinstance(record, RequestDecided):
                requests.conclude(connection, record.request_id, record.answer)
            elif isinstance(record, GroupDeleted):
                # What is known of its offsets' rows is known of those before.
                self._delete_groups(connection, [replace(after, offsets=before.offsets)])

    def save_all(
        self, connection: LaneConnection, turns: Sequence[tuple[str, GroupRows, Sequence[GroupRecord]]]
    ) -> None:
        """Write turns of several groups, in the order of their names: of those that only end, all together.

        Raises VersionConflict if one is not as it was decided on.
        """
        ending: list[GroupRows] = []
        for key, before, records in sorted(turns, key=itemgetter(0)):
            if before.version and not before.owned and all(type(one) is GroupDeleted for one in records):
                ending.append(before)
            else:
                self.save(connection, key, before, records)
        if ending and self._delete_groups(connection, ending) != len(ending):
            raise VersionConflict(f"one of {len(ending)} groups is not at the version that was decided on")

    def _save_group(self, connection: LaneConnection, before: GroupRows, after: GroupRows) -> None:
        classic = after.classic or _NOT_CLASSIC
        values = {
            "group": after.group_id,
            "shard": shard_of(after.group_id),
            "protocol": after.protocol,
            "protocol_type": classic.protocol_type,
            "protocol_name": classic.protocol_name,
            "leader": classic.leader,
            "phase": after.phase.value,
            "generation": after.generation,
            "version": after.version,
            "version_before": before.version,
            "rebalance_mode": after.rebalance_mode,
            "assignor": after.assignor,
            "copies": after.copies,
            "error": after.error,
            "ephemeral": after.ephemeral,
        }
        name = "update_group" if before.version else "insert_group"
        if connection.execute(statement(name), values).fetchone() is None:
            raise VersionConflict(f"group {after.group_id} is not at version {before.version}")

    def _save_members(self, connection: LaneConnection, after: GroupRows, touched: set[str]) -> None:
        kept = [after.members[member_id] for member_id in sorted(touched) if member_id in after.members]
        if kept:
            # Thousands of members may subscribe to the same thousand topics: each list is sent and read once.
            places: dict[str, int] = {}
            which = [
                places.setdefault(_subscription_encoder.encode(member.topic_count).decode(), len(places) + 1)
                for member in kept
            ]
            connection.execute(
                statement("upsert_members"),
                {
                    "group": after.group_id,
                    "node": self._node,
                    "member_ids": array_of_texts(member.member_id for member in kept),
                    "token_hashes": array_of_texts(member.token_hash for member in kept),
                    "subscriptions": array_of_texts(places),
                    "places": array_of_numbers(which),
                    "session_timeouts_ms": array_of_numbers(member.session_timeout_ms for member in kept),
                    "auto_commits": array_of_numbers(int(member.auto_commit) for member in kept),
                    "auto_offset_resets": array_of_texts(member.auto_offset_reset for member in kept),
                    "client_ids": array_of_texts(member.client_id for member in kept),
                    "client_hosts": array_of_texts(member.client_host for member in kept),
                    "racks": array_of_texts(member.rack for member in kept),
                    "stand_by": array_of_numbers(int(member.stands_by) for member in kept),
                },
            )
        gone = sorted(touched - after.members.keys())
        if gone:
            connection.execute(
                statement("delete_members"), {"group": after.group_id, "member_ids": array_of_texts(gone)}
            )

    def _save_ownership(
        self,
        connection: LaneConnection,
        before: GroupRows,
        after: GroupRows,
        records: Sequence[GroupRecord],
    ) -> None:
        touched = _touched_partitions(before, records)
        if not touched:
            return
        kept = [
            (partition, owner, tenure)
            for owner, rows in after.owned.items()
            for partition, tenure in rows.items()
            if partition in touched
        ]
        freed = sorted(touched.difference(partition for partition, _, _ in kept))
        if freed:
            connection.execute(
                statement("delete_ownership"),
                {
                    "group": after.group_id,
                    "topic_ids": array_of_texts(partition.topic_id.hex for partition in freed),
                    "partitions": array_of_numbers(partition.number for partition in freed),
                },
            )
        if kept:
            connection.execute(
                statement("upsert_ownership"),
                {
                    "group": after.group_id,
                    "topic_names": array_of_texts(partition.topic for partition, _, _ in kept),
                    "topic_ids": array_of_texts(partition.topic_id.hex for partition, _, _ in kept),
                    "partitions": array_of_numbers(partition.number for partition, _, _ in kept),
                    "owners": array_of_texts(owner for _, owner, _ in kept),
                    "since_generations": array_of_numbers(tenure.since_generation for _, _, tenure in kept),
                    "states": array_of_texts(
                        "running" if tenure.running else "assigned" for _, _, tenure in kept
                    ),
                },
            )

    def write_offsets(self, connection: LaneConnection, offsets: GroupOffsets) -> None:
        """Commit `offsets` of any groups: a batch is no more (store_offsets.write)."""
        store_offsets.write(connection, offsets)

    def write_waiting(self, connection: LaneConnection, rows: Mapping[str, tuple[Waiting, int]]) -> None:
        """Note for whom groups wait, and for how many ms at most (−1: nobody knows), in one statement."""
        told = sorted(rows.items())
        values = {
            "groups": array_of_texts(key for key, _ in told),
            "phases": array_of_texts(one.phase.value for _, (one, _) in told),
            "names": array_of_texts(msgspec.json.encode(one.names).decode() for _, (one, _) in told),
            "missing": array_of_numbers(one.missing for _, (one, _) in told),
            "arrived": array_of_numbers(one.arrived for _, (one, _) in told),
            "ends_in_ms": array_of_numbers(ends_in_ms for _, (_, ends_in_ms) in told),
        }
        connection.execute(statement("upsert_waiting"), values)

    def _save_quarantines(
        self, connection: LaneConnection, after: GroupRows, records: Sequence[GroupRecord]
    ) -> None:
        touched = {
            record.member_id for record in records if isinstance(record, MemberQuarantined | QuarantineEnded)
        }
        for name in sorted(touched):
            # One at a time: a person asked for each.
            values: dict[str, Any] = {"group": after.group_id, "member_id": name}
            if (kept := after.quarantined.get(name)) is None:
                connection.execute(statement("delete_quarantine"), values)
            else:
                connection.execute(statement("upsert_quarantine"), values | kept._asdict())

    def _delete_offsets(
        self, connection: LaneConnection, after: GroupRows, records: Sequence[GroupRecord]
    ) -> None:
        gone = sorted(
            {
                partition
                for record in records
                if isinstance(record, OffsetsDeleted)
                for partition in each_partition(record.partitions)
                if partition not in after.offsets
            }
        )
        if gone:
            connection.execute(
                statement("delete_offsets"),
                {
                    "group": after.group_id,
                    "topic_ids": array_of_texts(partition.topic_id.hex for partition in gone),
                    "partitions": array_of_numbers(partition.number for partition in gone),
                },
            )
            store_offsets.forget(connection, after.group_id, gone)

    def _delete_groups(self, connection: LaneConnection, gone: Sequence[GroupRows]) -> int:
        """How many of these there were, in the version in which they are given."""
        values = {
            "groups": array_of_texts(one.group_id for one in gone),
            "versions": array_of_numbers(one.version for one in gone),
        }
        for table in ("delete_every_offset", "delete_every_quarantine", "delete_waiting"):
            connection.execute(statement(table), values)
        deleted = connection.execute(statement("delete_groups"), values).rowcount
        for one in gone:
            store_offsets.forget(connection, one.group_id, one.offsets)
        # Its members compare keys with the last they obeyed: a group under the same name starts above them.
        cluster.raise_epoch_floor(connection, max(one.generation for one in gone) + 1)
        # A result that came later would be adopted by a group that does not exist.
        work.withdraw(connection, REBALANCE, *(one.group_id for one in gone))
        return deleted


def lift(connection: LaneConnection, by: int, metadata_version: int) -> Lifted:
    """Let every group's generation go on so much higher (runtime.succession)."""
    return Lifted(connection.execute(statement("lift_generations"), {"by": by}).rowcount)


def _touched_partitions(before: GroupRows, records: Iterable[GroupRecord]) -> set[Partition]:
    touched: set[Partition] = set()
    for record in records:
        if isinstance(record, PartitionsReleased | PartitionsAssigned | PartitionsRunning):
            touched.update(each_partition(record.partitions))
        elif isinstance(record, MemberRemoved):
            touched.update(before.owned.get(record.member_id, ()))
    return touched


def _member(row: Sequence[Any], lists: Mapping[str, tuple[TopicCount, ...]]) -> Member:
    """`lists` by the id of the member whose row has it."""
    member_id, token_hash, alike, _, session_timeout_ms, auto_commit, reset, client_id, *place = row
    client_host, rack, stands_by = place
    return Member(
        member_id=member_id,
        token_hash=token_hash,
        topic_count=lists[alike],
        session_timeout_ms=session_timeout_ms,
        auto_commit=auto_commit,
        auto_offset_reset=reset,
        client_id=client_id,
        client_host=client_host,
        rack=rack,
        stands_by=stands_by,
    )
