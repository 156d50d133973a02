"""Whoever acknowledges or tells a loss in the turn in which its topic, or its partition, goes is heard.

The rows were written in another order than they were decided: each attempt at such a turn failed, and read
the whole cluster again.
"""

import pytest

from controller import store
from controller.core import events as told
from controller.core import records as facts
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState
from controller.core.turn import decide
from muster.kernel.instants import Instant
from muster.messages.link import from_broker as ask
from muster.messages.link.losses import AcknowledgeLosses, LossReport, NamedLoss
from muster.messages.link.protocol import LINK_PROTOCOL
from runtime.postgres import LaneConnection
from tests.integration.controller.test_store_keeps_what_a_turn_made_true import (
    ORDERS,
    connection,
    turn,
    with_orders,
)

__all__ = ["connection"]

NOW = Instant(1_000)
SETTINGS = ControllerSettings()
EPOCH, LINK = 3, "the link of broker 1"

ACKNOWLEDGED = AcknowledgeLosses(losses=(NamedLoss(topic="orders", partition=2, leader_epoch=EPOCH),))
TOLD = ask.BrokerPing(number=1, metadata_version=1, losses=(LossReport(ORDERS, 2, EPOCH, 120, 90, 90, 300),))
DELETED = ask.DeleteTopics(topics=(ask.NamedTopic(name="orders"),))
REMOVED = ask.RemovePartitions(topic="orders", partition_count=2, force=True)


def linked(connection: LaneConnection) -> ClusterState:
    """The controller of a cluster whose broker 1 is linked, and in which an election lost something."""
    rows = with_orders(connection)
    turn(connection, rows, facts.PossibleLoss(ORDERS, 2, 2, "nobody in sync was left", EPOCH, (1, 3)))
    state = ClusterState(store.load(connection))
    frame = ask.BrokerHello(
        broker_id=1, incarnation=rows.brokers[1].incarnation, endpoints={}, protocol=LINK_PROTOCOL
    )
    for event in (told.TookOver(1), told.Hello(LINK, frame)):
        state = written(connection, state, event)
    for session in state.memory.sessions.values():
        session.protocol = LINK_PROTOCOL
    assert [loss.partition for loss in state.rows.losses.values()] == [2]
    return state


def written(connection: LaneConnection, state: ClusterState, *events: told.Event) -> ClusterState:
    """The state after one turn, which is stored."""
    decision = decide(state, events, NOW, SETTINGS)
    store.save(connection, state.rows, decision.records)
    connection.commit()
    return decision.state


@pytest.mark.parametrize("gone", [DELETED, REMOVED], ids=["the topic", "the partition"])
@pytest.mark.parametrize("said", [ACKNOWLEDGED, TOLD], ids=["acknowledged", "told"])
def test_what_is_said_of_a_loss_and_what_ends_it_are_one_turn(
    connection: LaneConnection, said: ask.FromBroker, gone: ask.FromBroker
) -> None:
    state = linked(connection)
    state = written(connection, state, *(told.Heard(LINK, frame, ORDERS) for frame in (said, gone)))
    assert not state.rows.losses
    assert store.load(connection) == state.rows
    kept = "SELECT closed, acknowledged_at IS NOT NULL, jsonb_array_length(cuts) FROM election_loss"
    assert connection.execute(kept).fetchall() == [(True, said is ACKNOWLEDGED, int(said is TOLD))]
