"""This room holds the durable rows of one group, as its owner decides on them.

They change by `groups.core.rows.apply` alone, for live handling and for loading alike. Mappings are replaced,
never written in place: rows that were handed out stay as they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from groups.core.classic import ClassicRows
from groups.core.phases import Phase
from groups.core.wishes import MemberWishes
from muster.messages.partitions import Partition

NATIVE = "native"

COPIES = 2
"""An owner and a standby."""


class Key(NamedTuple):
    """What orders frames: generation and version of the turn that decided them."""

    generation: int
    version: int


class Tenure(NamedTuple):
    """One ownership row: since which generation, and whether its owner was heard to fetch."""

    since_generation: int
    running: bool


class OffsetNote(NamedTuple):
    """What a Kafka client committed beside an offset.

    `leader_epoch` is that of the last record read, −1 if unknown. `expires_at_ms` is Unix time, None for an
    offset that lives as long as all others.
    """

    leader_epoch: int = -1
    metadata: str = ""
    expires_at_ms: int | None = None


NO_NOTE = OffsetNote()
"""Most offsets have none; it is not kept."""


class Member(MemberWishes, frozen=True, kw_only=True):
    """One member row; `token_hash` is the SHA-256 of its token in hexadecimal."""

    member_id: str
    token_hash: str

    @property
    def topics(self) -> frozenset[str]:
        """The topics it names; patterns are not among them."""
        return frozenset(entry.topic for entry in self.topic_count if not entry.is_pattern)


Owned = Mapping[str, Mapping[Partition, Tenure]]


class Quarantine(NamedTuple):
    """A name that an operator cut off: for how long from each load, and what is said to whoever has it."""

    length_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The durable truth about one group. A group that does not exist has version 0 and no member.

    `protocol` says in which world it is: `classic` holds the members of a classic group, and is None in the
    native world; `members` and `owned` are native and empty in the classic world. `owned` has an entry only
    for members that own something, and so has `standbys`, what members stand by for: they read it along, own
    nothing of it and commit nothing of it (ADR 14). `copies` is to how many members the redundant assignor
    gives a partition. `handler_asked`: a work item of this group was offered and not yet
    adopted. `offset_notes` holds the notes of the offsets that have one.
    """

    group_id: str
    generation: int = 0
    version: int = 0
    phase: Phase = Phase.EMPTY
    error: str = ""
    ephemeral: bool = False
    protocol: str = NATIVE
    rebalance_mode: str = "incremental"
    assignor: str = "sticky"
    copies: int = COPIES
    handler_asked: bool = False
    members: Mapping[str, Member] = field(default_factory=dict)
    owned: Owned = field(default_factory=dict)
    standbys: Mapping[str, frozenset[Partition]] = field(default_factory=dict)
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    offset_notes: Mapping[Partition, OffsetNote] = field(default_factory=dict)
    quarantined: Mapping[str, Quarantine] = field(default_factory=dict)
    classic: ClassicRows | None = None

    @property
    def key(self) -> Key:
        return Key(self.generation, self.version)
