"""This room says who may bring a group into the other world, and what strangers to a group's world are told.

A group without members is in neither world for good: a JoinGroup makes it classic, a RegisterConsumer native;
its offsets stay. While it has members, a member of the wrong world is refused and changes nothing.
"""

from coordinator.core.events import (
    ClassicAnswer,
    ClassicRequest,
    Departure,
    GroupEvent,
    Heard,
    Join,
    JoinAnswer,
    LeaveAnswer,
    OutsideOffsets,
    Say,
    Sync,
    SyncAnswer,
)
from groups.core.phases import Phase
from groups.core.rows import RowsBuilder
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import RegisterConsumerRequest, RegisterConsumerResponse


def goes_over(rows: RowsBuilder, event: GroupEvent, *, native: bool) -> bool:
    """Whether this event, in a turn decided by `native` rules so far, is for those of the other world."""
    if native:
        if isinstance(event, OutsideOffsets):
            return not rows.members and not rows.before.version
        # An ephemeral group without members ends with this turn.
        return isinstance(event, Join) and not rows.members and not rows.ephemeral
    return _is_register(event) and rows.phase is Phase.EMPTY


def refuse_classic(event: ClassicRequest, *, dying: bool) -> Say:
    """What a Kafka client hears of a native group; `dying`: the group ends with this turn.

    Of a group without members it hears the same as of one that does not exist (conformance 14, 17, 51, 69).
    """
    answer: ClassicAnswer
    match event:
        case Join():
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            answer = JoinAnswer(event.waiter, ErrorCode.COORDINATOR_NOT_AVAILABLE if dying else error)
        case Sync():
            answer = SyncAnswer(event.waiter, ErrorCode.UNKNOWN_MEMBER_ID)
        case _:
            error = ErrorCode.UNKNOWN_MEMBER_ID
            gone = tuple(Departure(one.member_id, one.group_instance_id, error) for one in event.members)
            answer = LeaveAnswer(event.waiter, members=gone)
    return Say(event.connection, answer)


def refuse_native(event: GroupEvent) -> Say | None:
    """What a native member hears of a classic group; None: nothing, for nobody waits."""
    if not isinstance(event, Heard) or not isinstance(event.message, RegisterConsumerRequest):
        return None
    return Say(
        event.connection,
        RegisterConsumerResponse(
            correlation_id=event.message.correlation_id,
            error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            error_text="the group's members speak another protocol",
        ),
    )


def _is_register(event: GroupEvent) -> bool:
    return isinstance(event, Heard) and isinstance(event.message, RegisterConsumerRequest)
