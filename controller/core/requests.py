"""This room names what a request to the controller is, and gives its answer to the turn that decides it.

A request is a row of the work table: whoever asks by it has no link, and may be gone before it is answered.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller.core.events import RequestSeat, Say, Saying
from controller.core.records import RequestAnswered
from muster.kernel.invariants import invariant
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer

KIND: Final = "controller.request"
"""The kind of work item."""

KEY: Final = "cluster"
"""The key of every one of them: the controller's lane knows no other."""


class Asked(Struct, frozen=True):
    """The payload of a request's row. It stands there as JSON, so the fields of wishes are only added to."""

    wish: Wish


def answered(replies: Sequence[Saying]) -> tuple[tuple[RequestAnswered, ...], tuple[Saying, ...]]:
    """What a turn says to seats, as records, and what it says on links."""
    records = []
    on_links = []
    for saying in replies:
        if isinstance(saying.link, RequestSeat):
            invariant(isinstance(saying, Say), "a seat cannot be hung up on")
            assert isinstance(saying, Say)
            assert isinstance(saying.frame, WishAnswer)
            seat = saying.link
            records.append(RequestAnswered(seat.id, seat.principal, seat.reason, saying.frame))
        else:
            on_links.append(saying)
    return tuple(records), tuple(on_links)
