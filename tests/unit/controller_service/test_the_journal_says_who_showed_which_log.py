"""An election by how far logs go stands in the journal with all that were shown."""

from uuid import UUID

import pytest

from controller.core.records import LogsCompared, ShownLog, TurnStamped
from controller.journalling import entry


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (
            (ShownLog(1, 7, 90), ShownLog(2, 8, 100)),
            "logs end at 90 (broker 1, epoch 7), 100 (broker 2, epoch 8)",
        ),
        ((), "no log was shown"),
    ],
)
def test_each_log_is_told_in_words(shown: tuple[ShownLog, ...], words: str) -> None:
    made = LogsCompared(UUID(int=1), "orders", 3, 2, shown)
    (told,) = entry([], [made, TurnStamped(7)]).summary["logs_compared"]
    assert told == f"orders-3: broker 2 leads, {words}"
