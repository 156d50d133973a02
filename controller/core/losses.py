"""This room hears what elections have lost from who held the records, and lets people acknowledge it."""

from collections.abc import Sequence

import msgspec

from controller.core.draft import Draft
from controller.core.events import LinkId, RequestSeat, Say
from controller.core.topics import Refused, check_version
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.losses import (
    AcknowledgeLosses,
    LossReport,
    LossResult,
    LossResults,
    NamedLoss,
)


def hear(draft: Draft, link: LinkId, said: Sequence[LossReport]) -> None:
    """A replica tells what it knows; told twice it is told once. Of what nobody asks nothing is kept."""
    broker_id = draft.memory.broker_of(link)
    assert broker_id is not None
    for one in said:
        key = one.topic_id, one.partition, one.leader_epoch
        known = draft.losses.get(key)
        if known is None or draft.partition(key[:2]) is None:
            continue
        told = known.with_report(broker_id, one)
        if told is not known:
            draft.losses.change(msgspec.structs.replace(told, version=draft.version))


def acknowledge(draft: Draft, link: LinkId, frame: AcknowledgeLosses) -> None:
    """People have seen it; what is told of it later is kept beside."""
    results = []
    for named in frame.losses:
        error, text = ErrorCode.NONE, ""
        try:
            _acknowledge(draft, link, named, frame.principal)
        except Refused as refused:
            error, text = refused.error, refused.text
        results.append(
            LossResult(
                topic=named.topic,
                partition=named.partition,
                leader_epoch=named.leader_epoch,
                error=error,
                text=text,
            )
        )
    answer = LossResults(correlation_id=frame.correlation_id, results=tuple(results))
    draft.replies.append(Say(link, answer))


def not_written(frame: AcknowledgeLosses, why: str) -> LossResults:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nothing was acknowledged"
    return LossResults(
        correlation_id=frame.correlation_id,
        results=tuple(
            LossResult(
                topic=one.topic,
                partition=one.partition,
                leader_epoch=one.leader_epoch,
                error=ErrorCode.UNKNOWN_SERVER_ERROR,
                text=text,
            )
            for one in frame.losses
        ),
    )


def _acknowledge(draft: Draft, link: LinkId, named: NamedLoss, principal: str) -> None:
    """Raises Refused."""
    topic = draft.topic_named_like(named.topic)
    known = None
    if topic is not None and topic.name == named.topic:
        known = draft.losses.get((topic.topic_id, named.partition, named.leader_epoch))
    if known is None or draft.partition((known.topic_id, known.partition)) is None:
        text = "no election of this epoch is known to have lost anything, or it was acknowledged before"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    name = f"what the election of {named.topic}-{named.partition} lost"
    check_version(name, known.version, named.expected_version)
    if known.acknowledged:
        return
    by, why = principal, ""
    if isinstance(link, RequestSeat):
        by, why = link.principal, link.reason
    draft.losses.change(
        msgspec.structs.replace(
            known, acknowledged=True, acknowledged_by=by, acknowledged_why=why, version=draft.version
        )
    )
