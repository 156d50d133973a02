"""This room lets as many partitions as balance allows be read in a rack that holds one of their replicas.

Everybody gets as many partitions as by the sticky assignor, within one where all read the same. Racks are
dealt first: which partitions are read in which rack is a transport problem of few kinds and few racks, solved
for the most partitions at home, and among such answers for the most that stay in their rack. Within a rack
partitions stay where they are up to an even share.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice

from coordinator.core.assignors import sticky
from coordinator.core.assignors.interface import Question, Shares, partitions_of
from coordinator.core.assignors.transport import Network
from muster.messages.partitions import Partition

_ELSEWHERE = ""
"""Members whose rack holds no replica of anything, or who told none."""

_AT_HOME = 1 << 20
_STAYS = 1
"""No path of a network is so long that staying could outweigh one partition at home."""

Kind = tuple[tuple[str, ...], str | None]
"""The racks in which a partition is at home, and the rack where it is read now."""


def assign(question: Question) -> Shares:
    """As the sticky assignor does where nobody told a rack, or no replica has one."""
    shares = sticky.assign(question)
    racks = {rack for layout in question.topics.values() for at in layout.racks for rack in at}
    if not racks.intersection(question.rack_of.values()):
        return shares
    rack_of = {member: _known(question.rack_of.get(member), racks) for member in question.members}
    classes = _classes(question)
    dealt: Shares = {member: [] for member in shares}
    of_topic = {name: number for number, (_, names) in enumerate(classes) for name in names}
    counts: list[Counter[str]] = [Counter() for _ in classes]
    for member, partitions in shares.items():
        for partition in partitions:
            counts[of_topic[partition.topic]][member] += 1
    for (readers, names), count in zip(classes, counts, strict=True):
        deal = _Deal(question, readers, names, rack_of)
        least, more = divmod(count.total(), len(readers)) if len(classes) == 1 else (None, 0)
        quota = count if least is None else Counter(dict.fromkeys(readers, least))
        for member, partitions in deal.out(quota, more).items():
            dealt[member].extend(partitions)
    return {member: sorted(partitions) for member, partitions in dealt.items()}


def _known(rack: str | None, racks: set[str]) -> str:
    return rack if rack in racks else _ELSEWHERE


def _classes(question: Question) -> list[tuple[tuple[str, ...], list[str]]]:
    """The topics that the same members read, by these."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, readers in question.readers().items():
        if readers:
            found.setdefault(tuple(readers), []).append(name)
    return sorted(found.items())


class _Deal:
    """The partitions of one class of topics, and the members that read all of them."""

    def __init__(
        self,
        question: Question,
        readers: Sequence[str],
        names: Sequence[str],
        rack_of: Mapping[str, str],
    ) -> None:
        self._rack_of = rack_of
        self._owner_of = question.owner_of
        self._members: dict[str, list[str]] = {
            rack: list(members)
            for rack, members in groupby(sorted(readers, key=self._place), key=rack_of.__getitem__)
        }
        self._readers = frozenset(readers)
        self._kinds: dict[Kind, list[Partition]] = {}
        for name in names:
            layout = question.topics[name]
            for partition in partitions_of(layout):
                racks = layout.racks[partition.number] if layout.racks else ()
                home = tuple(sorted(rack for rack in racks if rack in self._members))
                owner = self._owner(partition)
                kind = (home, None if owner is None else rack_of[owner])
                self._kinds.setdefault(kind, []).append(partition)

    def _place(self, member: str) -> tuple[str, str]:
        return self._rack_of[member], member

    def _owner(self, partition: Partition) -> str | None:
        owner = self._owner_of.get(partition)
        return owner if owner in self._readers else None

    def out(self, quota: Counter[str], more: int) -> Shares:
        """Everybody gets its quota, and `more` members one more."""
        racks = list(self._members)
        kinds = sorted(self._kinds, key=lambda kind: (kind[0], kind[1] or "", kind[1] is None))
        network = Network(3 + len(kinds) + len(racks))
        rack_at = {rack: 3 + len(kinds) + number for number, rack in enumerate(racks)}
        ways: dict[tuple[Kind, str], int] = {}
        for number, kind in enumerate(kinds, start=3):
            home, present = kind
            supply = len(self._kinds[kind])
            network.connect(0, number, supply)
            for rack in racks:
                worth = _AT_HOME * (rack in home) + _STAYS * (rack == present)
                ways[kind, rack] = network.connect(number, rack_at[rack], supply, worth)
        extras: dict[str, int] = {}
        for rack, members in self._members.items():
            network.connect(rack_at[rack], 1, sum(quota[member] for member in members))
            extras[rack] = network.connect(rack_at[rack], 2, len(members)) if more else -1
        network.connect(2, 1, more)
        network.ship()
        shares: Shares = {}
        amounts = {kind: {rack: network.shipped(ways[kind, rack]) for rack in racks} for kind in kinds}
        in_rack = self._by_rack(amounts)
        for rack, members in self._members.items():
            one_more = network.shipped(extras[rack]) if more else 0
            shares |= self._within(members, in_rack[rack], quota, one_more)
        return shares

    def _by_rack(self, amounts: Mapping[Kind, Mapping[str, int]]) -> dict[str, list[Partition]]:
        """Which partitions are read where; those leave first whose owners have most."""
        held = Counter(owner for one in self._partitions() if (owner := self._owner(one)) is not None)
        found: dict[str, list[Partition]] = {rack: [] for rack in self._members}
        for kind, to in amounts.items():
            _, present = kind
            leaving = sorted(self._kinds[kind], key=lambda one: (-held[self._owner(one) or ""], one))
            cards = iter(leaving)
            for rack in sorted(to, key=lambda rack: (rack == present, rack)):
                found[rack].extend(islice(cards, to[rack]))
        return found

    def _partitions(self) -> Iterator[Partition]:
        for partitions in self._kinds.values():
            yield from partitions

    def _within(
        self, members: Sequence[str], partitions: Sequence[Partition], quota: Counter[str], more: int
    ) -> Shares:
        """The shares of one rack: everybody keeps up to its quota, who has most of its own one more."""
        held: Shares = {member: [] for member in members}
        free: list[Partition] = []
        for partition in sorted(partitions):
            owner = self._owner(partition)
            held.get(owner or "", free).append(partition)
        richest = sorted(members, key=lambda member: (quota[member] - len(held[member]), member))
        may_have = {member: quota[member] + (rank < more) for rank, member in enumerate(richest)}
        for member in members:
            free.extend(held[member][may_have[member] :])
            del held[member][may_have[member] :]
        cards = iter(sorted(free))
        for member in members:
            held[member].extend(islice(cards, may_have[member] - len(held[member])))
        return held
