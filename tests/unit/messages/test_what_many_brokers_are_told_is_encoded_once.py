"""A turn's frames to all brokers are the text that each of them would be by itself."""

from uuid import UUID

from controller.core.dispatch import AlikeChange, TurnChanges, frames_for
from muster.messages import codec
from muster.messages.codec import SharedTexts
from muster.messages.link.rows import AlikePartitions
from muster.messages.link.to_broker import BrokerPingAnswer, ToBroker

ORDERS = UUID(int=7)


def moved(assigned: tuple[int, ...], *numbers: int) -> AlikeChange:
    """Partitions that broker 4 gave up."""
    alike = AlikePartitions(ORDERS, assigned, assigned[0], 2, assigned, numbers)
    return AlikeChange((*assigned, 4), alike, (1,) * len(numbers))


def told() -> list[ToBroker]:
    changes = [moved((1, 2), 0, 1), moved((2, 3), 2), moved((3, 1), 3)]
    frames = frames_for([1, 2, 3, 4, 5], TurnChanges(9, 1, changes, (), ()))
    return [frame for of_one in frames.values() for frame in of_one]


def test_each_is_told_what_it_would_be_told_alone() -> None:
    frames = [*told(), BrokerPingAnswer(number=7), *told()]
    texts = SharedTexts()
    assert [texts.encode(one) for one in frames] == [codec.encode(one) for one in frames]


def test_what_several_are_told_alike_is_one_text() -> None:
    texts, frame = SharedTexts(), told()[0]
    assert texts.encode(frame) is texts.encode(frame)
