"""This room names what an operator may ask of a group, and what its owner answers.

A request is a row of the work table: a door writes it, the owner of the group's shard decides it in a turn,
and the turn writes the answer into the row. Both stand in these rows as JSON, so their fields stay.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from muster.kernel.error_codes import ErrorCode

ASSIGNORS = ("sticky", "range", "roundrobin", "copartitioned", "rackaware", "redundant")
COPIES_MAX = 16
"""Members that the redundant assignor gives a partition to: its owner, the rest stands by."""

REBALANCE_MODES = ("incremental", "eager")

QUARANTINE_MAX_MS = 7 * 24 * 3_600_000
QUARANTINES_MAX = 1_000
"""Names of one group that are refused at a time."""

KIND = "group.request"
"""The kind of work item; its key is the group's name."""


class Wish(Struct, frozen=True, tag_field="kind", omit_defaults=True, forbid_unknown_fields=True):
    """What is asked; `kind` says which of these."""


class RemoveMember(Wish, frozen=True, tag="remove_member"):
    """Cut a member off; whoever comes under its name is refused until `quarantine_ms` are over, too."""

    member: str
    quarantine_ms: int = 0


class LiftQuarantine(Wish, frozen=True, tag="lift_quarantine"):
    """Let whoever has this name come again."""

    member: str


class Rebalance(Wish, frozen=True, tag="rebalance"):
    """Ask for a rebalance now, whatever it waits for."""


class SetStrategy(Wish, frozen=True, tag="set_strategy"):
    """Let the group assign otherwise; None leaves as it is."""

    assignor: str | None = None
    rebalance_mode: str | None = None
    copies: int | None = None


class DeleteGroup(Wish, frozen=True, tag="delete_group"):
    """Delete the group and all that it committed."""


class Scope(Struct, frozen=True, omit_defaults=True):
    """Partitions of one topic, by name; none named: all of them."""

    topic: str
    partitions: tuple[int, ...] = ()


class DeleteOffsets(Wish, frozen=True, tag="delete_offsets"):
    """Delete what the group committed for these partitions."""

    scope: tuple[Scope, ...]


class ResetOffsets(Wish, frozen=True, tag="reset_offsets"):
    """Set committed offsets; without `scope` those of all topics of which there are any.

    `to`: `earliest`, `latest`, `time` (`value` in ms since 1970), `offset` (`value`), `shift` (by `value`),
    or `group` (what the group `source` committed).
    """

    to: str
    value: int = 0
    source: str = ""
    scope: tuple[Scope, ...] = ()


class OffsetChange(Struct, frozen=True, array_like=True):
    """One partition's committed offset before and after, −1 where none is; `note` says what is special."""

    topic: str
    topic_id: UUID
    partition: int
    before: int
    after: int
    note: str = ""


class UndoReset(Wish, frozen=True, tag="undo_reset"):
    """Put back what was committed before the reset `request`; `changes` are those that its row tells."""

    request: str
    changes: tuple[OffsetChange, ...] = ()


class Found(Struct, frozen=True, array_like=True):
    """What was found out about one partition: the ends of its log, and the other offset that was asked for,
    by time or of another group, −1 where there is none.
    """

    topic: str
    topic_id: UUID
    partition: int
    earliest: int
    latest: int
    other: int = -1


class Findings(Struct, frozen=True, omit_defaults=True):
    """What a worker found out for a request, or why it could not; `error` is Kafka's number."""

    partitions: tuple[Found, ...] = ()
    error: int = 0
    text: str = ""


RESETS = ("earliest", "latest", "time", "offset", "shift", "group")
PARTITIONS_MAX = 10_000
"""Partitions whose offsets one request sets."""

AnyWish = (
    RemoveMember
    | LiftQuarantine
    | Rebalance
    | SetStrategy
    | DeleteGroup
    | DeleteOffsets
    | ResetOffsets
    | UndoReset
)


class Verdict(StrEnum):
    """What became of a request."""

    DONE = "done"
    """It was carried out."""

    WOULD_BE_DONE = "would be done"
    """It was a dry run; nothing changed."""

    CHANGED_MEANWHILE = "changed meanwhile"
    """The group is not at the version that the request expects; nothing changed."""

    REFUSED = "refused"
    """The group's state does not allow it; nothing changed."""


class Answer(Struct, frozen=True, omit_defaults=True):
    """What the owner decided; `error` is Kafka's number, `text` a sentence for people."""

    verdict: Verdict
    error: int = 0
    text: str = ""
    changes: tuple[OffsetChange, ...] = ()


class Asked(Struct, frozen=True, omit_defaults=True):
    """The payload of a request's row: the wish, the version of the group that it expects, if any."""

    wish: AnyWish
    expected: tuple[int, int] | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A request as the owner decides it: an event of the group."""

    id: str
    principal: str
    reason: str
    asked: Asked
    findings: Findings = field(default_factory=Findings)


def kind_of(wish: Wish) -> str:
    """The word for this kind of wish."""
    return str(type(wish).__struct_config__.tag)


def refused(error: ErrorCode, text: str) -> Answer:
    """The answer to what the group's state does not allow."""
    return Answer(Verdict.REFUSED, int(error), text)
