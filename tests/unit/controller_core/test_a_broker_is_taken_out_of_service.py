"""This room shows how brokers are cordoned and unregistered, and what is refused (conformance 160)."""

from controller.core.draft import ClusterDecision
from controller.core.events import Heard, LinkClosed, RequestSeat, TimePassed
from controller.core.records import (
    BrokerCordoned,
    BrokerUnregistered,
    Phase,
    ReassignmentChanged,
    RequestAnswered,
)
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import BrokerResult, CordonBroker, UnregisterBroker
from muster.messages.link.from_broker import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    GrownTopic,
    NewTopic,
    WantedReplicas,
)
from muster.messages.link.to_broker import (
    Changes,
    CreateTopicsAnswer,
    HelloAccepted,
    HelloRefused,
    ReassignmentResults,
    TopicResults,
)
from tests.unit.controller_core.stage import FRESH, Cluster, heard, hello, row, said

SEAT = RequestSeat("1", "olga", "it is old")


def asked(cluster: Cluster, wish: CordonBroker | UnregisterBroker) -> tuple[BrokerResult, ClusterDecision]:
    """What somebody's request is answered."""
    decision = cluster.turn(Heard(SEAT, wish, FRESH))
    (answer,) = [one.answer for one in decision.records if isinstance(one, RequestAnswered)]
    assert isinstance(answer, BrokerResult)
    return answer, decision


def cordon(cluster: Cluster, broker_id: int, cordoned: bool = True) -> BrokerResult:
    return asked(cluster, CordonBroker(broker_id=broker_id, cordoned=cordoned, principal="olga"))[0]


def unregister(cluster: Cluster, broker_id: int) -> BrokerResult:
    return asked(cluster, UnregisterBroker(broker_id=broker_id))[0]


def is_cordoned(cluster: Cluster, broker_id: int) -> bool:
    return cluster.state.rows.brokers[broker_id].cordoned


def dies(cluster: Cluster, *brokers: int) -> None:
    cluster.turn(*(LinkClosed(f"link-{b}a") for b in brokers))
    cluster.later(1_000)
    cluster.turn(TimePassed())


def move(cluster: Cluster, *replicas: int) -> ErrorCode:
    wanted = WantedReplicas(topic="orders", partition=0, replicas=replicas)
    decision = cluster.turn(heard("link-1a", AlterReassignments(correlation_id=1, partitions=(wanted,))))
    (answer,) = [one for one in said(decision, "link-1a") if isinstance(one, ReassignmentResults)]
    return answer.results[0].error


# ---------------------------------------------------------------------------------- cordoned


def test_a_cordoned_broker_gets_nothing_new_and_keeps_what_it_has() -> None:
    cluster = Cluster([row(0, (3, 1), 3, (3, 1))], brokers=4)
    answer, decision = asked(cluster, CordonBroker(broker_id=3, cordoned=True, principal="olga"))
    assert (answer.error, answer.version) == (ErrorCode.NONE, cluster.state.rows.metadata_version)
    assert BrokerCordoned(3, True, "olga") in decision.records
    assert cluster.partition().leader == 3
    topics = (NewTopic(name="clicks", partition_count=6, replication_factor=2),)
    cluster.turn(heard("link-1a", CreateTopics(topics=topics, timeout_ms=0)))
    grown = (GrownTopic(name="orders", partition_count=4),)
    cluster.turn(heard("link-1a", CreatePartitions(topics=grown, timeout_ms=0)))
    new = [one for one in cluster.state.rows.partitions.values() if one.version > 5]
    assert len(new) == 9 and all(3 not in one.assigned for one in new)


def test_automatic_placement_says_how_many_brokers_are_left() -> None:
    cluster = Cluster()
    cordon(cluster, 3)
    topics = (NewTopic(name="clicks", partition_count=1, replication_factor=3),)
    decision = cluster.turn(heard("link-1a", CreateTopics(topics=topics, timeout_ms=0)))
    (answer,) = [one for one in said(decision, "link-1a") if isinstance(one, CreateTopicsAnswer)]
    assert answer.topics[0].error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert answer.topics[0].text == "3 replicas need as many brokers that are not cordoned, and there are 2"


def test_who_names_a_cordoned_broker_is_refused() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2))])
    cordon(cluster, 3)
    topics = (NewTopic(name="clicks", assignments={0: (3, 1)}),)
    decision = cluster.turn(heard("link-1a", CreateTopics(topics=topics, timeout_ms=0)))
    (created,) = [one for one in said(decision, "link-1a") if isinstance(one, CreateTopicsAnswer)]
    assert created.topics[0].error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    grown = (GrownTopic(name="orders", partition_count=2, assignments=((1, 3, 2),)),)
    decision = cluster.turn(heard("link-1a", CreatePartitions(topics=grown, timeout_ms=0)))
    (answer,) = [one for one in said(decision, "link-1a") if isinstance(one, TopicResults)]
    assert answer.topics[0].error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(cluster, 3, 1) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_move_may_keep_a_cordoned_broker_and_leave_it() -> None:
    cluster = Cluster([row(0, (3, 1), 3, (3, 1))])
    cordon(cluster, 3)
    assert move(cluster, 2, 3) is ErrorCode.NONE
    assert move(cluster, 2, 1) is ErrorCode.NONE


def test_the_cordon_is_lifted_and_survives_a_restart() -> None:
    cluster = Cluster()
    cordon(cluster, 3)
    cluster.turn(LinkClosed("link-3a"), hello(3, "b"))
    assert is_cordoned(cluster, 3)
    cordon(cluster, 3, cordoned=False)
    assert not is_cordoned(cluster, 3)
    before = cluster.state.rows.metadata_version
    assert cordon(cluster, 3, cordoned=False).error is ErrorCode.NONE
    assert cluster.state.rows.metadata_version == before


def test_who_looked_at_another_version_changes_nothing() -> None:
    cluster = Cluster()
    looked_at = cluster.state.rows.brokers[3].version
    cordon(cluster, 3)
    wish = CordonBroker(broker_id=3, cordoned=False, expected_version=looked_at)
    assert asked(cluster, wish)[0].error is ErrorCode.INVALID_UPDATE_VERSION
    dies(cluster, 3)
    gone = UnregisterBroker(broker_id=3, expected_version=looked_at)
    assert asked(cluster, gone)[0].error is ErrorCode.INVALID_UPDATE_VERSION


# ---------------------------------------------------------------------------------- unregistered


def test_a_drained_broker_that_stopped_is_unregistered_and_everybody_is_told() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2))])
    dies(cluster, 3)
    answer, decision = asked(cluster, UnregisterBroker(broker_id=3))
    assert (answer.error, answer.text) == (ErrorCode.NONE, "")
    assert BrokerUnregistered(3, 1) in decision.records
    assert set(cluster.state.rows.brokers) == {1, 2}
    for link in ("link-1a", "link-2a"):
        (changes,) = [one for one in said(decision, link) if isinstance(one, Changes)]
        assert changes.gone_brokers == (3,)


def test_a_live_broker_is_refused_also_between_two_links() -> None:
    cluster = Cluster()
    assert unregister(cluster, 3).error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.turn(LinkClosed("link-3a"))
    answer = unregister(cluster, 3)
    assert (answer.error, answer.text) == (
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        "broker 3 is live: stop it first",
    )


def test_one_that_holds_replicas_is_refused_and_they_are_named() -> None:
    cluster = Cluster([row(0, (1, 3), 1, (1, 3)), row(1, (3, 1), 3, (3, 1)), row(2, (1, 2), 1, (1, 2))])
    dies(cluster, 3)
    answer = unregister(cluster, 3)
    assert answer.error is ErrorCode.POLICY_VIOLATION
    assert answer.text == "broker 3 still holds 2 replicas, of orders (2): move them to others first"
    assert 3 in cluster.state.rows.brokers


def test_who_is_unknown_or_gone_is_not_registered() -> None:
    cluster = Cluster()
    assert unregister(cluster, 9).error is ErrorCode.BROKER_ID_NOT_REGISTERED
    dies(cluster, 3)
    assert unregister(cluster, 3).error is ErrorCode.NONE
    assert unregister(cluster, 3).error is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert cordon(cluster, 3).error is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_what_was_to_move_there_fails_and_stays_where_it_was() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2))])
    dies(cluster, 3)
    assert move(cluster, 1, 3) is ErrorCode.NONE
    assert cluster.partition().adding == (3,)
    answer, decision = asked(cluster, UnregisterBroker(broker_id=3))
    assert answer.error is ErrorCode.NONE
    ended = [one.row for one in decision.records if isinstance(one, ReassignmentChanged)]
    assert [(one.phase, one.reason) for one in ended] == [(Phase.FAILED, "broker 3 was unregistered")]
    assert (cluster.partition().assigned, cluster.partition().adding) == ((1, 2), ())
    assert not cluster.state.rows.reassignments


def test_while_a_broker_is_still_being_left_it_is_refused() -> None:
    cluster = Cluster([row(0, (1, 3), 1, (1, 3))])
    dies(cluster, 2, 3)
    assert move(cluster, 1, 2) is ErrorCode.NONE
    assert cluster.partition().removing == (3,)
    assert unregister(cluster, 3).error is ErrorCode.POLICY_VIOLATION


def test_its_id_may_come_again_with_an_epoch_that_nobody_had() -> None:
    cluster = Cluster()
    dies(cluster, 3)
    before = cluster.state.rows.brokers[3].broker_epoch
    unregister(cluster, 3)
    decision = cluster.turn(hello(3, "b", highest_broker_epoch=before, broker_epoch=before))
    (accepted,) = [one for one in said(decision, "link-3b") if isinstance(one, HelloAccepted)]
    assert accepted.broker_epoch > before
    assert not cluster.state.rows.brokers[3].cordoned


def test_a_hello_in_the_turn_of_its_end_is_refused() -> None:
    cluster = Cluster()
    dies(cluster, 3)
    gone = Heard(SEAT, UnregisterBroker(broker_id=3), FRESH)
    decision = cluster.turn(gone, hello(3, "b"))
    (refused,) = [one for one in said(decision, "link-3b") if isinstance(one, HelloRefused)]
    assert refused.error is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert 3 not in cluster.state.rows.brokers
