"""Elections of which nobody will say more are forgotten a year after the last word; no others are."""

from typing import Any
from uuid import uuid4

import pytest

from controller.store_forgetting import forget_losses
from runtime.postgres import LaneConnection
from tests.integration.controller.test_store_keeps_what_a_turn_made_true import connection

__all__ = ["connection"]

RECENT, OLD = 365, 367
ADD = """
INSERT INTO election_loss (topic_id, topic_name, partition, leader_epoch, leader, isr, reason, cuts,
    acknowledged_by, acknowledged_why, closed, version, elected_at, cut_at, acknowledged_at)
VALUES (%s, 'orders', 0, 2, 1, '{2}', 'we test', '[]', '', '', %s, 1,
    now() - make_interval(days => %s), now() - make_interval(days => %s), now() - make_interval(days => %s))
"""


def add(
    connection: LaneConnection,
    *,
    closed: bool = True,
    elected: int = OLD,
    cut: int | None = None,
    acknowledged: int | None = None,
) -> None:
    """An election so many days ago; then a replica told what it lost, and somebody had seen it."""
    connection.execute(ADD, (uuid4(), closed, elected, cut, acknowledged))


def left(connection: LaneConnection) -> int:
    [(number,)] = connection.execute("SELECT count(*) FROM election_loss").fetchall()
    return int(number)


def test_what_is_over_goes(connection: LaneConnection) -> None:
    add(connection)
    add(connection, cut=OLD, acknowledged=OLD)
    assert (forget_losses(connection), left(connection)) == (2, 0)


@pytest.mark.parametrize(
    "told",
    [
        {"elected": RECENT},
        {"cut": RECENT},
        {"acknowledged": RECENT},
        {"closed": False},
        {"closed": False, "acknowledged": OLD},
    ],
    ids=str,
)
def test_what_was_told_lately_stays_and_what_may_be_told_yet(
    connection: LaneConnection, told: dict[str, Any]
) -> None:
    add(connection, **told)
    assert (forget_losses(connection), left(connection)) == (0, 1)


def test_they_go_a_batch_at_a_time(connection: LaneConnection) -> None:
    for _ in range(3):
        add(connection)
    assert [forget_losses(connection, rows=2) for _ in range(2)] == [2, 1]
