"""Nothing is told before it is committed: a broker that knows more than the rows shows they were set back."""

import pytest

from controller.core.events import HangUp, TookOver
from controller.core.records import SetBackProven, TurnStamped
from controller.core.state import ClusterState
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.to_broker import HelloAccepted, HelloRefused
from tests.unit.controller_core.stage import Cluster, hello, said


@pytest.mark.parametrize("known", ["metadata_version", "highest_metadata_version", "highest_broker_epoch"])
def test_it_is_refused_and_the_proof_is_kept_once(known: str) -> None:
    cluster = Cluster()
    version = cluster.state.rows.metadata_version
    decision = cluster.turn(hello(9, "a", **{known: version + 1}))
    [refused] = said(decision, "link-9a")
    assert isinstance(refused, HelloRefused) and refused.error is ErrorCode.DATABASE_SET_BACK
    assert "adopt_restore" in refused.text and f"{version + 1}" in refused.text
    assert any(isinstance(one, HangUp) and one.link == "link-9a" for one in decision.replies)
    stamped, proof = decision.records
    assert isinstance(stamped, TurnStamped) and isinstance(proof, SetBackProven)
    assert (proof.broker_id, proof.lacking) == (9, 1)
    assert 9 not in cluster.state.rows.brokers

    again = cluster.turn(hello(9, "a", **{known: version + 1}))
    assert isinstance(said(again, "link-9a")[0], HelloRefused) and again.records == ()


def test_turns_that_catch_up_let_it_in_no_more_than_before() -> None:
    cluster = Cluster()
    version = cluster.state.rows.metadata_version
    cluster.turn(hello(9, metadata_version=version + 1))
    cluster.turn(hello(8))
    assert cluster.state.rows.metadata_version > version + 1
    assert isinstance(said(cluster.turn(hello(9, metadata_version=version + 1)), "link-9a")[0], HelloRefused)


def test_whoever_knows_no_more_than_the_rows_comes_in() -> None:
    cluster = Cluster()
    version = cluster.state.rows.metadata_version
    decision = cluster.turn(hello(9, metadata_version=version, highest_metadata_version=version))
    assert isinstance(said(decision, "link-9a")[0], HelloAccepted)


def test_the_leader_epoch_of_a_topic_that_may_be_deleted_proves_nothing() -> None:
    decision = Cluster().turn(hello(9, highest_leader_epoch=1_000_000))
    assert isinstance(said(decision, "link-9a")[0], HelloAccepted)


def test_the_next_controller_judges_anew() -> None:
    cluster = Cluster()
    version = cluster.state.rows.metadata_version
    for stated, kind in ((version + 9, HelloRefused), (version, HelloAccepted)):
        cluster.turn(hello(9, metadata_version=version + 9))
        cluster.state = ClusterState(cluster.state.rows)
        cluster.turn(TookOver(8))
        assert isinstance(said(cluster.turn(hello(9, metadata_version=stated)), "link-9a")[0], kind)
