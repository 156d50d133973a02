"""This room shows what becomes of a second process with the id of a broker (conformance 156)."""

import pytest

from controller.core.events import LinkClosed, TimePassed, TookOver
from controller.core.state import ClusterState
from controller.core.turn import decide, heard
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.to_broker import HelloAccepted, HelloRefused
from tests.unit.controller_core.stage import Cluster, hello, row, said


@pytest.mark.parametrize("lost_tail", [True, False])
def test_it_is_refused_while_the_link_of_the_first_is_open(lost_tail: bool) -> None:
    """A copied config: by turns they were one broker, and the one without records led."""
    cluster = Cluster([row(0, (1,), 1, (1,))])
    decision = cluster.turn(hello(1, run="twin", lost_tail=lost_tail))

    [refused] = said(decision, "link-1twin")
    assert isinstance(refused, HelloRefused)
    assert refused.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert decision.records == () and cluster.state.memory.broker_of("link-1a") == 1


def test_a_process_that_was_killed_is_followed_at_once() -> None:
    cluster = Cluster([row(0, (1,), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    decision = cluster.turn(hello(1, run="b"))
    assert isinstance(said(decision, "link-1b")[0], HelloAccepted)


def test_one_that_may_lack_records_waits_until_the_session_is_over() -> None:
    """A link breaks for a moment; the twin with the empty folder must not be there first."""
    cluster = Cluster([row(0, (1,), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    assert isinstance(said(cluster.turn(hello(1, run="twin", lost_tail=True)), "link-1twin")[0], HelloRefused)
    cluster.later(cluster.settings.closed_link_timeout_ms)
    cluster.turn(TimePassed())
    decision = cluster.turn(hello(1, run="twin", lost_tail=True))
    assert isinstance(said(decision, "link-1twin")[0], HelloAccepted)


def test_a_link_that_nobody_closed_holds_its_place_for_one_session() -> None:
    cluster = Cluster([row(0, (1,), 1, (1,))])
    cluster.later(cluster.settings.broker_session_timeout_ms)
    cluster.turn(TimePassed())
    assert isinstance(said(cluster.turn(hello(1, run="b")), "link-1b")[0], HelloAccepted)


def test_the_same_process_may_always_open_another_link() -> None:
    cluster = Cluster([row(0, (1,), 1, (1,))])
    decision = cluster.turn(hello(1))
    assert isinstance(said(decision, "link-1a")[0], HelloAccepted)


def test_after_a_takeover_an_empty_folder_waits_for_who_was_live() -> None:
    cluster = Cluster([row(0, (1,), 1, (1,))])
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    refused = cluster.turn(hello(1, run="twin", lost_tail=True))
    assert isinstance(said(refused, "link-1twin")[0], HelloRefused)
    assert isinstance(said(cluster.turn(hello(1)), "link-1a")[0], HelloAccepted)
    assert cluster.partition().leader_epoch == 1


def test_a_refusal_is_not_heard_as_life() -> None:
    cluster = Cluster()
    decision = decide(cluster.state, [hello(1, run="twin")], cluster.now, cluster.settings)
    assert not heard(decision.state.memory, "link-1twin", 0, cluster.now, cluster.settings)
