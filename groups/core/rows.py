"""This room changes the rows of a group, by records and by nothing else."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import structs

from groups.core import records
from groups.core.classic import CLASSIC, ClassicMember, ClassicRows
from groups.core.layered import Layered
from groups.core.phases import Phase
from groups.core.records import GroupRecord
from groups.core.state import NATIVE, GroupRows, Member, OffsetNote, Quarantine, Tenure
from muster.kernel.invariants import invariant
from muster.messages.partitions import Partition, each_partition, each_position

_NOTHING: Mapping[Partition, Tenure] = {}


class RowsBuilder:
    """The rows while one turn changes them: copies a mapping when it is first touched, and freezes once.

    So a turn costs what it changes, however large the group is. `changed` is false while no record changed
    anything of the group: the answer to a request may be all that a turn writes. `assigned_change` is by how
    much the number of rows that are assigned and not running has changed.
    """

    def __init__(self, rows: GroupRows) -> None:
        self.before = rows
        self.generation = rows.generation
        self.phase = rows.phase
        self.error = rows.error
        self.ephemeral = rows.ephemeral
        self.handler_asked = rows.handler_asked
        self.assignor = rows.assignor
        self.rebalance_mode = rows.rebalance_mode
        self.copies = rows.copies
        self.changed = False
        self.members: Mapping[str, Member] = rows.members
        self.owned: Mapping[str, Mapping[Partition, Tenure]] = rows.owned
        self.standbys: Mapping[str, frozenset[Partition]] = rows.standbys
        self.offsets: Mapping[Partition, int] = rows.offsets
        self.offset_notes: Mapping[Partition, OffsetNote] = rows.offset_notes
        self.quarantined: Mapping[str, Quarantine] = rows.quarantined
        self.protocol = rows.protocol
        self.assigned_change = 0
        self._my_members: dict[str, Member] | None = None
        self._my_owned: dict[str, Mapping[Partition, Tenure]] | None = None
        self._my_offsets: Layered[Partition, int] | None = None
        self._my_tenures: dict[str, dict[Partition, Tenure]] = {}
        self._classic: ClassicBuilder | None = None

    @property
    def classic(self) -> "ClassicBuilder":
        """What only classic groups have."""
        if self._classic is None:
            self._classic = ClassicBuilder(self.before.classic or ClassicRows())
        return self._classic

    def owned_by(self, member_id: str) -> Mapping[Partition, Tenure]:
        """All rows that name this member."""
        return self.owned.get(member_id, _NOTHING)

    def apply(self, record: GroupRecord) -> None:
        """Let one record become true."""
        self.changed = self.changed or not isinstance(record, records.RequestDecided)
        match record:
            case records.MemberAdded():
                self._write_members()[record.member_id] = _member_of(record, record.token_hash)
            case records.MemberChanged():
                kept = self.members[record.member_id].token_hash
                self._write_members()[record.member_id] = _member_of(record, kept)
            case records.MemberRemoved():
                if self.protocol == CLASSIC:
                    self.classic.remove(record.member_id)
                else:
                    self._remove_member(record.member_id)
            case records.OffsetsFlushed() | records.OffsetsSet():
                positions = dict(each_position(record.offset_info))
                self._write_offsets().update((one, position.offset) for one, position in positions.items())
                self._drop_notes(positions)
            case records.StrategySet():
                self.assignor, self.rebalance_mode = record.assignor, record.rebalance_mode
                self.copies = record.copies or self.copies
            case records.MemberQuarantined():
                self.quarantined = {
                    **self.quarantined,
                    record.member_id: Quarantine(record.length_ms, record.why),
                }
            case records.QuarantineEnded():
                still = {name: one for name, one in self.quarantined.items() if name != record.member_id}
                self.quarantined = still
            case records.RequestDecided():
                return
            case records.GenerationOpened() | records.GenerationSkipped():
                invariant(record.generation == self.generation + 1, "a generation rises by one")
                self.generation = record.generation
            case records.PartitionsReleased():
                self._release(record)
            case records.PartitionsAssigned():
                self._assign(record)
            case records.PartitionsRunning():
                self._run(record)
            case records.StandbysChanged():
                self._set_standbys(record)
            case records.PhaseEntered():
                self.phase = record.phase
            case records.GroupMarkedEphemeral():
                self.ephemeral = True
            case records.HandlerAsked():
                self.handler_asked = True
            case records.ItemAdopted():
                self.handler_asked = False
            case records.ErrorShown():
                self.error = record.text
            case records.GroupDeleted():
                self._delete()
            case records.OffsetsDeleted():
                offsets, gone = self._write_offsets(), tuple(each_partition(record.partitions))
                for partition in gone:
                    offsets.pop(partition, None)
                self._drop_notes(gone)
            case records.ProtocolEntered():
                self._enter(record.protocol)
            case _:
                self.classic.apply(record)

    def freeze(self) -> GroupRows:
        """The rows after the turn; one version above those before it, if it changed anything."""
        if not self.changed:
            return self.before
        return replace(
            self.before,
            version=self.before.version + 1,
            generation=self.generation,
            phase=self.phase,
            error=self.error,
            ephemeral=self.ephemeral,
            handler_asked=self.handler_asked,
            assignor=self.assignor,
            rebalance_mode=self.rebalance_mode,
            copies=self.copies,
            members=self.members,
            owned=self.owned,
            standbys=self.standbys,
            offsets=self.offsets,
            offset_notes=self.offset_notes,
            quarantined=self.quarantined,
            protocol=self.protocol,
            classic=self.classic.freeze() if self.protocol == CLASSIC else None,
        )

    def _write_members(self) -> dict[str, Member]:
        if self._my_members is None:
            self.members = self._my_members = dict(self.members)
        return self._my_members

    def _write_offsets(self) -> Layered[Partition, int]:
        if self._my_offsets is None:
            self.offsets = self._my_offsets = Layered.fork(self.offsets)
        return self._my_offsets

    def _drop_notes(self, partitions: Iterable[Partition]) -> None:
        """What is written without a note has none, whatever was there."""
        if self.offset_notes:
            kept = Layered.fork(self.offset_notes)
            for partition in partitions:
                kept.pop(partition, None)
            self.offset_notes = kept

    def _write_owned(self) -> dict[str, Mapping[Partition, Tenure]]:
        if self._my_owned is None:
            self.owned = self._my_owned = dict(self.owned)
        return self._my_owned

    def _write_tenures(self, member_id: str) -> dict[Partition, Tenure]:
        tenures = self._my_tenures.get(member_id)
        if tenures is None:
            tenures = self._my_tenures[member_id] = dict(self.owned_by(member_id))
            self._write_owned()[member_id] = tenures
        return tenures

    def _drop_tenures(self, member_id: str) -> None:
        self._write_owned().pop(member_id, None)
        self._my_tenures.pop(member_id, None)

    def _remove_member(self, member_id: str) -> None:
        del self._write_members()[member_id]
        self.assigned_change -= sum(not tenure.running for tenure in self.owned_by(member_id).values())
        self._drop_tenures(member_id)
        if member_id in self.standbys:
            self.standbys = {name: one for name, one in self.standbys.items() if name != member_id}

    def _set_standbys(self, record: records.StandbysChanged) -> None:
        changed = {name: frozenset(each_partition(told)) for name, told in record.standbys.items()}
        self.standbys = {name: one for name, one in {**self.standbys, **changed}.items() if one}

    def _release(self, record: records.PartitionsReleased) -> None:
        tenures = self._write_tenures(record.member_id)
        for partition in each_partition(record.partitions):
            self.assigned_change -= not tenures.pop(partition).running
        if not tenures:
            self._drop_tenures(record.member_id)

    def _assign(self, record: records.PartitionsAssigned) -> None:
        tenures, tenure = self._write_tenures(record.member_id), Tenure(record.generation, running=False)
        if not tenures:
            tenures.update(dict.fromkeys(each_partition(record.partitions), tenure))
            self.assigned_change += len(tenures)
            return
        for partition in each_partition(record.partitions):
            before = tenures.get(partition)
            self.assigned_change += before is None or before.running
            tenures[partition] = tenure

    def _run(self, record: records.PartitionsRunning) -> None:
        tenures = self._write_tenures(record.member_id)
        for partition in each_partition(record.partitions):
            before = tenures[partition]
            self.assigned_change -= not before.running
            tenures[partition] = Tenure(before.since_generation, running=True)

    def _delete(self) -> None:
        invariant(not self.members and not self.classic.members, "only an empty group is deleted")
        self.phase, self.error, self.ephemeral = Phase.EMPTY, "", False
        self.members, self.owned, self.standbys, self.quarantined = {}, {}, {}, {}
        self.offsets, self.offset_notes = {}, {}
        self.protocol, self._classic = NATIVE, ClassicBuilder(ClassicRows())

    def _enter(self, protocol: str) -> None:
        invariant(not self.members and not self.classic.members, "only an empty group changes its world")
        self.protocol, self._classic = protocol, ClassicBuilder(ClassicRows())


ClassicRecord = (
    records.ClassicMemberAdded
    | records.ClassicMemberChanged
    | records.InstanceReplaced
    | records.ProtocolChosen
    | records.ClassicAssigned
)


class ClassicBuilder:
    """What only classic groups have, while one turn changes it."""

    def __init__(self, rows: ClassicRows) -> None:
        self._before = rows
        self.protocol_type = rows.protocol_type
        self.protocol_name = rows.protocol_name
        self.leader = rows.leader
        self.members: Mapping[str, ClassicMember] = rows.members
        self._mine: dict[str, ClassicMember] | None = None

    def apply(self, record: ClassicRecord) -> None:
        """Let one record become true."""
        match record:
            case records.ClassicMemberAdded():
                self._write()[record.member.member_id] = record.member
            case records.ClassicMemberChanged():
                self._put(record.member, self.members[record.member.member_id])
            case records.InstanceReplaced():
                old = self._write().pop(record.old_member_id)
                self._put(record.member, old)
                if self.leader == old.member_id:
                    self.leader = record.member.member_id
            case records.ProtocolChosen():
                self.protocol_type, self.protocol_name = record.protocol_type, record.protocol_name
                self.leader = record.leader
            case records.ClassicAssigned():
                self._assign(record.assignments)

    def remove(self, member_id: str) -> None:
        """A member is gone; nobody leads if it did."""
        del self._write()[member_id]
        if self.leader == member_id:
            self.leader = None

    def freeze(self) -> ClassicRows:
        """The rows after the turn."""
        after = ClassicRows(self.protocol_type, self.protocol_name, self.leader, self.members)
        before = self._before
        same = self._mine is None and after.leader == before.leader
        same = same and after.protocol_name == before.protocol_name
        return before if same and after.protocol_type == before.protocol_type else after

    def _put(self, member: ClassicMember, before: ClassicMember) -> None:
        if before.assignment:
            member = structs.replace(member, assignment=before.assignment)
        self._write()[member.member_id] = member

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        members = self._write()
        for member_id, member in members.items():
            assignment = assignments.get(member_id, b"")
            if assignment != member.assignment:
                members[member_id] = structs.replace(member, assignment=assignment)

    def _write(self) -> dict[str, ClassicMember]:
        if self._mine is None:
            self.members = self._mine = dict(self.members)
        return self._mine


def apply(rows: GroupRows, turn: Iterable[GroupRecord]) -> GroupRows:
    """The rows after one turn that wrote these records, in their order."""
    builder = RowsBuilder(rows)
    for record in turn:
        builder.apply(record)
    return builder.freeze()


def count_assigned(rows: GroupRows) -> int:
    """How many ownership rows are not yet running."""
    return sum(not tenure.running for tenures in rows.owned.values() for tenure in tenures.values())


def _member_of(record: records.MemberAdded | records.MemberChanged, token_hash: str) -> Member:
    return Member(member_id=record.member_id, token_hash=token_hash, **record.by_name())
