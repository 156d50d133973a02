"""What replicas tell of an election that may have lost records stands in the journal in words."""

from uuid import UUID

import pytest

from controller.core.loss_rows import Cut, Loss
from controller.core.records import LossChanged, TurnStamped
from controller.journalling import entry
from muster.messages.link.losses import NOT_KNOWN


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (Cut(2, 120, 90), "broker 2 was cut from 120 to 90"),
        (Cut(2, 90, 90), "broker 2 had nothing to lose"),
        (
            Cut(2, 120, NOT_KNOWN),
            "broker 2 held 120 and does not know from where on they were not its leader's",
        ),
        (
            Cut(2, NOT_KNOWN, NOT_KNOWN),
            "broker 2 does not know what it held, its log could not be read before it went",
        ),
    ],
)
def test_each_replica_is_told_in_words(cut: Cut, words: str) -> None:
    lost = Loss(UUID(int=1), "orders", 3, 7, 1, (1, 2), "nobody of the ISR is live", 90, (cut,))
    (told,) = entry([], [LossChanged(lost), TurnStamped(7)]).summary["losses_told"]
    assert told == f"orders-3 in leader epoch 7: broker 1 began at 90; {words}"
