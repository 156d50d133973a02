"""This room is what the doors of Kafka's admin requests need of the controller: one question, one answer.

A broker asks over its link, a node by a row of the database; who translates Kafka's words knows neither.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from kafkaserver.producer_ids import NoProducerIds
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer

LONGEST_TIMEOUT_MS = 300_000
"""So long at most anybody waits for what has to happen after the controller has decided."""

TURN_TIMEOUT_S = 30.0
"""For what is decided in one turn and waits for nothing more."""

ANSWER_GRACE_S = 2.0
"""For the turn itself and its answer's way back, beyond what a client lets the controller wait."""

Answer = TypeVar("Answer", bound=WishAnswer)
One = TypeVar("One")


class ControllerUnreachable(NoProducerIds):
    """Nobody answered: the client is told to try again. Whether the controller heard it is unknown."""


class TooLargeToForward(Exception):
    """The question is too large for any road to the controller; the client is told so."""


class Controller(Protocol):
    """The controller as a Kafka door reaches it."""

    async def ask(self, wish: Wish) -> WishAnswer:
        """The answer that belongs to the wish. Raises ControllerUnreachable, TooLargeToForward."""


async def answer_of(controller: Controller, wish: Wish, kind: type[Answer]) -> Answer:
    """Ask, and hear an answer of this kind. Raises ControllerUnreachable, TooLargeToForward."""
    answer = await controller.ask(wish)
    assert isinstance(answer, kind), f"{type(wish).__name__} was answered by {type(answer).__name__}"
    return answer


def portions(asked: Sequence[One], most: int) -> Iterator[tuple[One, ...]]:
    """All of them in their order, so many at a time: each portion is a wish, and a turn of the controller."""
    return (tuple(asked[first : first + most]) for first in range(0, len(asked), most))


def timeout_ms(stated_ms: int) -> int:
    """A client's timeout, within bounds."""
    return max(0, min(stated_ms, LONGEST_TIMEOUT_MS))


def waits_s(wish: Wish) -> float:
    """For how long the controller itself may keep the answer to this wish."""
    kept_ms: int | None = getattr(wish, "timeout_ms", None)
    return TURN_TIMEOUT_S if kept_ms is None else kept_ms / 1000


def refusal(
    error: ControllerUnreachable | TooLargeToForward, *, is_begun: bool = False
) -> tuple[ErrorCode, str]:
    """What a client is told when the controller was not asked, or did not answer.

    `is_begun`: others of the same request are decided. Where one is NOT_CONTROLLER Java's client asks for all
    of them again, and of those that it has deleted it would hear that there are none.
    """
    if isinstance(error, ControllerUnreachable):
        return ErrorCode.REQUEST_TIMED_OUT if is_begun else ErrorCode.NOT_CONTROLLER, str(error)
    return ErrorCode.POLICY_VIOLATION, str(error)
