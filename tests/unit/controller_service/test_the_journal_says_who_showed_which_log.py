"""An election by how far logs go stands in the journal with all that were shown."""

from uuid import UUID

import pytest

from controller.core.records import LogsCompared, ShownEnd, ShownLogs, TurnStamped
from controller.journalling import NAMES_SHOWN, entry

FURTHER = ShownEnd(8, 100)


@pytest.mark.parametrize(
    ("brokers", "ends", "words"),
    [
        ((1, 2), (ShownEnd(7, 90), FURTHER), "logs end at 90 (broker 1, epoch 7), 100 (broker 2, epoch 8)"),
        ((1, 2), (FURTHER,), "logs end at 100 (broker 1, epoch 8), 100 (broker 2, epoch 8)"),
        (
            (1, 2),
            (ShownEnd(8, 90, 8), ShownEnd(7, 100, 9)),
            "logs end at 90 (broker 1, epoch 8), 100 (broker 2, epoch 7, led in 9)",
        ),
        ((2,), (FURTHER,), "logs end at 100 (broker 2, epoch 8)"),
        ((), (), "no log was shown"),
    ],
)
def test_each_log_is_told_in_words(brokers: tuple[int, ...], ends: tuple[ShownEnd, ...], words: str) -> None:
    made = LogsCompared(UUID(int=1), "orders", 2, brokers, (ShownLogs(3, ends),))
    (told,) = entry([], [made, TurnStamped(7)]).summary["logs_compared"]
    assert told == f"orders-3: broker 2 leads, {words}"


def test_of_very_many_the_first_are_told() -> None:
    logs = tuple(ShownLogs(number, (FURTHER,)) for number in range(1_000))
    summary = entry([], [LogsCompared(UUID(int=1), "orders", 2, (1, 2), logs), TurnStamped(7)]).summary
    told = summary["logs_compared"]
    assert len(told) == NAMES_SHOWN and told[-1].startswith(f"orders-{NAMES_SHOWN - 1}: ")
