"""This room takes brokers out of service by request: no new replicas, then out of the cluster.

Draining in between is a plan. What is unregistered is gone with its enrolment: whoever comes under its id
needs a new secret, and gets an epoch that nobody had (replication.md 2; conformance 160).
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

import msgspec

from controller.core import reassignment
from controller.core.draft import Draft
from controller.core.events import LinkId, Say
from controller.core.records import BrokerCordoned, Phase, Reassignment
from controller.core.topics import Refused, check_version
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import BrokerResult, CordonBroker, UnregisterBroker
from muster.messages.link.rows import BrokerRow

TOPICS_NAMED: Final = 5
"""Of those that a broker still holds, in a refusal."""


def cordon(draft: Draft, link: LinkId, frame: CordonBroker) -> None:
    """What a broker has it keeps; automatic placement, assignments and moves give it nothing new."""
    _answer(draft, link, frame, lambda row: _cordon(draft, row, frame))


def unregister(draft: Draft, link: LinkId, frame: UnregisterBroker) -> None:
    """Refused while the broker is live or holds replicas; what was to move there fails."""
    _answer(draft, link, frame, lambda row: _unregister(draft, row))


def not_written(frame: CordonBroker | UnregisterBroker, why: str) -> BrokerResult:
    """The answer to a request whose turn could not be written."""
    return BrokerResult(
        correlation_id=frame.correlation_id,
        broker_id=frame.broker_id,
        error=ErrorCode.UNKNOWN_SERVER_ERROR,
        text=f"{why}; nothing was changed",
    )


def _answer(
    draft: Draft,
    link: LinkId,
    frame: CordonBroker | UnregisterBroker,
    change: Callable[[BrokerRow], int],
) -> None:
    error, text, version = ErrorCode.NONE, "", 0
    try:
        row = draft.broker(frame.broker_id)
        if row is None:
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {frame.broker_id}")
        check_version(f"broker {frame.broker_id}", row.version, frame.expected_version)
        version = change(row)
    except Refused as refused:
        error, text = refused.error, refused.text
    answer = BrokerResult(
        correlation_id=frame.correlation_id,
        broker_id=frame.broker_id,
        error=error,
        text=text,
        version=version,
    )
    draft.replies.append(Say(link, answer))


def _cordon(draft: Draft, row: BrokerRow, frame: CordonBroker) -> int:
    if row.cordoned == frame.cordoned:
        return row.version
    draft.put_broker(msgspec.structs.replace(row, cordoned=frame.cordoned))
    draft.other_records.append(BrokerCordoned(row.broker_id, frame.cordoned, frame.principal))
    return draft.version


def _unregister(draft: Draft, row: BrokerRow) -> int:
    """Raises Refused."""
    broker_id = row.broker_id
    _require_stopped(draft, row)
    _require_drained(draft, broker_id)
    coming = [one for one in draft.active_reassignments() if _comes_to(draft, one, broker_id)]
    most = draft.settings.max_changed_in_bulk
    if len(coming) > most:
        text = f"{len(coming)} reassignments go to broker {broker_id}: cancel them first"
        raise Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
    # Looked at before the first is failed: a refusal changes nothing.
    for one in coming:
        reassignment.check_cancel(draft, one)
    for one in coming:
        reassignment.fail(draft, one, f"broker {broker_id} was unregistered")
    if draft.broker_configs(broker_id).configs:
        draft.put_configs(broker_id, {})
    draft.unregister(broker_id)
    return 0


def _require_stopped(draft: Draft, row: BrokerRow) -> None:
    """Raise Refused while it is live, also between two links."""
    if row.live or row.broker_id in draft.memory.sessions:
        text = f"broker {row.broker_id} is live: stop it first"
        raise Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)


def _require_drained(draft: Draft, broker_id: int) -> None:
    """Raise Refused while it holds replicas; those that are only being added to it are no reason."""
    topics: dict[str, int] = {}
    for topic_id, topic in draft.all_topics().items():
        held = sum(
            broker_id in row.assigned and broker_id not in row.adding
            for row in draft.partitions_of_topic(topic_id)
        )
        if held:
            topics[topic.name] = held
    if not topics:
        return
    count = sum(topics.values())
    named = ", ".join(f"{name} ({held})" for name, held in islice(topics.items(), TOPICS_NAMED))
    others = f" and {len(topics) - TOPICS_NAMED} more topics" if len(topics) > TOPICS_NAMED else ""
    what = "1 replica" if count == 1 else f"{count} replicas"
    text = f"broker {broker_id} still holds {what}, of {named}{others}: move them to others first"
    raise Refused(ErrorCode.POLICY_VIOLATION, text)


def _comes_to(draft: Draft, one: Reassignment, broker_id: int) -> bool:
    row = draft.partition(one.key)
    if row is None:
        return False
    return broker_id in (one.target if one.phase is Phase.INIT else row.adding)
