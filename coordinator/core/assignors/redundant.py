"""This room gives each partition an owner and standbys, so that several members read it (001, redundant).

The owner alone owns and commits; a standby reads along and takes over what it knows already. Owners are the
sticky assignor's, except that who gets a partition anew is one of its standbys, where the shares allow it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.core.assignors import sticky
from coordinator.core.assignors.interface import Question, Shares
from muster.messages.partitions import Partition


def assign(question: Question) -> Shares:
    """Everybody owns as many as by the sticky assignor, and the same but for what changes hands."""
    shares = sticky.assign(question)
    if not question.standbys:
        return shares
    heirs = _by_partition(question.standbys)
    owned = {member: dict.fromkeys(partitions) for member, partitions in shares.items()}
    for readers, changing in _changing_hands(question, shares).items():
        _bequeath(readers, changing, heirs, owned)
    return {member: sorted(partitions) for member, partitions in owned.items()}


def stand_by(question: Question, shares: Shares) -> Shares:
    """Who stands by for what: so many members for each partition, beside its owner, as can be had.

    Standbys stay where they are as long as nobody has two partitions less, owned and stood by for, and could
    have the copy.
    """
    owner_of = {one: member for member, partitions in shares.items() for one in partitions}
    wanted, before = question.copies - 1, _by_partition(question.standbys)
    room = _Room(question, shares)
    for one in sorted(owner_of):
        able = room.able(one.topic)
        present = [member for member in before.get(one, ()) if member in able and member != owner_of[one]]
        for member in sorted(present, key=lambda member: (room.load(member), member))[:wanted]:
            room.add(member, one)
    for one in sorted(owner_of):
        able = room.able(one.topic)
        while room.copies(one) < wanted and (found := room.least(able, one, owner_of[one])) is not None:
            room.add(found, one)
    _even_out(room, owner_of)
    return {member: sorted(mine) for member, mine in room.held.items() if mine}


def _by_partition(standbys: Mapping[str, Collection[Partition]]) -> dict[Partition, list[str]]:
    found: dict[Partition, list[str]] = {}
    for member in sorted(standbys):
        for partition in standbys[member]:
            found.setdefault(partition, []).append(member)
    return found


def _changing_hands(question: Question, shares: Shares) -> dict[tuple[str, ...], list[tuple[Partition, str]]]:
    """What comes to a new owner, and to whom, by the members that may have it."""
    readers = {name: tuple(found) for name, found in question.readers().items()}
    found: dict[tuple[str, ...], list[tuple[Partition, str]]] = {}
    for member, partitions in shares.items():
        for partition in partitions:
            if question.owner_of.get(partition) != member:
                found.setdefault(readers[partition.topic], []).append((partition, member))
    return found


def _bequeath(
    readers: Sequence[str],
    changing: Sequence[tuple[Partition, str]],
    heirs: Mapping[Partition, Sequence[str]],
    owned: Mapping[str, dict[Partition, None]],
) -> None:
    """Deal what changes hands again, to as many from each member, but to standbys first."""
    places: dict[str, int] = dict.fromkeys(readers, 0)
    for partition, member in changing:
        places[member] += 1
        del owned[member][partition]
    left: list[Partition] = []
    for partition, _ in sorted(changing):
        able = [member for member in heirs.get(partition, ()) if places.get(member)]
        if not able:
            left.append(partition)
            continue
        heir = max(able, key=lambda member: places[member])
        places[heir] -= 1
        owned[heir][partition] = None
    rest = (member for member in sorted(places) for _ in range(places[member]))
    for partition, member in zip(left, rest, strict=True):
        owned[member][partition] = None


@dataclass(slots=True)
class _Room:
    """Who has how much while standbys are found."""

    question: Question
    shares: Shares
    held: dict[str, dict[Partition, None]] = field(init=False)
    _copies: dict[Partition, int] = field(init=False, default_factory=dict)
    _able: dict[str, dict[str, None]] = field(init=False, default_factory=dict)
    _loads: dict[str, int] = field(init=False)
    _rungs: dict[int, dict[str, None]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.held = {member: {} for member in self.shares}
        self._loads = {member: len(partitions) for member, partitions in self.shares.items()}
        for member in sorted(self._loads):
            self._rungs.setdefault(self._loads[member], {})[member] = None
        readers = self.question.readers()
        willing = self.question.willing
        self._able = {
            name: dict.fromkeys(one for one in found if one in willing) for name, found in readers.items()
        }

    def able(self, topic: str) -> Mapping[str, None]:
        """Those who read the topic and are willing to stand by."""
        return self._able[topic]

    def load(self, member: str) -> int:
        return self._loads[member]

    def copies(self, partition: Partition) -> int:
        return self._copies.get(partition, 0)

    def add(self, member: str, partition: Partition) -> None:
        self.held[member][partition] = None
        self._copies[partition] = self.copies(partition) + 1
        self._move(member, 1)

    def take(self, member: str, partition: Partition) -> None:
        del self.held[member][partition]
        self._copies[partition] -= 1
        self._move(member, -1)

    def least(self, able: Mapping[str, None], partition: Partition, owner: str) -> str | None:
        """The least loaded of those who could have this copy."""
        return next(
            (member for member in self.upwards() if self._could(member, able, partition, owner)), None
        )

    def _could(self, member: str, able: Mapping[str, None], partition: Partition, owner: str) -> bool:
        return member in able and member != owner and partition not in self.held[member]

    def upwards(self) -> Iterator[str]:
        """All members, the least loaded first."""
        for load in sorted(self._rungs):
            yield from self._rungs[load]

    def _move(self, member: str, by: int) -> None:
        load = self._loads[member]
        del self._rungs[load][member]
        if not self._rungs[load]:
            del self._rungs[load]
        self._loads[member] = load + by
        self._rungs.setdefault(load + by, {})[member] = None


def _even_out(room: _Room, owner_of: Mapping[Partition, str]) -> None:
    """Move single copies to whoever has two less, until none can be moved."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(room.held, key=lambda member: (-room.load(member), member)):
            for partition in list(room.held[giver]):
                taker = room.least(room.able(partition.topic), partition, owner_of[partition])
                if taker is None or room.load(giver) < room.load(taker) + 2:
                    continue
                room.take(giver, partition)
                room.add(taker, partition)
                moved = True
