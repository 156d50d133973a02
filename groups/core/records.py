"""This room holds what can become true of a group; the journal keeps these, `coordinator.store` writes them.

Records of one turn are written together, in order, and raise the group's version by one, unless they are
nothing but answers to requests. A turn without records writes nothing. Partitions travel by topic, so that
a record of ten thousand partitions stays small.
"""

from msgspec import Struct

from groups.core.classic import ClassicMember
from groups.core.phases import Phase
from groups.core.requests import Answer
from groups.core.wishes import MemberWishes
from muster.messages.member import TopicOffsets, TopicPartitions


class Record(Struct, frozen=True, tag_field="record", omit_defaults=True):
    """Something that became true; the tag `record` says what."""


class MemberAdded(Record, MemberWishes, frozen=True, kw_only=True, tag=True):
    """A consumer was accepted. `token_hash` is the SHA-256 of its token in hexadecimal."""

    member_id: str
    token_hash: str


class MemberChanged(Record, MemberWishes, frozen=True, kw_only=True, tag=True):
    """A member came back with other wishes, or may have fewer by now, and `why`; its identity and its
    partitions stay.
    """

    member_id: str
    why: str = ""


class MemberRemoved(Record, frozen=True, tag=True):
    """A member left or its session is over; every partition that it owned is without owner."""

    member_id: str
    why: str


class OffsetsFlushed(Record, frozen=True, tag=True):
    """Positions that were known in memory only are now committed; `generation` of an entry is not kept."""

    offset_info: tuple[TopicOffsets, ...]


class GenerationOpened(Record, frozen=True, tag=True):
    """A rebalance closed; the generation rises by one."""

    generation: int


class GenerationSkipped(Record, frozen=True, tag=True):
    """The generation rises by one, though no rebalance closed: who was away takes nothing up where it was."""

    generation: int


class PartitionsReleased(Record, frozen=True, tag=True):
    """These partitions of the member are without owner, or another record of the turn names the next."""

    member_id: str
    partitions: tuple[TopicPartitions, ...]


class PartitionsAssigned(Record, frozen=True, tag=True):
    """The member owns these from `generation` on; it was not yet heard to have started."""

    member_id: str
    generation: int
    partitions: tuple[TopicPartitions, ...]


class PartitionsRunning(Record, frozen=True, tag=True):
    """The member was heard to fetch these."""

    member_id: str
    partitions: tuple[TopicPartitions, ...]


class StandbysChanged(Record, frozen=True, tag=True):
    """These members stand by for these partitions from now on, and for no others; the rest as before."""

    standbys: dict[str, tuple[TopicPartitions, ...]]


class PhaseEntered(Record, frozen=True, tag=True):
    """The group's phase, as pages show it; `cause` says why a classic group's rebalance began."""

    phase: Phase
    cause: str = ""


class GroupMarkedEphemeral(Record, frozen=True, tag=True):
    """The group is to be deleted as soon as it is empty."""


class HandlerAsked(Record, frozen=True, tag=True):
    """A rebalance handler is asked for: the store offers one work item based on this turn's version."""

    cause: str


class ItemAdopted(Record, frozen=True, tag=True):
    """The finished work item was used, or is of no use; it is done with."""

    item_id: str


class ErrorShown(Record, frozen=True, tag=True):
    """What an operator must know about the group; empty: nothing any more."""

    text: str


class GroupDeleted(Record, frozen=True, tag=True):
    """The group ended; nothing of it stays. Always the last record of its turn."""


class ProtocolEntered(Record, frozen=True, tag=True):
    """A group without members changes its world, or begins: `native` or `classic`. Its offsets stay."""

    protocol: str


class ClassicMemberAdded(Record, frozen=True, tag=True):
    """A JoinGroup was taken of somebody who was no member. No assignment is stated."""

    member: ClassicMember


class ClassicMemberChanged(Record, frozen=True, tag=True):
    """A member joined with other protocols, timeouts or client. Its assignment is not stated, and stays.

    `reason` is its own words, since version 8 of JoinGroup (KIP-800). `what` is in ours what it states
    otherwise, to follow "joined with"; journals of before do not have it.
    """

    member: ClassicMember
    reason: str = ""
    what: str = ""


class InstanceReplaced(Record, frozen=True, tag=True):
    """A static member came back under a new id; assignment, not stated, and leadership go over to it."""

    old_member_id: str
    member: ClassicMember


class ProtocolChosen(Record, frozen=True, tag=True):
    """What the members speak, and who leads: with the first member, and at the end of each join phase."""

    protocol_type: str
    protocol_name: str | None
    leader: str | None


class ClassicAssigned(Record, frozen=True, tag=True):
    """The leader's assignment; whom it does not name gets nothing."""

    assignments: dict[str, bytes]


class OffsetsDeleted(Record, frozen=True, tag=True):
    """Committed offsets went: a person asked for it, they expired, or their topic was deleted."""

    partitions: tuple[TopicPartitions, ...]


class OffsetsSet(Record, frozen=True, tag=True):
    """An operator put committed offsets elsewhere; `generation` of an entry is not kept."""

    offset_info: tuple[TopicOffsets, ...]


class StrategySet(Record, frozen=True, tag=True):
    """By which assignor the group is assigned from now on, and whether a rebalance stops everybody.

    `copies`, to how many members the redundant one gives a partition; 0: to as many as before.
    """

    assignor: str
    rebalance_mode: str
    copies: int = 0


class MemberQuarantined(Record, frozen=True, tag=True):
    """An operator cut this name off: nobody comes in under it for so long, counted by the owner from now or,
    anew, from each load; and not before the session of a member of this name is over.
    """

    member_id: str
    length_ms: int
    why: str


class QuarantineEnded(Record, frozen=True, tag=True):
    """Whoever has this name may come again."""

    member_id: str


class RequestDecided(Record, frozen=True, tag=True):
    """An operator's request was answered. Alone it changes nothing of the group: its version stays.

    `asked` is the kind of wish. The answer is written into the request's row.
    """

    request_id: str
    asked: str
    principal: str
    reason: str
    answer: Answer


GroupRecord = (
    MemberAdded
    | MemberChanged
    | MemberRemoved
    | OffsetsFlushed
    | GenerationOpened
    | PartitionsReleased
    | PartitionsAssigned
    | PartitionsRunning
    | StandbysChanged
    | PhaseEntered
    | GroupMarkedEphemeral
    | HandlerAsked
    | ItemAdopted
    | ErrorShown
    | GroupDeleted
    | ProtocolEntered
    | ClassicMemberAdded
    | ClassicMemberChanged
    | InstanceReplaced
    | ProtocolChosen
    | ClassicAssigned
    | OffsetsDeleted
    | OffsetsSet
    | StrategySet
    | MemberQuarantined
    | QuarantineEnded
    | RequestDecided
    | GenerationSkipped
)
