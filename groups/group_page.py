"""This room gathers everything that the page of one group shows."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from controller.leases import LeaseHolder, holder_of
from controller.standing import ClusterStanding
from groups import member_rows, queries
from groups.classic_page import ClassicFacts, facts_of
from groups.core.rebalances import Move
from groups.history import Partition, Rebalance
from groups.journal import rebalances_of
from groups.member_rows import Member, MemberRow, NativeMember
from groups.models import ClassicMember, ConsumerGroup, GroupWaiting, Phase, Protocol
from groups.waiting import waiting_of

LANES_UP_TO = 24
"""More partitions than this, or more members, are drawn as one stroke for each partition."""

STRIPS_DRAWN = 100
STRIPS_OPEN = 24
"""More are folded: a hundred rows push away what stands below them."""

COLUMNS_OF_A_TELEPHONE = 8
ROWS_OF_PARTITIONS = 100
REBALANCES_SHOWN = 8
_STROKE = 4


@dataclass(frozen=True, slots=True)
class Cell:
    """One partition in the lane of one member: `kept`, `came`, `left` for another, `standby`, `passes` by, or
    empty.
    """

    standing: queries.PartitionStanding
    kind: str = ""
    other: str = ""
    down: bool = True


@dataclass(frozen=True, slots=True)
class Lane:
    """One member's row: what it kept, what came, what it gave up."""

    owner: str
    label: str
    cells: list[Cell]

    def _number(self, kind: str) -> int:
        return sum(1 for cell in self.cells if cell.kind == kind)

    @property
    def kept(self) -> int:
        return self._number("kept")

    @property
    def came(self) -> int:
        return self._number("came")

    @property
    def left(self) -> int:
        return self._number("left")

    @property
    def words(self) -> str:
        """`2 kept, 1 added, 1 given up`."""
        told = ((self.kept, "kept"), (self.came, "added"), (self.left, "given up"))
        return ", ".join(f"{number} {word}" for number, word in told if number) or "owns nothing"


@dataclass(frozen=True, slots=True)
class Strip:
    """One member's row where cells would be too many: places of what it kept, what came, what it gave up."""

    owner: str
    label: str
    kept: list[int] = field(default_factory=list)
    came: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    @property
    def owns(self) -> int:
        return len(self.kept) + len(self.came)

    @property
    def kept_path(self) -> str:
        return _strokes(self.kept, 2)

    @property
    def came_path(self) -> str:
        return _strokes(self.came, 2)

    @property
    def left_path(self) -> str:
        return _strokes(self.left, 4)


def _strokes(places: Sequence[int], inset: int) -> str:
    """An SVG path with one stroke for each partition, always at the same place."""
    return "".join(f"M{place * _STROKE + 2} {inset}V{16 - inset}" for place in places)


@dataclass(frozen=True)
class GroupPage:
    """What stands on the page of one group; `classic` is None for a native one."""

    group: ConsumerGroup
    standings: list[queries.PartitionStanding]
    members: Sequence[Member]
    rebalances: list[Rebalance]
    live: list[int]
    first: int = 0
    coordinator: LeaseHolder | None = None
    topics: list[str] = field(default_factory=list)
    waiting: GroupWaiting | None = None
    classic: ClassicFacts | None = None

    @cached_property
    def lag(self) -> int | None:
        """The known lag of all partitions; None if nothing is known."""
        known = [row.lag for row in self.standings if row.lag is not None]
        return sum(known) if known else None

    @cached_property
    def unknown(self) -> bool:
        """True if the sum has parts that are not known."""
        return any(row.lag is None for row in self.standings)

    @cached_property
    def largest_lag(self) -> int:
        return max((row.lag or 0 for row in self.standings), default=0) or 1

    @property
    def progress_at(self) -> datetime | None:
        """When the newest of the known ends was said."""
        said = [row.progress_s for row in self.standings if row.progress_s is not None]
        return datetime.fromtimestamp(max(said), UTC) if said else None

    @property
    def one_topic(self) -> bool:
        return len(self.topics) == 1

    @property
    def small(self) -> bool:
        return len(self.standings) <= LANES_UP_TO and len(self.owners) <= STRIPS_DRAWN

    @property
    def many_columns(self) -> bool:
        """More than fit side by side on a telephone."""
        return len(self.standings) > COLUMNS_OF_A_TELEPHONE

    @property
    def standbys_wanted(self) -> int:
        return self.group.copies - 1

    @cached_property
    def racks(self) -> bool:
        """True if any member says where it runs."""
        return any(isinstance(one, NativeMember) and one.rack for one in self.members)

    @cached_property
    def standbys(self) -> bool:
        return any(row.standbys for row in self.standings)

    @property
    def waited_for(self) -> list[str]:
        """Those who are named, by what people call them."""
        names = self.waiting.waits_for if self.waiting else []
        return [self.labels.get(name, name) for name in names]

    @property
    def waits_for_leader(self) -> bool:
        """Nobody gets anything before the leader has assigned."""
        completing = self.group.phase == Phase.COMPLETING_REBALANCE
        return completing and self.waiting is not None and self.group.leader in self.waiting.waits_for

    @property
    def not_named(self) -> int:
        """How many more are waited for."""
        return self.waiting.missing - len(self.waiting.waits_for) if self.waiting else 0

    @property
    def session_least_ms(self) -> int:
        return min(one.session_timeout_ms for one in self.members)

    @property
    def session_most_ms(self) -> int:
        return max(one.session_timeout_ms for one in self.members)

    @property
    def resets(self) -> str:
        """What members do where nothing is committed; several, if they were told differently."""
        told = Counter(one.auto_offset_reset for one in self.members if isinstance(one, NativeMember))
        words = {reset: "is an error" if reset == "none" else f"starts at {reset}" for reset in told}
        if len(told) == 1:
            return words[next(iter(told))]
        return "; ".join(f"{words[reset]} ({number} members)" for reset, number in told.most_common())

    @property
    def rows(self) -> list[queries.PartitionStanding]:
        return self.standings[self.first : self.first + ROWS_OF_PARTITIONS]

    @property
    def before_from(self) -> int:
        return max(0, self.first - ROWS_OF_PARTITIONS)

    @property
    def next_from(self) -> int:
        end = self.first + ROWS_OF_PARTITIONS
        return end if end < len(self.standings) else 0

    @property
    def last(self) -> int:
        return min(self.first + ROWS_OF_PARTITIONS, len(self.standings))

    @property
    def settled(self) -> Rebalance | None:
        """The last rebalance that opened the present generation, if the journal still has it."""
        return next((one for one in self.rebalances if one.generation == self.group.generation), None)

    @property
    def pictured(self) -> Rebalance | None:
        """The last rebalance whose result stands in the rows; what no leader has assigned yet has none."""
        settled = self.settled
        if self.classic is None or settled is None or not (settled.open or settled.failed):
            return settled
        return next((one for one in self.rebalances if not (one.open or one.failed)), None)

    @property
    def pictured_generation(self) -> int:
        """The generation whose assignment the rows show."""
        told = None if self.pictured is None else self.pictured.generation
        if told is not None:
            return told
        return self.group.generation - (0 if self.settled is None else 1)

    @property
    def phase_since(self) -> datetime:
        """When the group came into its phase, by the journal if it still has it."""
        told = None
        if self.group.phase == Phase.STABLE and self.settled is not None:
            told = self.settled.ended
        elif self.group.phase == Phase.PREPARING_REBALANCE and self.open_rebalance is not None:
            told = self.open_rebalance.started
        return told or self.group.phase_entered_at

    @property
    def open_rebalance(self) -> Rebalance | None:
        return self.rebalances[0] if self.rebalances and self.rebalances[0].open else None

    @property
    def longest_ms(self) -> float:
        """The longest of the listed rebalances: the bars are shares of it."""
        return max((one.length_ms for one in self.rebalances), default=0.0) or 1.0

    @property
    def unowned(self) -> list[queries.PartitionStanding]:
        return [row for row in self.standings if row.owner is None]

    @property
    def stroke_width(self) -> int:
        return max(1, len(self.standings)) * _STROKE

    @cached_property
    def moves(self) -> dict[Partition, Move]:
        """What the last rebalance moved, as far as it still is where it came to."""
        told = self.pictured.moves if self.pictured else {}
        moves = {}
        for row in self.standings:
            move = told.get((row.topic_name, row.partition))
            if move is not None and move.before != move.after and move.after == row.owner:
                moves[row.topic_name, row.partition] = move
        return moves

    @cached_property
    def owners(self) -> list[str]:
        """Every member, then each former owner of what moved last."""
        owners = [one.member_id for one in self.members]
        told = self.pictured.moves.values() if self.pictured else ()
        former = {move.before for move in told if move.before}
        return owners + sorted(former - set(owners))

    @cached_property
    def labels(self) -> dict[str, str]:
        """What people call the members whose id is made anew at each start: their instance."""
        members = (one for one in self.members if isinstance(one, ClassicMember))
        return {one.member_id: one.group_instance_id for one in members if one.group_instance_id}

    def rows_of(self, members: Iterable[Member]) -> list[MemberRow]:
        """These members with what each of them owns."""
        return member_rows.rows_of(members, self.group, self.standings, len(self.topics) > 1)

    @cached_property
    def lanes(self) -> list[Lane]:
        """A lane of cells for each owner; owners times partitions, so only for a small group."""
        place = {owner: number for number, owner in enumerate(self.owners)}
        return [
            Lane(
                owner,
                self.labels.get(owner, owner),
                [_cell(row, owner, self.moves, place) for row in self.standings],
            )
            for owner in self.owners
        ]

    @cached_property
    def strips(self) -> list[Strip]:
        """The first owners with strokes instead of cells; each partition is looked at once."""
        strips = {owner: Strip(owner, self.labels.get(owner, owner)) for owner in self.owners[:STRIPS_DRAWN]}
        for place, row in enumerate(self.standings):
            move = self.moves.get((row.topic_name, row.partition))
            if row.owner in strips:
                strip = strips[row.owner]
                (strip.kept if move is None else strip.came).append(place)
            if move is not None and move.before in strips:
                strips[move.before].left.append(place)
        return list(strips.values())

    @property
    def strips_open(self) -> list[Strip]:
        return self.strips[:STRIPS_OPEN]

    @property
    def strips_folded(self) -> list[Strip]:
        return self.strips[STRIPS_OPEN:]

    @property
    def moved(self) -> int:
        return sum(1 for row in self.standings if row.owner and (row.topic_name, row.partition) in self.moves)


def read(group: ConsumerGroup, cluster: ClusterStanding, first: int) -> GroupPage:
    """Read the page of one group with a constant number of statements."""
    standings = queries.partitions_of_group(group.name)
    topics = sorted({row.topic_name for row in standings})
    members: Sequence[Member]
    if group.protocol == Protocol.NATIVE:
        members, classic = member_rows.native_members(group.name), None
    else:
        members = member_rows.classic_members(group.name)
        classic = facts_of(group, members)
    return GroupPage(
        group,
        standings,
        members,
        rebalances_of(group.name, group.shard, REBALANCES_SHOWN),
        cluster.live,
        first if first < len(standings) else 0,
        holder_of(f"coordinator/{group.shard}"),
        topics,
        waiting_of(group),
        classic,
    )


def _cell(
    row: queries.PartitionStanding, owner: str, moves: dict[Partition, Move], place: dict[str, int]
) -> Cell:
    move = moves.get((row.topic_name, row.partition))
    before, after = (move.before, move.after) if move is not None else (None, None)
    if row.owner == owner:
        return Cell(row, "came" if move else "kept", before or "", _down(place, before, after))
    if before == owner:
        return Cell(row, "left", after or "", _down(place, before, after))
    if owner in (row.standbys or ()):
        return Cell(row, "standby")
    if before in place and after in place and before is not None and after is not None:
        between = min(place[before], place[after]) < place[owner] < max(place[before], place[after])
        return Cell(row, "passes" if between else "")
    return Cell(row)


def _down(place: dict[str, int], before: str | None, after: str | None) -> bool:
    return before is None or after is None or place.get(before, 0) < place.get(after, 0)
