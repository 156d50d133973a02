"""This room holds what is said of an election that may have lost records: who is asked, and what was lost.

The controller names such an election to every broker; its new leader tells where it began to lead, every
other replica what it held before it followed, and to where it was cut.
"""

from uuid import UUID

import msgspec

from muster.kernel.error_codes import ErrorCode

NOT_KNOWN = -1
"""An offset that whoever tells it does not know, or not any more."""


class LossAsked(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An election that may have lost records; `told`: the brokers that have said all they know of it.

    Said again with each that tells: so a report that was lost on the way is told again.
    """

    topic_id: UUID
    partition: int
    leader_epoch: int
    leader: int
    told: tuple[int, ...] = ()


class LossReport(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one replica knows of what the election of `leader_epoch` lost.

    Of the broker that was elected `end_offset` is where its log ended then, and `cut_to` is the same. Of
    another one it is where its log ended before it followed, and `cut_to` where it went on: what lies between
    was cut, `size_bytes` of it. `cut_to` NOT_KNOWN: all of it, and what of that the leader had as well cannot
    be told: it had deleted there, or this log went before it followed. Both NOT_KNOWN: this log could not be
    read, and went. `high_watermark` is what it knew to be
    committed.
    """

    topic_id: UUID
    partition: int
    leader_epoch: int
    end_offset: int
    cut_to: int
    high_watermark: int = NOT_KNOWN
    size_bytes: int = NOT_KNOWN


class NamedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """An election that may have lost records, by the names that people use.

    `expected_version`: of its row as it was looked at; None: whatever it is.
    """

    topic: str
    partition: int
    leader_epoch: int
    expected_version: int | None = None


class AcknowledgeLosses(msgspec.Struct, frozen=True, tag="AcknowledgeLosses", tag_field="type", kw_only=True):
    """Somebody has seen what these elections lost, and needs not be told any more."""

    correlation_id: int = 0
    losses: tuple[NamedLoss, ...]
    principal: str = ""


class LossResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one of them."""

    topic: str
    partition: int
    leader_epoch: int
    error: ErrorCode = ErrorCode.NONE
    text: str = ""


class LossResults(msgspec.Struct, frozen=True, tag="LossResults", tag_field="type", kw_only=True):
    """Answers AcknowledgeLosses, in the order of the request."""

    correlation_id: int = 0
    results: tuple[LossResult, ...]
